"""Reading and writing the files that a user names."""

from pytest_ascendcache.files.reading import MOST_BYTES, read_input, read_text
from pytest_ascendcache.files.writing import (
    append_output,
    check_output,
    destination,
    is_stream,
    open_log,
    open_output,
    write_output,
)

__all__ = [
    "MOST_BYTES",
    "append_output",
    "check_output",
    "destination",
    "is_stream",
    "open_log",
    "open_output",
    "read_input",
    "read_text",
    "write_output",
]
