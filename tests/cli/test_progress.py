"""The bar is for terminals."""

import io

from tidelog.cli._progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_that_goes_away():
    stream = Terminal()
    with Progress(200, stream) as progress:
        progress.update(100)
        assert stream.getvalue() == "\r[" + "#" * 15 + " " * 15 + "]  50% \x1b[K"
    assert stream.getvalue().endswith("\r\x1b[K")


def test_nobody_else_does():
    stream = io.StringIO()
    with Progress(0, stream) as progress:
        progress.update(5)
    assert stream.getvalue() == ""
