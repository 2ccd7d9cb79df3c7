"""Conversions between float16 and float32, written as 32-bit integer operations.

They are exact and branch-free, and handle subnormal numbers, infinities, NaN and ties to even.
LLVM's half type is not used: below x86-64-v3 it becomes calls of helper functions that a bare
object cannot resolve.
"""

from __future__ import annotations

from pytest_ascendcache.reference.kernels.trace import Value, select

QUIET_NAN = 0x7E00


def widen(half: Value) -> Value:
    """The float32 value of the float16 in the low 16 bits of a word."""
    magnitude = (half & 0x7FFF) << 13
    normal = magnitude + (112 << 23)
    # Adding the bias twice turns exponent 31 into 255: infinity and NaN stay what they are.
    special = magnitude + (224 << 23)
    subnormal = ((magnitude + (113 << 23)).as_float() - 2.0**-14).bits()
    word = select(magnitude.below(0x0400 << 13), subnormal, normal)
    word = select(magnitude.below(0x7C00 << 13), word, special)
    return (word | ((half & 0x8000) << 16)).as_float()


def narrow(value: Value) -> Value:
    """The float16 nearest to a float32, ties to even, in the low 16 bits of a word.

    Every NaN becomes the same NaN, because its sign and payload differ between machines.
    """
    bits = value.bits()
    magnitude = bits & 0x7FFFFFFF
    odd = (magnitude >> 13) & 1
    normal = (magnitude + (0xFFF - (112 << 23)) + odd) >> 13
    # Adding 0.5 moves the bits of a subnormal half, rounded, to the end of the float.
    subnormal = (magnitude.as_float() + 0.5).bits() - (126 << 23)
    half = select(magnitude.below(113 << 23), subnormal, normal)
    half = select(magnitude.below(143 << 23), half, 0x7C00)
    half = half | ((bits >> 16) & 0x8000)
    return select(magnitude.below(0x7F800001), half, QUIET_NAN)


def cut_to_11_bits(value: Value) -> Value:
    """A float32 truncated towards zero to float16's precision; it keeps float32's range."""
    return (value.bits() & 0xFFFFE000).as_float()
