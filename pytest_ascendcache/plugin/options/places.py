"""Checks of where a run writes: no file twice, none inside an audited directory, and none of the
user's own work, which a typing error must not cost."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.existing import ReleaseSettings
from pytest_ascendcache.plugin.options.option import Access
from pytest_ascendcache.plugin.options.values import Values

_FOREIGN = ("--junitxml", "--log-file", "--html", "--report-log")
"""Options of pytest and of common plugins that write a file."""

NO_PATH_OF_ATC = re.compile(r"[^A-Za-z0-9._/-]")
"""A character that some releases of ATC reject in the path of a cache."""

GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file that GitHub shows as the summary of a job."""


def check_places(
    config: pytest.Config, values: Values, release: ReleaseSettings, audited: Sequence[Path]
) -> None:
    """Refuse, before anything runs, output files that would be lost or would damage something.

    Raises ``pytest.UsageError`` for a file that cannot be written, that two options write, that one
    writes and another reads, or that is inside one of the ``audited`` directories.
    """
    from pytest_ascendcache.files import check_output, is_stream

    ours = [*values.files(Access.WRITES, Access.CONTINUES), *release.manifests]
    for shown, path in ours:
        try:
            check_output(path)
        except OSError as error:
            raise pytest.UsageError(f"{shown}: {error.strerror}.") from None
    for shown, path in values.files(Access.CONTINUES):
        if is_stream(path):
            raise pytest.UsageError(
                f"{shown} is not a regular file, so no later run can go on from it; name a file."
            )
        if any(each.model is not None for each in release.releases):
            _check_conversions(shown, path)
    written = [*ours, *_foreign(config)]
    seen: dict[Path, str] = {}
    for shown, path in written:
        other = seen.setdefault(_real(path), shown)
        if other is not shown:
            raise pytest.UsageError(f"{other} and {shown} are one file; name two.")
    for shown, path in [*values.files(Access.READS), *release.inputs]:
        if (real := _real(path)) in seen:
            raise pytest.UsageError(
                f"{seen[real]} would replace the file that {shown} reads; name another."
            )
    for shown, path in ours if not hasattr(config, "workerinput") else ():
        _check_earlier(shown, path)
    for shown, path in [*written, *_directories(config)]:
        for directory in audited:
            _keep_out(shown, path, directory)


def conversions_beside(journal: Path) -> Path:
    """The directory of finished model conversions: next to the file of ``--ascend-resume``."""
    return journal.with_name(f"{journal.name}.conversions")


def _check_conversions(shown: str, journal: Path) -> None:
    """Refuse a directory that conversions cannot use; the run removes what lies in it."""
    place = conversions_beside(journal)
    if refused := NO_PATH_OF_ATC.search(str(place)):
        raise pytest.UsageError(
            f"{shown}: conversions are kept in {place}, which contains {refused[0]!r}, and ATC "
            "does not accept that in paths; name another file."
        )
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise pytest.UsageError(
            f"{shown}: conversions are kept in {place}, which is not a directory; name "
            "another file."
        )


def _real(path: Path) -> Path:
    """The resolved path. ``Path.resolve`` fails for a symbolic link that leads to itself."""
    return Path(os.path.realpath(path))


def _foreign(config: pytest.Config) -> list[tuple[str, Path]]:
    """Files that pytest, other plugins and GitHub's summary write in this run."""
    given = [(name, config.getoption(name, None)) for name in _FOREIGN]
    named = [(f"{name}={text}", Path(text)) for name, text in given if text]
    if place := os.environ.get(GITHUB_SUMMARY):
        named.append((f"{GITHUB_SUMMARY}={place}", Path(place)))
    return [(shown, config.invocation_params.dir / path) for shown, path in named]


def _directories(config: pytest.Config) -> list[tuple[str, Path]]:
    """Directories that pytest itself writes to."""
    directories: list[tuple[str, Path]] = []
    if base := config.getoption("--basetemp", None):
        directories.append((f"--basetemp={base}", Path(base)))
    if config.pluginmanager.hasplugin("cacheprovider"):
        place = config.rootpath / config.getini("cache_dir")
        shown = f"pytest's own cache {place} (leave it out with -p no:cacheprovider)"
        directories.append((shown, place))
    return directories


def _keep_out(shown: str, place: Path, directory: Path) -> None:
    """Refuse to write to ``place`` where it is inside an audited ``directory``."""
    resolved, audited = _real(place), _real(directory)
    # pytest empties its --basetemp.
    emptied = shown.startswith("--basetemp") and audited.is_relative_to(resolved)
    if resolved.is_relative_to(audited) or emptied:
        raise pytest.UsageError(
            f"{shown} would be written in {directory}, which is audited and not written to; name "
            "another place."
        )


_HEAD = 4096
"""Bytes that are enough to recognise an output."""

_PAGE_MARK = b'<meta name="generator" content="pytest-ascendcache">'
"""In the head of every page that this package writes."""


def _json(*keys: bytes) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip().startswith(b"{") and all(each in head for each in keys)


def _lines(*keys: bytes) -> Callable[[bytes], bool]:
    """The first line is a JSON document with these keys."""
    return lambda head: _json(*keys)(head.partition(b"\n")[0])


_EARLIER: dict[str, Callable[[bytes], bool]] = {
    "--ascend-report": _json(b'"schema":', b'"plugin":'),
    "--ascend-html": lambda head: _PAGE_MARK in head,
    "-o ascend_stress_history": _lines(b'"line":', b'"header"'),
    "--ascend-manifest-update": _json(b'"schema":'),
}


def _check_earlier(shown: str, path: Path) -> None:
    """Raise ``pytest.UsageError`` for a file that is no earlier output of the option ``shown``; it
    may be empty, as ``mktemp`` makes it."""
    is_ours = next((each for name, each in _EARLIER.items() if shown.startswith(name)), None)
    if is_ours is None or not path.is_file():
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            head = file.read(_HEAD)
    except OSError:
        head = b"?"
    if head and not is_ours(head):
        raise pytest.UsageError(
            f"{shown}: the file exists and no earlier run has written it; name another file, or "
            "remove it."
        )
