"""Judges the operator compile caches of Ascend toolchains from outside, promise by promise."""
