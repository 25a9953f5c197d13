"""Whoever closes a client, and however many do: it ends, once, and nobody waits for ever or is told of a loop that stopped."""

import threading
from typing import Any

import pytest

from tidelog import Admin, Consumer, Producer
from tidelog.client.background import Ended, LoopThread
from tidelog.errors import TidelogError


@pytest.mark.parametrize("kind", [Admin, Consumer, Producer])
def test_closing_while_another_thread_is_about_to_be_done_with_it(
    bootstrap: str, kind: Any
) -> None:
    """One thread uses the client and closes it in the end; another closes it at any moment."""
    failures: list[BaseException] = []

    def close(client: Any, ready: threading.Barrier, turns: int) -> None:
        ready.wait(60)
        for _ in range(turns):
            pass
        try:
            client.close()
        except BaseException as error:  # noqa: BLE001 - whatever it is, nobody expects it
            failures.append(error)

    for number in range(60):
        client = kind(bootstrap_servers=bootstrap)
        ready = threading.Barrier(3)
        threads = [
            threading.Thread(target=close, args=(client, ready, turns), daemon=True)
            for turns in (0, number * 700, number * 1500)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join(60)
            assert not each.is_alive(), "waits for a loop that is gone"
    assert failures == []


def test_what_is_under_way_when_the_thread_ends_is_told_of_it() -> None:
    thread = LoopThread("test")
    begun = threading.Event()

    async def wait_for_ever() -> None:
        import asyncio

        begun.set()
        await asyncio.Event().wait()

    waiting = thread.start(wait_for_ever())
    assert begun.wait(60)
    stopper = threading.Thread(target=thread.stop)
    stopper.start()
    thread.stop()
    stopper.join(60)
    assert waiting.cancelled()
    with pytest.raises(Ended, match="the client is closed"):
        thread.run(wait_for_ever())
    assert issubclass(Ended, TidelogError)
