"""Pages in two languages change together: docs/zh/pairs.json notes what each pair was last like."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_NOTES = _ROOT / "docs/zh/pairs.json"
_GENERATED = re.compile(r"<!-- (\w+): made by ci/docs -->.*?<!-- /\1 -->", re.DOTALL)


def english_of(chinese: Path, root: Path = _ROOT) -> Path:
    """The English page of a Chinese one."""
    if chinese.parent == root:
        return root / "README.md"
    return root / "docs" / chinese.relative_to(root / "docs/zh")


def unlike(
    made: Collection[str], same: Collection[str], write: bool, root: Path = _ROOT
) -> list[str]:
    """A sentence for each pair of which one page has changed and the other has not.

    ``made`` are pages of docs/ that are generated; pages named in ``same`` need no change of the
    other. With ``write``, pairs that have changed together are noted.
    """
    notes_at = root / _NOTES.relative_to(_ROOT)
    notes = json.loads(notes_at.read_text(encoding="utf-8")) if notes_at.exists() else {}
    found, kept = list[str](), dict[str, list[str]]()
    for chinese in [root / "README.zh.md", *sorted((root / "docs/zh").glob("*.md"))]:
        name, english = chinese.relative_to(root).as_posix(), english_of(chinese, root)
        if name.removeprefix("docs/") in made or not english.exists():
            continue
        pair = [english, chinese]
        shown = [each.relative_to(root).as_posix() for each in pair]
        now = [_digest(each) for each in pair]
        then = notes.get(name)
        changed = [then is None or each != old for each, old in zip(now, then or now, strict=True)]
        accepted = all(changed) or not {*shown}.isdisjoint(same)
        kept[name] = now if accepted else then or now
        if not any(changed) or (write and accepted):
            continue
        if accepted:
            found.append(f"{shown[0]} and {shown[1]} have changed: run ci/docs to note it")
            continue
        one, other = shown if changed[0] else reversed(shown)
        found.append(
            f"{one} has changed and {other} has not: change both, or say that nothing is to be "
            f"changed there with ci/docs --same {one}"
        )
    if write:
        notes_at.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return found


def _digest(page: Path) -> str:
    text = _GENERATED.sub("", page.read_text(encoding="utf-8"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
