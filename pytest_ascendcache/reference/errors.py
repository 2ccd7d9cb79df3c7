"""Errors in ATC's style: a code, one sentence, and exit status 255."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

EXIT_SUCCESS = 0
EXIT_FAILED = 255
"""ATC's FAILED. Source: facts ``cann-operator-cache`` section 6.5."""


class AtcError(Exception):
    """A request that the toolchain cannot carry out. Any step of a run may raise it.

    ``code`` is ATC's error code (facts section 6.6). The text is one sentence that names the bad
    value, where it came from, and what to write instead.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.args[0]}"


def invalid_value(parameter: str, value: object, reason: str) -> AtcError:
    """E10001, the general error for a value that an option does not accept."""
    return AtcError("E10001", f"Value [{value}] for parameter [{parameter}] is invalid. {reason}")


def invalid_path(path: object, parameter: str, reason: str) -> AtcError:
    """E40023, the general error for a path that an option cannot use."""
    return AtcError("E40023", f"Path [{path}] for [{parameter}] is invalid. Reason: {reason}.")


def bad_content(path: str, parameter: str, reason: str) -> AtcError:
    """E20003, the general error for the content of a configuration file."""
    return AtcError(
        "E20003",
        f"Configuration file [{path}] for parameter [{parameter}] has invalid content. "
        f"Reason: {reason}.",
    )


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why a text file cannot be read."""
    return getattr(error, "strerror", None) or "it is not UTF-8 text"


@contextlib.contextmanager
def as_invalid_path(
    path: object, parameter: str, reason: str = "it cannot be written"
) -> Iterator[None]:
    """Turn an ``OSError`` of the ``with`` block into :func:`invalid_path`."""
    try:
        yield
    except OSError as error:
        raise invalid_path(path, parameter, f"{reason} ({error.strerror})") from None
