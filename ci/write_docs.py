"""Writes docs/rules.md and docs/options.md from rule files and options, or checks them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from pytest_ascendcache.plugin.options.settings import add_options
from pytest_ascendcache.reports.rule_reference import rule_reference

_DOCS = Path(__file__).parent.parent / "docs"
_HEAD = """\
# Options

All of pytest's own (`-n 4`, `-k`, `-x`, `--lf`, `--collect-only`, `--junitxml`) work as usual.
Only the suite: `pytest --ascend-cache --pyargs pytest_ascendcache.conformance`.
Made from the options' own help by `ci/docs`.

| option | meaning |
|---|---|
"""


class _Options:
    """Stands in pytest's place where options are registered, and keeps them."""

    def __init__(self) -> None:
        self.rows: list[str] = []

    def getgroup(self, *_: str) -> _Options:
        return self

    def addoption(self, name: str, **given: Any) -> None:
        value = given.get("metavar") or "|".join(given.get("choices", ()))
        shown = f"{name}={value}" if value else name
        escaped = shown.replace("|", "\\|")
        self.rows.append(f"| `{escaped}` | {given['help'].replace('|', chr(92) + '|')} |\n")


def option_reference() -> str:
    """Every option with its help, in the order of ``pytest --help``."""
    options: Any = _Options()
    add_options(options)
    return _HEAD + "".join(options.rows)


def main() -> int:
    """Write them, or say which are not current."""
    parser = argparse.ArgumentParser(prog="ci/docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for name, text in {"rules.md": rule_reference(), "options.md": option_reference()}.items():
        place = _DOCS / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not check:
                place.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} {'is not current: run ci/docs' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
