"""Finished conversions on disk: for the workers of one run, and for a run that goes on after one
that was interrupted.

A place has the conversions that follow one another on one cache, and its name is a digest of all
they depend on. A conversion counts from the moment its record is there, which is written last and
renamed into place; the record has the model's digest. One process at a time works in a place.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest_ascendcache
from pytest_ascendcache.files import read_input, write_output
from pytest_ascendcache.observation.model_file import ModelKernel, ModelParts
from pytest_ascendcache.release import file_sha256
from pytest_ascendcache.toolchains import ConvertRequest, ConvertResult

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = 1
"""Of a record. Another one is another key, so an older plugin's records are not read."""

_RECORD = "conversion-*.json"


@dataclass(frozen=True)
class Made:
    """One conversion; ``parts`` are its model's, None where it failed. ``run`` made it."""

    result: ConvertResult
    parts: ModelParts | None
    run: str


class ConversionShelf:
    """Places for conversions below ``directory``.

    ``run`` names this run of pytest, that of all of its workers. ``outlives`` it says that the
    directory is there for a later run too. ``known`` are the conversions that this process has
    seen, failed ones too; ``outputs`` what models gave for inputs of a digest,
    and ``announced`` the releases whose cost was told.
    """

    def __init__(self, directory: Path, run: str, outlives: bool) -> None:
        self.directory, self.run, self.outlives = directory, run, outlives
        self.announced: set[Path] = set()
        self.known: dict[Path, dict[str, list[Made]]] = {}
        self.outputs: dict[tuple[Path, str], dict[str, NDArray[Any]]] = {}

    @contextmanager
    def place(self, name: str, key: Mapping[str, Any]) -> Iterator[Place]:
        """The place of a key, for this process alone; others wait. A process that is killed lets
        go of it."""
        text = json.dumps({"format": FORMAT, **key}, sort_keys=True)
        place = self.directory / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        self.directory.mkdir(parents=True, exist_ok=True)
        with place.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Place(place, self)

    def earlier(self) -> tuple[int, float]:
        """How many conversions earlier runs finished, and the seconds they took."""
        count, seconds = 0, 0.0
        for path in self.directory.glob(f"*/{_RECORD}"):
            try:
                record = json.loads(read_input(path))
                if record["run"] != self.run:
                    count += len(record["conversions"])
                    seconds += max(each["seconds"] for each in record["conversions"])
            except (OSError, ValueError, LookupError, TypeError):
                continue
        return count, seconds


@dataclass(frozen=True)
class Place:
    """Where conversions with one key are made and kept."""

    directory: Path
    shelf: ConversionShelf

    @property
    def cache(self) -> Path:
        """The cache they have in common."""
        return self.directory / "cache"

    @property
    def _left(self) -> Path:
        """The cache as the first of them left it, without any mark."""
        return self.directory / "left"

    def found(self, name: str, requests: Sequence[ConvertRequest]) -> list[Made] | None:
        """The conversions of that name, or None where any of them is not there whole."""
        if (known := self._known.get(name)) is not None:
            return known
        try:
            record = json.loads(read_input(self._record(name)))
            pairs = zip(record["conversions"], requests, strict=True)
            made = [_recorded(each, request, record["run"]) for each, request in pairs]
        except (OSError, ValueError, LookupError, TypeError):
            return None
        self._known[name] = made
        return made

    def begin(self) -> None:
        """Clear the place for the first conversion."""
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        self._known.clear()

    def resume(self, name: str) -> bool:
        """Make ready for a conversion that was interrupted: the cache is again as the first one
        left it. Returns whether that is known."""
        if not self._left.is_dir():
            return False
        for directory in (self.directory / name, self.cache):
            shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._left, self.cache, symlinks=True)
        return True

    def keep(self, name: str, results: Sequence[Made], others_follow: bool) -> None:
        """Finished conversions: write them down if all succeeded. Where others follow, which a
        later run may have to make, the cache is kept as it is now."""
        self._known[name] = list(results)
        if any(each.parts is None for each in results):
            return
        if others_follow and self.shelf.outlives and not self._left.exists():
            unfinished = self.directory / "left.unfinished"
            shutil.copytree(self.cache, unfinished, symlinks=True)
            unfinished.rename(self._left)
        record = {"run": self.shelf.run, "conversions": [_record(each) for each in results]}
        write_output(self._record(name), json.dumps(record))

    @property
    def _known(self) -> dict[str, list[Made]]:
        return self.shelf.known.setdefault(self.directory, {})

    def _record(self, name: str) -> Path:
        return self.directory / _RECORD.replace("*", name)


def _record(made: Made) -> dict[str, Any]:
    result, parts = made.result, made.parts
    assert result.model is not None
    assert parts is not None
    return {
        "argv": result.argv,
        "environment": dict(result.environment),
        "deadline": result.deadline,
        "output": result.output,
        "seconds": result.seconds,
        "model": result.model.name,
        "sha256": file_sha256(result.model),
        "kernels": [asdict(each) for each in parts.kernels],
        "rest": parts.rest,
        "size": parts.size,
    }


def _recorded(record: Mapping[str, Any], request: ConvertRequest, run: str) -> Made:
    """The conversion of a record.

    Raises:
        LookupError, TypeError, OSError: for one that is damaged, or whose model is gone.
        ValueError: where the model is another.
    """
    model = request.output.parent / record["model"]
    if file_sha256(model) != record["sha256"]:
        raise ValueError(f"{model} is not what it was")
    result = ConvertResult(
        request=request,
        argv=tuple(record["argv"]),
        environment=record["environment"],
        returncode=0,
        deadline=record["deadline"],
        output=record["output"],
        model=model,
        seconds=record["seconds"],
    )
    kernels = tuple(ModelKernel(**each) for each in record["kernels"])
    return Made(result, ModelParts(kernels, record["rest"], record["size"]), run)


@cache
def code_stamp() -> str:
    """Digest of sizes and times of this package's files: what it makes of a model may change."""
    root = Path(pytest_ascendcache.__file__).parent
    files = sorted(root.rglob("*.py"))
    stamps = [(str(each.relative_to(root)), each.stat()) for each in files]
    text = json.dumps([(name, info.st_size, info.st_mtime_ns) for name, info in stamps])
    return hashlib.sha256(text.encode()).hexdigest()
