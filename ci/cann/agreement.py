"""Compares two reports check by check: of CANN's own code, and of the embedded profile 'cann'.

Run by ``ci/verify-cann``. Verdicts are comparable if both checks passed or found a broken promise.
Each difference must be explained in ``differences.toml``, and each explanation must still apply.
"""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract.toml import tomllib

_BROKEN = ("fail", "warn", "known deviation")


def _decided(path: Path) -> dict[str, bool]:
    """Return whether each check found a broken promise; undecided checks are left out."""
    checks: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["checks"]
    return {
        f"{each['rule']} {each['check'].partition('::')[2]}": each["verdict"] in _BROKEN
        for each in checks
        if each["verdict"] in ("pass", *_BROKEN)
    }


def main() -> int:
    """``agreement.py REAL.json PROFILE.json``; 1 if an unexplained difference or unused explanation
    is left."""
    real, profile = (_decided(Path(each)) for each in sys.argv[1:3])
    both = sorted(real.keys() & profile.keys())
    differing = [each for each in both if real[each] != profile[each]]
    text = Path(__file__).with_name("differences.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["difference"]
    patterns = {f"{each['rule']} {each.get('check', '*')}": each["reason"] for each in entries}

    def explained(check: str, pattern: str) -> bool:
        return fnmatchcase(check.replace("[", "("), pattern.replace("[", "("))

    left = [each for each in differing if not any(explained(each, one) for one in patterns)]
    unused = [one for one in patterns if not any(explained(each, one) for each in differing)]
    print(f"profile: agrees with CANN's code in {len(both) - len(differing)} of {len(both)} checks")
    for each in left:
        which = "only CANN's code" if real[each] else "only the profile"
        print(f"profile: unexplained difference: {each}: broken by {which}")
    for one in unused:
        print(f"profile: explained, but the verdicts agree: {one}")
    return bool(left or unused)


if __name__ == "__main__":
    sys.exit(main())
