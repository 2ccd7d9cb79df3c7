#!/usr/bin/env python3
"""Another atc that is only different: a launcher in Python that cleans the environment and runs the
compiler in a directory of its own, with absolute paths."""

import os
import sys
import tempfile
from pathlib import Path

REAL = os.environ.get("REAL_ATC", "ascendcache-atc")
PATHS = ("singleop", "output", "op_debug_config", "op_precision_mode", "op_compiler_cache_dir")


def absolute(word):
    """An option whose path does not depend on the working directory."""
    name, given, path = word.partition("=")
    known = given and path and name.removeprefix("--") in PATHS and "\0" not in path
    return f"{name}={Path(path).absolute()}" if known else word


words = [absolute(each) for each in sys.argv[1:]]
keep = any(each.startswith("--op_debug") for each in words)  # kernel_meta belongs where we are
place = os.environ.get("ASCEND_CACHE_PATH", "")
environment = {**os.environ, "OMP_NUM_THREADS": "1"}
if place.strip():
    environment["ASCEND_CACHE_PATH"] = str(Path(place).absolute())
with tempfile.TemporaryDirectory(prefix="atc-") as elsewhere:
    where = "." if keep else elsewhere
    status = os.spawnvpe(
        os.P_WAIT,
        "sh",
        ["sh", "-c", 'cd "$1" || exit 255; shift; exec "$@"', "sh", where, REAL, *words],
        environment,
    )
sys.exit(status if status >= 0 else 128 - status)
