"""Wraps a user's op_compiler: records who calls it and what becomes of its packages, and injects
faults.

Every package it makes is wrapped. The wrapper records that it runs and how it ends, and wraps the
installed ``uninstall.sh`` too. After an install it sets the access time of the shared index back,
which shows later whether a process has read it. A probe file next to the index tells whether access
times work here at all: other cards may install at the same time.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path, PurePath

from pytest_ascendcache.caches.static_kernels import Key, entries_of
from pytest_ascendcache.observation.evidence import NotDecidable

_COMPILER = """\
#!/bin/sh
# op_compiler of the conformance suite, around {program}.
notes={notes}
echo "${{RANK:-session-$(cut -d ' ' -f 6 /proc/self/stat)}}" >> "$notes/calls"
call=$(wc -l < "$notes/calls")
output=. folder= before=
for word; do
    case $before in -o|--output) output=$word ;; -p|--op_params_dir) folder=$word ;; esac
    before=$word
done
cp -r "$folder" "$notes/asked.$call"
{compile}
{program} "$@"
status=$?
for package in "$output"/*.run; do
    [ -f "$package" ] || continue
    name=${{package##*/}}
    [ ! -e "$notes/real/$name" ] || continue
    mkdir -p "$notes/real"
    mv "$package" "$notes/real/$name"
    sed "s/@NAME@/$name/g" "$notes/package" > "$package"
    chmod +x "$package"
