"""The system's Chromium, driven by Playwright; whose own browsers are not used."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

PATH = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=_FLAGS, timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page whose complaints are collected."""

    def __init__(self, context: BrowserContext) -> None:
        context.set_default_timeout(WAIT_MS)
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, message: Any) -> None:
        # Answers with an error status are logged by the browser itself; the page shows them to the user.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)
