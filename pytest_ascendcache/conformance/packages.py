"""What the checks of static kernels share: operators, and what must hold of an index."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_ascendcache.cachedir import InstalledKernels, TornIndex
from pytest_ascendcache.contract.static_kernel import Index
from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc

KINDS = ("Abs", "Exp", "Neg", "Relu", "Sigmoid", "Sqrt", "Square", "Tanh")


def operator(kind: str, *shape: int, dtype: str = "float32") -> OperatorSpec:
    """An operator of one input, with the shape of its output."""
    tensor = TensorDesc.of(dtype, *(shape or (4, 8)))
    return OperatorSpec(kind, (tensor,), (tensor,))


def leaky(slope: float) -> OperatorSpec:
    """An operator with an attribute."""
    tensor = TensorDesc.of("float32", 4, 8)
    attribute = Attribute("negative_slope", "float", slope)
    return OperatorSpec("LeakyRelu", (tensor,), (tensor,), (attribute,))


def faults_of(opp: Path, always: Index) -> list[str]:
    """What a process that reads the index now would stumble over.

    ``always`` has to be in it; every kernel it names has to be there and whole.
    """
    installed = InstalledKernels(opp)
    try:
        index = installed.index()
    except TornIndex as error:
        return [f"the index is torn: {error}"]
    if lacking := [key for key in always if key not in index]:
        return [f"the index lacks {lacking[0][1]}, which is installed"]
    for key, entry in index.items():
        problems = installed.problems(entry)
        # A kernel may go once the index that named it was read; not while it names it.
        if problems and _still_names(installed, key, entry["binPath"]):
            return problems
    return []


def _still_names(installed: InstalledKernels, key: tuple[str, str], path: str) -> bool:
    try:
        return installed.index().get(key, {}).get("binPath") == path
    except TornIndex:
        return True


@contextmanager
def reader(opp: Path, always: Index) -> Iterator[list[str]]:
    """Somebody who reads the index all the time; gives the list of what was stumbled over."""
    found: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not found:
            found.extend(faults_of(opp, always))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
