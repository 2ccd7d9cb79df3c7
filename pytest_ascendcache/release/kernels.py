"""The caches that go with a release: where their kernels are, how old, and of which cards.

Source: facts ``cann-operator-cache`` sections 1.1 and 1.2; ``mindspore-incremental`` section 1;
document M (MindSpore incremental build): a rank whose cache is missing compiles while the others
wait for it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path

from pytest_ascendcache.caches import read_entries
from pytest_ascendcache.caches.cards import of_other_cards, own_device
from pytest_ascendcache.caches.chips import CHIP, QUOTED_CHIP, is_same_chip
from pytest_ascendcache.caches.recognition import (
    KERNEL_STEM,
    CacheKind,
    CachePlace,
    rank_number,
    recognise,
)
from pytest_ascendcache.caches.snapshot import read_quietly
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import CACHE_PATH, Release
from pytest_ascendcache.release.inputs import file_sha256
from pytest_ascendcache.release.manifest import read_manifest
from pytest_ascendcache.release.problem import Problem, listed, names

KERNEL_CACHE = "kernel_cache"
_OF_RANKS = ("kernel_meta/*.json", "graph_cache/*.mindir", "kernel_cache/*/*.json")
"""What a rank's directory has of each kind of cache."""
_STAMP = re.compile(r"^\s*(adk_version|ops_version)\s*=\s*(\S{1,60})", re.MULTILINE)
_PEEK = 256
"""How many names decide what a directory is, as in an audit."""

_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""The errors of a link that leads to no file."""


def kernel_cache(cache: Path) -> Path | None:
    """Return the directory that has one directory per SoC: below ``cache``, itself, or its parent;
    None if MindSpore filled the cache."""
    for candidate in (cache / KERNEL_CACHE, cache, cache.parent):
        if candidate.name == KERNEL_CACHE and candidate.is_dir():
            return candidate
    return None


def soc_directory(cache: Path, soc: str) -> Path | None:
    """Return the directory with a SoC's entries; None if ``cache`` has none."""
    above = kernel_cache(cache)
    directory = cache / soc if above is None else above / soc
    if above is None and not directory.is_dir() and cache.name == soc:
        directory = cache  # a SoC's directory that was copied alone
    return directory if directory.is_dir() else None


def holds_files(cache: Path) -> bool:
    """Return whether there is any file in a cache."""
    return any(inside for _, _, inside in os.walk(cache))


def chip_directories(cache: Path) -> list[Path]:
    """Return every directory of a chip, or with entries as one, that an audit finds in a cache, but
    those that lie in another one, where nothing looks."""
    found, places = list[Path](), dict[Path, CachePlace | None]()
    for text, directories, inside in os.walk(cache):
        path = Path(text)
        names = islice(chain(directories, inside), _PEEK)
        place = recognise(path, str(path.relative_to(cache)), places.get(path.parent), [*names])
        places[path] = place
        is_soc = place is not None and place.kind is CacheKind.SOC
        filled = CHIP.fullmatch(path.name) or any(each.endswith((".json", ".o")) for each in inside)
        if is_soc and filled and not any(each in found for each in path.parents):
            found.append(path)
    return sorted(found)


def compared_caches(release: Release) -> list[Path]:
    """Return the shipped caches that have a directory of the release's chip. Where others lie below
    a cache, such as those of several cards, each of their directories of the chip is one."""
    found: dict[Path, Path] = {}
    for cache in release.caches:
        own = soc_directory(cache, release.soc)
        if own is not None:
            found.setdefault(own.resolve(), cache)
        for each in chip_directories(cache):
            if each.name == release.soc:
                found.setdefault(each.resolve(), each)
    return [*found.values()]


def cached_names(cache: Path, soc: str) -> frozenset[str]:
    """Return the names under which a cache has anything of entries for a SoC."""
    directory = soc_directory(cache, soc)
    if directory is None:
        return frozenset()
    return frozenset(each.stem for each in directory.iterdir() if each.suffix in (".json", ".o"))


def filled_otherwise(cache: Path, used: Path) -> str:
    """Return which versions a cache is stamped with and its copy that was ``used`` otherwise; empty
    if none differ."""
    before, after = _stamps(cache), _stamps(used)
    other = [each for each in before if after.get(each, before[each]) != before[each]]
    then, now = (", ".join(f"{each}={of[each]}" for each in other) for of in (before, after))
    return f"it was filled with {then}, and the release compiles with {now}" if other else ""


