"""Where a run writes: each place once, none of them in a directory that is audited."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.option import Access
from pytest_ascendcache.plugin.options.release import ReleaseSettings
from pytest_ascendcache.plugin.options.values import Values, files_of

_FOREIGN = ("--junitxml", "--log-file", "--html", "--report-log")
"""Options of pytest and of well-known plugins that write a file."""

NO_PATH_OF_ATC = re.compile(r"[^A-Za-z0-9._/-]")
"""A character that ATC does not take in the path of a cache in some of its releases."""

GITHUB_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file GitHub shows as the summary of a job."""


def check_places(
    config: pytest.Config, values: Values, release: ReleaseSettings, audited: Sequence[Path]
) -> None:
    """Refuse what would be lost or damaged by what is written at the end, before anything runs.

    Raises:
        pytest.UsageError: for a file that cannot be written, that two options write or that
            another one reads, or that is in one of the ``audited`` directories.
    """
    ours = files_of(values, Access.WRITES, Access.CONTINUES)
    for shown, path in [*ours, *release.manifests]:
        _check_writable(shown, path)
    for shown, path in files_of(values, Access.CONTINUES):
        _check_log(shown, path)
        if any(each.model is not None for each in release.releases):
            _check_conversions(shown, path)
    written = [*ours, *release.manifests, *_foreign(config)]
    seen: dict[Path, str] = {}
    for shown, path in written:
        other = seen.setdefault(_real(path), shown)
        if other is not shown:
            raise pytest.UsageError(f"{other} and {shown} are one file; name two.")
    for shown, path in files_of(values, Access.READS):
        if (real := _real(path)) in seen:
            raise pytest.UsageError(
                f"{seen[real]} would replace the file that {shown} reads; name another."
            )
    for shown, path in [*written, *_directories(config)]:
        for directory in audited:
            _keep_out(shown, path, directory)


def conversions_beside(journal: Path) -> Path:
    """Where finished conversions are kept: beside the file of ``--ascend-resume``."""
    return journal.with_name(f"{journal.name}.conversions")


def _check_conversions(shown: str, journal: Path) -> None:
    """Conversions run in a directory beside the journal, and what lies there is removed."""
    place = conversions_beside(journal)
    if refused := NO_PATH_OF_ATC.search(str(place)):
        raise pytest.UsageError(
            f"{shown}: conversions are kept in {place}, which contains {refused[0]!r}, and ATC "
            "does not take that in paths; name another file."
        )
    if place.is_symlink() or (place.exists() and not place.is_dir()):
        raise pytest.UsageError(
            f"{shown}: conversions are kept in {place}, which is no directory; name another file."
        )


def _real(path: Path) -> Path:
    """Where a path leads. ``Path.resolve`` raises an error for a link that leads to itself."""
    return Path(os.path.realpath(path))


def _foreign(config: pytest.Config) -> list[tuple[str, Path]]:
    """Files that others write in this run."""
    given = [(name, config.getoption(name, None)) for name in _FOREIGN]
    named = [(f"{name}={text}", Path(text)) for name, text in given if text]
    if place := os.environ.get(GITHUB_SUMMARY):
        named.append((f"{GITHUB_SUMMARY}={place}", Path(place)))
    return [(shown, config.invocation_params.dir / path) for shown, path in named]


def _directories(config: pytest.Config) -> list[tuple[str, Path]]:
    """Directories that pytest itself writes to."""
    found: list[tuple[str, Path]] = []
    if base := config.getoption("--basetemp", None):
        found.append((f"--basetemp={base}", Path(base)))
    if config.pluginmanager.hasplugin("cacheprovider"):
        place = config.rootpath / config.getini("cache_dir")
        found.append((f"pytest's own cache {place} (leave it out with -p no:cacheprovider)", place))
    return found


def _keep_out(shown: str, place: Path, directory: Path) -> None:
    resolved, audited = _real(place), _real(directory)
    # pytest empties its --basetemp.
    emptied = shown.startswith("--basetemp") and audited.is_relative_to(resolved)
    if resolved.is_relative_to(audited) or emptied:
        raise pytest.UsageError(
            f"{shown} would be written in {directory}, which is audited and not written to; name "
            "another place."
        )


def _check_writable(shown: str, path: Path) -> None:
    from pytest_ascendcache.files import check_output

    try:
        check_output(path)
    except OSError as error:
        raise pytest.UsageError(f"{shown}: {error.strerror}.") from None


def _check_log(shown: str, path: Path) -> None:
    from pytest_ascendcache.files import is_stream

    if is_stream(path):
        raise pytest.UsageError(
            f"{shown} is not a regular file, so no later run can go on from it; name a file."
        )
