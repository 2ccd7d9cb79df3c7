"""The suite's own ``op_compiler``: it records who calls it and returns a prepared package."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.caches import InstalledKernels
from pytest_ascendcache.observation.impostor import Impostor

_STAND_IN = """\
#!/bin/sh
# op_compiler of the conformance suite: records who calls it and returns a prepared package.
rank=${{RANK:-0}}
echo "$rank" >> {log}
while [ $# -gt 0 ]; do
    case $1 in -o) output=$2 ;; -p) info=$2 ;; esac
    shift
done
mkdir -p {given}/$rank && [ -z "$info" ] || cp "$info"/* {given}/$rank
{before}
cp {package} "$output/"
"""
_WRAPPED = """\
#!/bin/sh
{package} "$@" || exit
{after}
"""
_MARK = """\
import os
from pathlib import Path
from {module} import InstalledKernels
installed = InstalledKernels(Path(os.environ["ASCEND_OPP_PATH"]))
for entry in installed.index().values():
    installed.put_object(entry, Path({object!r}).read_bytes(), {symbol!r})
"""


@dataclass(frozen=True)
class StandIn:
    """An ``op_compiler`` that records its callers and their operators."""

    path: Path
    package: Path
    log: Path

    @classmethod
    def make(
        cls, directory: Path, package: Path, before: str, after: str, impostor: Impostor | None
    ) -> StandIn:
        """Write the script into an empty directory. Its package replaces every kernel it installs
        by ``impostor``, if there is one."""
        if impostor is not None:
            (directory / "impostor.o").write_bytes(impostor.object)
            code = _MARK.format(
                module=InstalledKernels.__module__,
                object=str(directory / "impostor.o"),
                symbol=impostor.symbol,
            )
            after = f"{shlex.join([sys.executable, '-c', code])}\n{after}"
        if after:
            script = directory / package.name
            original = shlex.quote(str(package))
            _write_script(script, _WRAPPED.format(package=original, after=after))
            package = script
        log = directory / "calls"
        quoted = {
            "log": shlex.quote(str(log)),
            "given": shlex.quote(str(directory / "given")),
            "package": shlex.quote(str(package)),
        }
        path = directory / "op_compiler"
        _write_script(path, _STAND_IN.format(before=before.format(**quoted), **quoted))
        return cls(path, package, log)

    def given(self, rank: int) -> list[Path]:
        """The files of operator information a card passed to it; none if the card never called
        it."""
        return sorted((self.log.with_name("given") / str(rank)).glob("*"))

    @property
    def calls(self) -> list[int]:
        """The cards that called it, in order."""
        return [int(line) for line in self.log.read_text().split()] if self.log.exists() else []


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