def _stamps(cache: Path) -> dict[str, str]:
    found = dict[str, str]()
    for name in ("op_cache.ini", "version.info"):
        with suppress(OSError, UnicodeDecodeError):
            text = b"".join(read_quietly((kernel_cache(cache) or cache) / name)).decode()
            found |= {each[1]: each[2] for each in _STAMP.finditer(text)}
    return found


@listed
def unusable_caches(release: Release) -> Iterator[Problem]:
    """Report shipped caches of which nothing is used: their kernels are all for other chips, or lie
    where the release's own option or variable does not lead."""
    named = release.options.get(atc.CACHE_DIR) or release.environment.get(CACHE_PATH)
    for cache in release.caches:
        own = cache / KERNEL_CACHE / release.soc
        directories = chip_directories(cache)
        elsewhere = [each for each in directories if each.name == release.soc]
        is_named = bool(named) and release.place(str(named)) == cache
        may_be = cache.name == KERNEL_CACHE and (cache / release.soc).is_dir()
        if is_named and elsewhere and not (own.is_dir() or may_be):
            yield Problem(
                f"{cache} has its kernels in {elsewhere[0].relative_to(cache)}, and they are "
                f"looked for in {own.relative_to(cache)}: it serves nothing",
                str(own),
            )
            continue
        chips = sorted({each.name for each in directories})
        if chips and release.soc not in chips and soc_directory(cache, release.soc) is None:
            yield Problem(
                f"{cache} has kernels of {names(chips)} only, and the release is for "
                f"{release.soc}: it serves nothing",
                f"kernels of {release.soc}, or no such cache",
            )


@listed
def unserving_caches(release: Release) -> Iterator[Problem]:
    """Report shipped caches that have none of the kernels that the manifest lists, by name or by
    content: without a toolchain that is what files tell of whom a cache serves. Raises
    ``ManifestError`` for a manifest that cannot be read."""
    if release.manifest is None or not release.manifest.is_file():
        return
    golden = read_manifest(release.manifest)
    if golden.soc != release.soc:
        return
    kernels = {**golden.kernels, **(golden.model or {})}
    digests = {each.sha256 for each in kernels.values()}
    names_of = {each.partition("__kernel")[0] for each in golden.model or {}}
    for cache in compared_caches(release):
        directory = soc_directory(cache, release.soc)
        entries = read_entries(directory).values() if directory is not None else ()
        objects = [each.object_path for each in entries if each.object_path.is_file()]
        served = any(each.stem in names_of or file_sha256(each) in digests for each in objects)
        if objects and kernels and not served:
            yield Problem(
                f"{cache} has no kernel that {release.manifest.name} lists: "
                "its kernels are of something else",
                "a cache filled by the release's own command, or no such cache",
            )


def copy_cache(release: Release, cache: Path, root: Path, only_operators: bool = False) -> bool:
    """Copy the entries of the release's SoC, links as the files they lead to, and the files that
    describe the cache, to a new cache directory ``root``. With ``only_operators`` those of other
    types are left out where CANN's names tell. Returns whether ``cache`` has entries of the SoC."""
    types = {each.type.lower() for each in release.operators}
    beginnings = tuple(f"te_{each}_" for each in types) if only_operators else ("",)
    source = soc_directory(cache, release.soc)
    if source is None:
        return False
    target = root / KERNEL_CACHE / release.soc
    target.mkdir(parents=True)
    for place, _, inside in os.walk(source):
        directory = target / Path(place).relative_to(source)
        directory.mkdir(exist_ok=True)
        for name in inside:
            is_others = name.lower().startswith("te_") and not name.lower().startswith(beginnings)
            if not is_others and Path(place, name).is_file():
                copy_file(Path(place, name), directory)
    above = kernel_cache(cache) or (cache if source != cache else None)
    if above is not None:
        for entry in os.scandir(above):
            if entry.is_file():
                copy_file(Path(entry.path), target.parent)
    return True


def copy_file(path: Path, directory: Path) -> None:
    """Copy a file with its times, and keep the original's access time, which aging uses."""
    target = directory / path.name
    with target.open("wb") as file:
        file.writelines(read_quietly(path))
    shutil.copystat(path, target)


@listed
def outdated_kernels(release: Release) -> Iterator[Problem]:
    """Report entries older than the knowledge base: nobody compiled with force, which renews all,
    since it changed. Times are compared in whole seconds, because CANN drops the rest when it
    reuses an entry. Raises ``FileNotFoundError`` for a knowledge base without a file."""
    newest = max(map(_newest, release.knowledge_base))
    for cache in compared_caches(release):
        directory = soc_directory(cache, release.soc)
        if directory is None:
            continue
        old = sorted(_older(directory, newest[0]))
        if old:
            yield Problem(
                f"{len(old)} files of kernels in {directory} are older than {newest[1]} of "
                f"{_when(newest[0])}, such as {names([name for _, name in old])} of "
                f"{_when(old[0][0])}",
                "one compile with --op_compiler_cache_mode=force after each change of the "
                "knowledge base",
            )


