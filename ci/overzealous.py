"""Judges changes of the suite that make it ask too much (``ci/overzealous.toml``).

Each is made in a copy of the package. There it must be noticed by what ``ci/test`` runs: the check
that is named accuses the innocent that is named, or the test that is named fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pytest_ascendcache.contract.toml import tomllib
from pytest_ascendcache.qualification.matrix import node_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "pytest_ascendcache"
CHANGES = tomllib.loads((ROOT / "ci/overzealous.toml").read_text(encoding="utf-8"))


def main() -> int:
    """Entry point. Returns 1 if a change is not noticed."""
    parser = argparse.ArgumentParser(prog="ci/overzealous.py", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of changes (default: all)")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="(default: 2)")
    options = parser.parse_args()
    names = options.names or [*CHANGES]
    with ThreadPoolExecutor(options.at_once) as pool:
        noticed = dict(zip(names, pool.map(_is_noticed, names), strict=True))
    for name, found in noticed.items():
        print(f"{'noticed' if found else 'NOT NOTICED':<12} {name}")
    print(f"{sum(noticed.values())} of {len(noticed)} noticed")
    return int(not all(noticed.values()))


def _is_noticed(name: str) -> bool:
    change = CHANGES[name]
    with tempfile.TemporaryDirectory(prefix="ascendcache-overzealous-") as work:
        shutil.copytree(ROOT / PACKAGE, Path(work, PACKAGE))
        path = Path(work, PACKAGE, change["file"])
        text = path.read_text(encoding="utf-8")
        if text.count(change["old"]) != 1:
            raise SystemExit(f"{name}: {change['file']} has not one {change['old']!r}")
        path.write_text(text.replace(change["old"], change["new"]), encoding="utf-8")
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_asks(change)],
            cwd=work,
            env={**os.environ, "PYTHONPATH": work},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode not in (0, 1):
        raise SystemExit(f"{name}: {(ended.stdout + ended.stderr)[-2000:]}")
    return ended.returncode == 1


def _asks(change: Mapping[str, str]) -> list[str]:
    if "test" in change:
        return [str(ROOT / change["test"])]
    defect = f"--ascend-defect={change['innocent']}"
    return ["--ascend-cache", "--ascend-strict", defect, "--pyargs", node_of(change["check"])]


if __name__ == "__main__":
    sys.exit(main())
