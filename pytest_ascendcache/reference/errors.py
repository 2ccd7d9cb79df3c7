"""Errors in ATC's style: a code, one sentence, exit status 255."""

from __future__ import annotations

EXIT_SUCCESS = 0
EXIT_FAILED = 255
"""ATC's FAILED. Source: facts ``cann-operator-cache`` section 6.5."""


class AtcError(Exception):
    """A request that cannot be carried out.

    ``code`` is ATC's error code (facts section 6.6); the text is one sentence: what is wrong
    with which value, where it came from, what to write instead.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.args[0]}"


def invalid_value(parameter: str, value: object, reason: str) -> AtcError:
    """E10001, the general error for a value an option does not take."""
    return AtcError("E10001", f"Value [{value}] for parameter [{parameter}] is invalid. {reason}")


def invalid_path(path: object, parameter: str, reason: str) -> AtcError:
    """E40023, the general error for a path an option cannot use."""
    return AtcError("E40023", f"Path [{path}] for [{parameter}] is invalid. Reason: {reason}.")
