"""The places where users read, and the private words that do not stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.plugin.options.table import ROWS

ROOT = Path(__file__).parents[2]
PRIVATE = re.compile(
    r"(?<![-/_.\w])(lives|matrix|profiles?|shelf|shelves|cells?|told|pace|strains?)(?![-_=\w(])",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`\n]*`")
_FOR_CONTRIBUTORS = ("docs/design/", "docs/findings/", "docs/zh/findings/", "docs/example-ccache/")
_FOR_CONTRIBUTORS += ("docs/adding-a-rule.md", "docs/api.md")


def places() -> Iterator[tuple[str, str]]:
    """Yield what users read, a line or a sentence at a time, each with its place."""
    for name, option in ROWS.items():
        yield f"help of {name}", option.help
    for path in sorted((ROOT / "pytest_ascendcache/language").rglob("*.toml")):
        for key, value in tomllib.loads(path.read_text(encoding="utf-8")).items():
            texts = value.values() if isinstance(value, dict) else (key,)
            yield from ((f"{path.name}: {key}", str(each)) for each in texts)
    for path in [*ROOT.glob("README*.md"), *sorted((ROOT / "docs").rglob("*.md"))]:
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(_FOR_CONTRIBUTORS):
            continue
        code = ""
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("```"):
                code = "" if code else line[3:] or "text"
            elif code in ("", "console", "text"):
                yield f"{name}:{number}", _CODE.sub("", line)
