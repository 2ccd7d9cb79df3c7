"""What a compile may leave in its cache and working directory, by the files alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_ascendcache.caches import Entry, Snapshot
from pytest_ascendcache.observation.gated_run import ProcessKind
from pytest_ascendcache.observation.invariants import broken_besides
from pytest_ascendcache.qualification.scenes.caches import cann_entry

SOC = "kernel_cache/Ascend910B1"


class Place:
    """A cache with one old entry, whose object is damaged, and a working directory."""

    def __init__(self, base: Path) -> None:
        self.root, self.work = base / "cache", base / "work"
        self.work.mkdir()
        self.old = self.store(1)
        self.old.object_path.write_bytes(b"damaged")
        (self.work / "earlier.txt").touch()

    def store(self, number: int) -> Entry:
        files = cann_entry(self.root / SOC, number)
        return Entry(files.object.stem, self.root / SOC)

    def quarantine(self) -> None:
        aside = self.root / SOC / "damaged"
        aside.mkdir()
        for path in (self.old.object_path, self.old.metadata_path):
            path.rename(aside / path.name)

    def told(self, habit, argv=("atc",), alone=True, status=0, umask=0o022, plan=None):
        """Which rules a compile with this habit breaks."""
        before, beside = {self.root: Snapshot.take(self.root)}, frozenset({"earlier.txt"})
        habit(self)
        request = SimpleNamespace(
            umask=umask,
            plan=plan,
            work=self.work,
            home=self.work.parent / "home",
            output=self.work / "out",
            cache_dir=self.root,
            environment={"ASCEND_PROCESS_LOG_PATH": "logs"},
        )
        run = SimpleNamespace(
            kind=ProcessKind.COMPILE,
            request=request,
            result=SimpleNamespace(argv=argv),
            status=status,
            before=before,
            after={self.root: Snapshot.take(self.root)},
            beside=beside if alone else None,
            number=1,
        )
        return [rule for rule, _ in broken_besides(run)]


def stores(place: Place) -> None:
    place.store(2)


def stores_open(place: Place) -> None:
    place.store(2).metadata_path.chmod(0o666)


def cuts(place: Place) -> None:
    place.store(2).object_path.write_bytes(b"cut")


def half(place: Place) -> None:
    place.store(2).metadata_path.unlink()


def leaves(*names: str):
    def habit(place: Place) -> None:
        for name in names:
            (place.work / name).touch()

    return habit


MODES, STORES = "security/private-modes", "cache-mode/enable-stores"


@pytest.mark.parametrize(
    ("habit", "context", "told"),
    [
        (stores, {}, []),
        (lambda place: place.old.metadata_path.touch(), {}, []),
        (Place.quarantine, {}, []),
        (stores_open, {}, [MODES]),
        (stores_open, {"umask": 0o002}, [MODES]),
        (stores_open, {"umask": 0}, []),  # a check of its own asks
        (lambda place: (place.root / SOC / "all").mkdir(mode=0o700), {}, []),
        (lambda place: (place.root / SOC).chmod(0o777), {}, [MODES]),
        (lambda place: (place.root / SOC).chmod(0o1777), {}, []),
        (cuts, {}, [STORES]),
        (half, {}, [STORES]),
        (cuts, {"alone": False}, []),  # another may be writing it
        (cuts, {"status": 1}, []),
        (cuts, {"plan": "a full disk"}, []),
        (leaves("notes.txt"), {}, [MODES]),
        (leaves("out", "fusion_result.json", "logs"), {}, []),
        (leaves("kernel_meta"), {}, [MODES]),
        (leaves("kernel_meta"), {"argv": ("atc", "--op_debug_level=3")}, []),
        (leaves("notes.txt"), {"argv": ("atc", "--report=notes.txt")}, []),
    ],
)
def test_what_is_told_of_a_rule_of_its_own(tmp_path, habit, context, told) -> None:
    assert Place(tmp_path).told(habit, **context) == told
