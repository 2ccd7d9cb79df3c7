"""The project is written in plain English, without the words of its former dialect."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.project.user_words import PRIVATE, places

ROOT = Path(__file__).parents[2]

INSTEAD = {
    r"[Ww]hoever": "say who: the user, the process, a rank",
    r"[Ss]omebody": "say who: another user, another process",
    "there or not": "whether or not the file exists",
    "else none": "or None",
    "without a word": "and printed nothing; silently",
    "so far as": "as long as; to the extent that",
}
"""Patterns of dialect, and what to write instead."""

SUFFIXES = (".py", ".md", ".toml", ".j2", ".js", ".yml", ".sh")
QUOTES = ("docs/findings/", "CHANGELOG.md", "tests/project/test_wording.py")
"""Files that quote others, or record history."""


def _files() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.splitlines() or [
        str(path.relative_to(ROOT)) for path in (ROOT / "pytest_ascendcache").rglob("*")
    ]
    chosen = [each for each in names if each.endswith(SUFFIXES) and not each.startswith(QUOTES)]
    return [path for each in chosen if (path := ROOT / each).is_file()]


def test_no_word_of_the_former_dialect_comes_back() -> None:
    dialect = re.compile(rf"\b({'|'.join(INSTEAD)})\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := dialect.search(line))
    ]
    assert found == [], f"write instead: {INSTEAD}"


def test_no_private_word_reaches_a_user() -> None:
    found = [f"{place}: {match[0]}" for place, text in places() if (match := PRIVATE.search(text))]
    assert found == [], "use the words of language/words.toml instead"
