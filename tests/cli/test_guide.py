"""The guide to the commands: all are in it, and what it shows can be typed."""

import re
import shlex
from pathlib import Path

import pytest

from tidelog.cli.main import _parse, command_names

GUIDE = (Path(__file__).parents[2] / "docs/guide/commands.md").read_text()
BLOCKS = re.findall(r"```\n(.*?)```", GUIDE, re.DOTALL)
SHOWN = [
    part.strip()
    for block in BLOCKS
    for line in block.splitlines()
    for part in re.sub(r"\s+#.*", "", line).split(" | ")
    if part.strip().startswith("tidelog ")
]


@pytest.mark.parametrize("command", command_names())
def test_every_command_is_in_the_guide(command):
    assert f"tidelog {command}" in GUIDE


@pytest.mark.parametrize("line", SHOWN)
def test_what_it_shows_is_understood(line):
    words = shlex.split(line.removesuffix("&"))[1:]
    assert callable(_parse(words).run)
