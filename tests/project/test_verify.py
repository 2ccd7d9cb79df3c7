"""``ci/verify``, the first command of the README, prints at once what it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.conftest import Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, "scratch", "verify")


def test_every_step_is_announced_before_it_begins(checkout: Checkout) -> None:
    lines = checkout.run("verify").splitlines()
    assert lines[0].startswith("ci/verify: judging a toolchain, the embedded reference unless you")
    assert "the core of the suite, about a minute" in lines[0]
    assert lines[1:4] == [
        "ci/setup: making .venv with Python 3.11.0",
        "ci/setup: installing the project into .venv (once, about a minute, 300 MB):",
        "ci/setup:   numpy>=1.24",
    ]
    assert lines[4:] == ["started: -m pytest --ascend-cache"]
    assert len(checkout.run("verify").splitlines()) == 2  # the second run installs nothing


def test_it_says_how_long_a_part_takes(checkout: Checkout) -> None:
    for argument, end in (
        ("--ascend-select=60runs", "a quick selection, about 15 s"),
        ("--ascend-rule=x", "the rules that you name"),
    ):
        assert checkout.run("verify", argument).splitlines()[0].endswith(end)
