"""Offsets of tensor elements: strides, broadcasting and merging of loops.

Shapes, strides and offsets count elements. Tensors are stored row-major and without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

Strides = tuple[int, ...]


def row_major(shape: Sequence[int]) -> Strides:
    """The distance in elements between neighbours along each dimension."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def broadcast_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """The shape that numpy broadcasts ``shapes`` to, or ``None`` if they are incompatible."""
    rank = max(map(len, shapes))
    result = []
    for extents in zip(*((1,) * (rank - len(each)) + tuple(each) for each in shapes), strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            return None
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def broadcast_strides(shape: Sequence[int], rank: int) -> Strides:
    """Strides of a tensor broadcast to ``rank`` dimensions: 0 along dimensions that repeat it."""
    strides = (
        0 if extent == 1 else step for extent, step in zip(shape, row_major(shape), strict=True)
    )
    return (0,) * (rank - len(shape)) + tuple(strides)


def merge(extents: Sequence[int], *strides: Strides) -> tuple[tuple[int, ...], list[Strides]]:
    """Extents and strides that visit the same elements with as few loops as possible.

    Two neighbouring dimensions become one if every tensor covers both with a single stride.
    Dimensions of extent 1 disappear.
    """
    merged: list[tuple[int, Strides]] = []
    for extent, *steps in zip(extents, *strides, strict=True):
        if extent == 1:
            continue
        if merged and all(
            outer == inner * extent for outer, inner in zip(merged[-1][1], steps, strict=True)
        ):
            merged[-1] = (merged[-1][0] * extent, tuple(steps))
        else:
            merged.append((extent, tuple(steps)))
    return (
        tuple(extent for extent, _ in merged),
        [tuple(steps[number] for _, steps in merged) for number in range(len(strides))],
    )