done
exit $status
"""
_WHOSE = """\
notes=$(command -v op_compiler) && notes=${{notes%/*}}/notes
[ -d "$notes" ] || notes={notes}"""
"""A package that is kept is recorded by the run that uses it, not by the one that made it, and the
faults of the latter do not occur again."""
_STATE = """\
indexes() { ls -d "$ai_core"/config/*/binary_info_config.json 2> /dev/null; }
was_read() {
    for index in $(indexes); do
        [ "$(stat -c %X "$index")" = 1 ] || { echo read; return; }
    done
    echo unread
}
"""
_PACKAGE = """\
#!/bin/sh
# A package with the conformance suite around it.
export ASCENDCACHE_PACKAGE_HOLDER=${{ASCENDCACHE_PACKAGE_HOLDER:-$PPID}}
{whose}
name=@NAME@ opp=$ASCEND_OPP_PATH
for word; do case $word in --install-path=*) opp=${{word#*=}} ;; esac; done
ai_core=$opp/static_kernel/ai_core
{state}
echo "begin $name $(was_read)" >> "$notes/events"
if [ "$notes" = {notes} ]; then
    :
    {install}
fi
{notes}/real/$name "$@"
status=$?
if [ "$notes" = {notes} ]; then
    :
    {after}
fi
rm -f "$notes"/index.*
for index in $(indexes); do
    chip=${{index%/*}}
    cat "$index" > "$notes/index.${{chip##*/}}"
    cat "$index" > "$notes/any-index.$$.${{chip##*/}}"
    probe=$chip/.ascendcache-read.$$
    cat "$index" > "$probe"
    touch -a -d @1 "$probe"
    cat "$probe" > /dev/null
    [ "$(stat -c %X "$probe")" != 1 ] || echo "blind $name -" >> "$notes/events"
    rm -f "$probe"
    touch -a -d @1 "$index"
done
directory=$ai_core/${{name%.run}}
if [ -f "$directory/uninstall.sh" ] && [ ! -e "$directory/uninstall.real.sh" ]; then
    for index in $(indexes); do touch -a -d @1 "$index"; done
    mv "$directory/uninstall.sh" "$directory/uninstall.real.sh"
    sed "s/@""NAME@/$name/g" {notes}/uninstall > "$directory/uninstall.sh"
    chmod +x "$directory/uninstall.sh"
fi
[ "$status" != 0 ] || date +%s.%N >> "$notes/installed"
echo "installed $name $status" >> "$notes/events"
if [ "$notes" = {notes} ]; then
    :
    {installed}
fi
exit $status
"""
_UNINSTALL = """\
#!/bin/sh
export ASCENDCACHE_PACKAGE_HOLDER=${{ASCENDCACHE_PACKAGE_HOLDER:-$PPID}}
{whose}
name=@NAME@ directory=$(cd "$(dirname "$0")" && pwd)
ai_core=${{directory%/*}}
{state}
echo "remove $name $(was_read)" >> "$notes/events"
{remove}
"$directory/uninstall.real.sh" "$@"
status=$?
echo "removed $name $status" >> "$notes/events"
exit $status
"""


@dataclass(frozen=True)
class Provocation:
    """Faults to inject, as shell commands. ``$call`` counts calls of op_compiler from 1,
    ``$folder`` has its operators, ``$PPID`` is the caller, ``$status`` how the install ended.

    ``compile`` runs before op_compiler, ``install`` before a package's install, ``after`` right
    after it, ``installed`` when everything is recorded, and ``remove`` before an uninstall.
    """

    compile: str = ""
    install: str = ""
    after: str = ""
    installed: str = ""
    remove: str = ""


@dataclass(frozen=True)
class Event:
    """``begin``, ``installed``, ``remove``, ``removed`` or ``blind``; the package; and how it
    ended, or whether the index was read since the last install."""

    what: str
    package: str
    how: str


@dataclass(frozen=True)
class WatchedCompiler:
    """``directory`` holds the command ``op_compiler`` and belongs first on PATH."""

    directory: Path
    notes: Path

    @classmethod
    def make(cls, directory: Path, program: str, wrong: Provocation) -> WatchedCompiler:
        """Write the commands into an empty directory."""
        notes = directory / "notes"
        notes.mkdir()
        quoted = {"notes": shlex.quote(str(notes)), "program": shlex.quote(program)}
        around = {"state": _STATE, "whose": _WHOSE.format(**quoted)}
        texts = {
            directory / "op_compiler": _COMPILER.format(compile=wrong.compile, **quoted),
            notes / "package": _PACKAGE.format(
                install=wrong.install,
                after=wrong.after,
                installed=wrong.installed,
                **around,
                **quoted,
            ),
            notes / "uninstall": _UNINSTALL.format(remove=wrong.remove, **around),
        }
        for path, text in texts.items():
            path.write_text(text)
            path.chmod(0o755)
        return cls(directory, notes)

    @property
    def callers(self) -> tuple[str, ...]:
        """The cards that called it, in order: by rank, or by session if they have none."""
        return tuple(self._note("calls").split())

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of packages, in order."""
        return tuple(Event(*line.split(" ", 2)) for line in self._note("events").splitlines())

    @property
    def installed(self) -> tuple[str, ...]:
        """The packages that were installed, in order."""
        return tuple(
            each.package for each in self.events if (each.what, each.how) == ("installed", "0")
        )

    @property
    def moments(self) -> tuple[float, ...]:
        """When packages were installed, in seconds of the system's clock."""
        return tuple(map(float, self._note("installed").split()))

    def _note(self, name: str) -> str:
        path = self.notes / name
        return path.read_text() if path.exists() else ""

    def asked(self, call: int) -> list[Path]:
        """The files op_compiler received in one call, counted from 1."""
        return sorted((self.notes / f"asked.{call}").rglob("*.json"))

    @property
    def made(self) -> dict[str, Path]:
        """The packages it made, by name."""
        return {path.name: path for path in (self.notes / "real").glob("*")}

    def index(self) -> dict[Key, str]:
        """The index after the last install: the package of each kernel. Raises ``NotDecidable`` if
        the index was incomplete."""
        return self._read("index.*")

    def keys(self, ever: bool = False) -> set[Key]:
        """Operator type and simplified key of every kernel in the index after the last install, or
        after any (``ever``). Raises ``NotDecidable`` if one of them was incomplete."""
        return set(self._read("any-index.*" if ever else "index.*"))

    def _read(self, names: str) -> dict[Key, str]:
        packages: dict[Key, str] = {}
        try:
            for path in self.notes.glob(names):
                for key, entry in entries_of(path.read_bytes()).items():
                    packages[key] = f"{PurePath(str(entry['binPath'])).parts[0]}.run"
        except ValueError as error:
            raise NotDecidable(f"the index after an install is incomplete: {error}") from None
        return packages

    def reselected(self) -> bool:
        """Whether a process read the index after an install. Raises ``NotDecidable`` if this file
        system does not record access times."""
        if any(each.what == "blind" for each in self.events):
            raise NotDecidable("access times do not show here whether a file was read")
        after_install = False
        for each in self.events:
            if after_install and each.how == "read":
                return True
            after_install = after_install or (each.what, each.how) == ("installed", "0")
        return False