def _older(directory: Path, second: int) -> Iterator[tuple[int, str]]:
    for entry in read_entries(directory).values():
        for path in (entry.metadata_path, entry.object_path):
            try:
                modified = int(path.stat().st_mtime)
            except FileNotFoundError:
                continue
            if modified < second:
                yield modified, path.name


def _newest(bank: Path) -> tuple[int, Path]:
    """Return when a knowledge base last changed, in whole seconds, and the file that changed. A
    link counts as the file that it leads to, if there is one."""
    changed = []
    for path in _files(bank) if bank.is_dir() else [bank]:
        try:
            info = path.stat()
        except OSError as error:
            if error.errno in _NOWHERE and path.is_symlink():
                continue
            raise
        if stat.S_ISREG(info.st_mode):
            changed.append((int(info.st_mtime), path))
    if not changed:
        raise FileNotFoundError(f"the knowledge base {bank} has no file")
    return max(changed)


def _files(directory: Path) -> Iterator[Path]:
    """Yield all files below a directory; linked directories count too, but only once."""

    def refuse(error: OSError) -> None:
        raise error

    seen: set[tuple[int, int]] = set()
    for place, directories, inside in os.walk(directory, onerror=refuse, followlinks=True):
        info = Path(place).stat()
        if (info.st_dev, info.st_ino) in seen:
            directories.clear()
            continue
        seen.add((info.st_dev, info.st_ino))
        yield from (Path(place, each) for each in inside)


def _when(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


def rank_directories(cache: Path) -> dict[int, Path]:
    """Return MindSpore's directories ``rank_<n>`` in a cache, by number."""
    if not cache.is_dir():
        return {}
    ranks = {each: rank_number(each.name) for each in cache.iterdir() if each.is_dir()}
    return {rank: path for path, rank in ranks.items() if rank is not None}


@listed
def rank_problems(release: Release) -> Iterator[Problem]:
    """Report caches by rank that lack kernels of a card, or have those of another one."""
    cards = range(release.cards)
    all_ranks = {cache: rank_directories(cache) for cache in release.caches}
    kept = {
        cache: [n for n, path in ranks.items() if any(map(any, map(path.glob, _OF_RANKS)))]
        for cache, ranks in all_ranks.items()
    }
    # Each of several machines may have a cache of its own cards.
    of_machines = sorted(chain.from_iterable(kept.values())) == [*cards]
    for cache, ranks in all_ranks.items():
        if not ranks:
            continue
        lacking = () if of_machines else set(cards) - set(kept[cache])
        without = [f"rank_{rank}" for rank in sorted(lacking)]
        others = [f"rank_{rank}" for rank in sorted(ranks) if rank not in cards]
        if without:
            yield Problem(
                f"{cache} has no kernels of {names(without)}: that card compiles while the "
                "others wait for it, HCCL_CONNECT_TIMEOUT seconds at most",
                f"a cache of each of {release.cards} cards",
            )
        if others:
            wanted = f"caches of {release.cards} cards only"
            yield Problem(f"{cache} has {names(others)}", wanted)
        devices = {rank: _devices(path) for rank, path in sorted(ranks.items())}
        own = {rank: own_device(each) for rank, each in devices.items() if each}
        for rank, how in of_other_cards(own).items():
            yield Problem(f"{ranks[rank]}: {how}", "kernels of its own card")
        infos = (each for path in ranks.values() for each in path.glob("kernel_meta/*.info"))
        said = {chip for each in infos if (chip := _chip_of(each))}
        if foreign := sorted(each for each in said if not is_same_chip(each, release.soc)):
            how = f"{cache} has kernels for {names(foreign)} by their .info"
            yield Problem(how, f"kernels for {release.soc}")


def _devices(rank: Path) -> Counter[int]:
    stems = (KERNEL_STEM.fullmatch(each.stem) for each in rank.glob("kernel_meta/*.json"))
    return Counter(int(match["device"]) for match in stems if match)


def _chip_of(info: Path) -> str:
    try:
        chip = QUOTED_CHIP.search(b"".join(read_quietly(info)))
    except OSError:
        return ""  # audits say what cannot be read
    return chip[1].decode() if chip is not None else ""
