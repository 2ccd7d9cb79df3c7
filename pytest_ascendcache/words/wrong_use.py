"""What a call of a user's test ends in that cannot be carried out."""

from __future__ import annotations

from pathlib import Path


class WrongUse(TypeError, ValueError):
    """A call that this package cannot carry out. The text says what is wrong, with the value, and
    what to write instead."""


def wrong(name: str, value: object, allowed: str) -> WrongUse:
    """The error for an argument ``name`` of a kind that is not allowed."""
    return WrongUse(f"{name} is {value!r} ({type(value).__name__}); give {allowed}.")


def checked_path(name: str, value: object) -> Path:
    """A path that a caller gives as text or as a path.

    Raises ``WrongUse`` for anything else.
    """
    if not isinstance(value, (str, Path)):
        raise wrong(name, value, "a path")
    if value == "":
        raise WrongUse(f"{name} is {value!r}; give a path.")
    return Path(value)
