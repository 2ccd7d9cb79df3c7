"""Generated directories: layouts, names, depth, neighbours and one change, with a sound twin."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from directories import cards, custom

from pytest_ascendcache.qualification.scenes.caches import (
    SceneKernel,
    akg_kernel,
    cann_entry,
    digest,
    edit,
    elf_object,
    installed_kernels,
    put,
    rank_kernel,
)

_CHIPS = ("Ascend310P3", "Ascend910B1", "Ascend910_9391", "Ascend950DT")


def _cann(root: Path, dice: random.Random) -> list[SceneKernel]:
    soc = root / "kernel_cache" / dice.choice(_CHIPS)
    return [cann_entry(soc, dice.randrange(10**6)) for _ in range(dice.randint(1, 4))]


def _custom(root: Path, dice: random.Random) -> list[SceneKernel]:
    soc = root / "kernel_cache" / dice.choice(_CHIPS)
    return [custom(soc, dice.randrange(10**6)) for _ in range(dice.randint(1, 3))]


def _package(root: Path, dice: random.Random) -> list[SceneKernel]:
    chip = dice.choice(("ascend310p", "ascend910b", "ascend910_93"))
    place = root / f"op_impl/ai_core/tbe/kernel/{chip}/add_custom"
    return [custom(place, dice.randrange(10**6)) for _ in range(dice.randint(1, 3))]


def _cards(root: Path, dice: random.Random) -> list[SceneKernel]:
    name = dice.choice(("rank_{}", "device{}", "device_{}", "card-{}", "npu{}", "{}"))
    return [kernel for card in cards(root, name, dice.randint(2, 5)) for kernel in card]


def _alone(root: Path, dice: random.Random) -> list[SceneKernel]:
    device = dice.randrange(8)
    return [rank_kernel(root / "kernel_meta", name, device) for name in ("add", "mul", "sub")]


def _akg(root: Path, dice: random.Random) -> list[SceneKernel]:
    return [akg_kernel(root, number) for number in range(1, dice.randint(2, 4))]


def _installed(root: Path, _: random.Random) -> list[SceneKernel]:
    place = installed_kernels(root)
    (path,) = place.rglob("*.o")
    return [SceneKernel(path.with_suffix(".json"), path)]


_LAYOUTS: tuple[Callable[[Path, random.Random], list[SceneKernel]], ...] = (
    *(_cann, _custom, _package, _cards, _alone, _akg, _installed),
)


def sound(root: Path, dice: random.Random) -> list[SceneKernel]:
    """Write a directory with nothing wrong; returns its kernels."""
    root.mkdir(parents=True, exist_ok=True)
    place = root.joinpath(*(dice.choice("abcdefgh") for _ in range(dice.randrange(9))))
    kernels = dice.choice(_LAYOUTS)(place, dice)
    for name in dice.sample(("README", "NOTES.md", ".gitignore", "a.o~", "x.json.bak"), 2):
        put(kernels[0].metadata.parent / name, "by hand\n")
    if dice.random() < 0.3:
        (root / "latest").symlink_to(place.relative_to(root) if place != root else ".")
    return kernels


def _flip(kernel: SceneKernel, _: random.Random) -> None:
    data = bytearray(kernel.object.read_bytes())
    data[70] ^= 1
    kernel.object.write_bytes(data)


def _cut(kernel: SceneKernel, dice: random.Random) -> None:
    os.truncate(kernel.object, dice.choice((0, 1, 64, kernel.object.stat().st_size - 1)))


def _without_object(kernel: SceneKernel, _: random.Random) -> None:
    kernel.object.unlink()


def _without_metadata(kernel: SceneKernel, _: random.Random) -> None:
    kernel.metadata.unlink()


def _stand_in(kernel: SceneKernel, dice: random.Random) -> None:
    path = dice.choice((kernel.object, kernel.metadata))
    kind = dice.randrange(4)
    path.unlink()
    if kind == 0:
        path.symlink_to("gone")
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.mkdir(mode=0o750)
    else:
        path.symlink_to("/dev/zero")


def _hole(kernel: SceneKernel, dice: random.Random) -> None:
    os.truncate(kernel.object, dice.choice((5 << 30, 8 << 40)))


def _metadata_cut(kernel: SceneKernel, _: random.Random) -> None:
    os.truncate(kernel.metadata, kernel.metadata.stat().st_size // 2)


def _two_digests(kernel: SceneKernel, _: random.Random) -> None:
    text = kernel.metadata.read_text()
    kernel.metadata.write_text(text.replace("{", '{"sha256": "' + "0" * 64 + '",', 1))


def _stray(kernel: SceneKernel, dice: random.Random) -> None:
    name = dice.choice(("hook.so", "kernel.bin", "-rf.o", "payload"))
    put(kernel.object.parent / name, elf_object(b"code"))


def _cut_and_restamped(kernel: SceneKernel, dice: random.Random) -> None:
    data = kernel.object.read_bytes()
    data = data[: dice.randrange(1, len(data))]
    fields = json.loads(kernel.metadata.read_text())
    kernel.object.write_bytes(data)
    edit(kernel.metadata, lambda fields: fields.update(sha256=digest(data)))
    assert fields["sha256"] != digest(data)


def _renamed(kernel: SceneKernel, _: random.Random) -> None:
    """Another kernel's digest in the name of the metadata."""

    def change(fields: dict[str, object]) -> None:
        fields["sha256"] = digest(b"another")

    edit(kernel.metadata, change)


CHANGES: tuple[Callable[[SceneKernel, random.Random], None], ...] = (
    *(_flip, _cut, _without_object, _without_metadata, _stand_in, _hole),
    *(_metadata_cut, _two_digests, _stray, _renamed, _cut_and_restamped),
)


def unsound(root: Path, dice: random.Random) -> str:
    """Change one thing of a sound directory; returns which, in words for a failing test."""
    kernels = sound(root, dice)
    kernel, change = dice.choice(kernels), dice.choice(CHANGES)
    change(kernel, dice)
    return json.dumps([change.__name__, str(kernel.object.relative_to(root))])


def fresh(root: Path) -> Path:
    """An empty directory of this path."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return root
