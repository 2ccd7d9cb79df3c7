"""A stand-in for the part of MindSpore that the generated scripts use, with both of its caches.

It writes the same files as MindSpore, and ``STANDIN_FAULT`` gives it one of MindSpore's faults. The
stand-in Python runs it; no test imports it. This file has the graph cache, ``kernels`` the cache of
kernels, and ``ops`` and ``msrun.py`` have what ranks do together.
"""

import hashlib
import json
import os
import struct
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

from mindspore import nn, ops  # noqa: F401 - imported by scripts
from mindspore.graph import api

GRAPH_MODE = 0
FAULT = os.environ.get("STANDIN_FAULT", "")
SWITCH = "MS_COMPILER_CACHE_ENABLE"
CONTEXT = {}
MARK = 0.84375
STARTED = Path(sys.argv[0]).name
"""The program that imported this module: a script, or the server that forks scripts."""
BASES = {}
HITS = []
"""The numbers of the networks that were reused from the cache."""


def set_context(**settings):
    """Record settings of the compiler, which become part of the key."""
    log()
    rank = os.environ.get("RANK_ID") or "0"
    if not (rank.isascii() and rank.isdigit()):
        sys.exit(f"RANK_ID is {rank!r}; give a number.")
    CONTEXT.update(settings)


class Tensor:
    def __init__(self, array):
        self.array = np.asarray(array)

    def asnumpy(self):
        return self.array


def cache_directory():
    rank = os.environ.get("RANK_ID") or "0"
    now = os.environ.get("MS_COMPILER_CACHE_PATH")
    if FAULT == "late-directory" and BASES.setdefault("first", now) != now:
        return None
    return Path(now or ".") / f"rank_{rank}" / "graph_cache"


def log():
    """Write a line to the log if logging to a directory is on."""
    place = os.environ.get("GLOG_log_dir")  # noqa: SIM112 - MindSpore's name
    if place is None or os.environ.get("GLOG_v") != "1":  # noqa: SIM112 - MindSpore's name
        return
    rank = os.environ.get("RANK_ID", "0")
    if FAULT != "raw-rank-log":
        rank = rank if rank.isdigit() else "0"
    directory = f"{place}/rank_{rank}/logs"
    os.makedirs(directory, exist_ok=True)  # noqa: PTH103 - a Path has no x/../y
    with open(f"{directory}/mindspore.log", "a") as file:  # noqa: PTH123 - a Path has no x/../y
        file.write("it begins\n")


def publish(path, data):
    """Write a file under a temporary name and rename it, so that it is never seen half-written."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    Path(temporary).replace(path)


def key_of(cell, tensors):
    parts = [Path(api.entry_script_path).read_bytes(), cell.source().encode()]
    if FAULT != "keeps-release":
        parts.append(version("mindspore").encode())
    if FAULT != "any-jit-level":
        parts.append(str(CONTEXT.get("jit_level")).encode())
    if FAULT != "trained-for-all":
        parts.append(str(cell.training).encode())
    if FAULT == "forked-apart":
        parts.append(STARTED.encode())
    if FAULT != "narrow-key":
        parts.append(json.dumps([each.slope for each in cell.leaky()]).encode())
        parts += [str((each.array.shape, each.array.dtype)).encode() for each in tensors]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_on():
    """Return whether the cache is switched on."""
    switch = os.environ.get(SWITCH, "")
    if switch not in ("", "0", "1") and FAULT != "quiet-switch":
        print(f"{SWITCH} is {switch!r}; use 0 or 1.")
    return switch == "1"


def are_plausible(kept, slopes):
    """Return whether the cached slopes are the cell's, or those of a marker."""
    if FAULT == "narrow-key":
        return True
    pairs = zip(kept, np.float32(slopes), strict=True)
    return all(each in (own, MARK) for each, own in pairs)


def compiled(cell, tensors, number):
    """Return the cell's constants and whether it trains, from the cache or compiled now.

    They take the place of the cell's code.
    """
    slopes = [each.slope for each in cell.leaky()]
    if not is_on():
        return slopes, cell.training
    directory = cache_directory()
    if directory is None:
        return slopes, cell.training
    network = directory / f"compile_cache_{number}.mindir"
    digest = directory / "compile_dependency.hash"
    key = key_of(cell, tensors)
    count = len(slopes)

    def seal(data):
        # The digest leaves the slopes out, so that a marked entry is as valid as a compiled one.
        return hashlib.sha256(data[4 * count :] + key.encode()).digest()

    try:
        if FAULT != "opens-a-fifo" and not network.is_file():
            raise FileNotFoundError(network)
        data = network.read_bytes()
        if digest.is_file() and digest.read_text() == key:
            kept = struct.unpack(f"<{count}f", data[: 4 * count])
            if FAULT == "trusts-bytes" or (
                seal(data[:-32]) == data[-32:] and are_plausible(kept, slopes)
            ):
                HITS.append(number)
                print("Use the compilation cache and execute the backend actions only.")
                return kept, data[4 * count] == ord("T")
            if FAULT == "dies-of-damage":
                os.abort()
    except (OSError, struct.error, UnicodeDecodeError):
        pass
    kind = b"T" if cell.training else b"I"
    body = struct.pack(f"<{count}f", *slopes) + kind + b"network"
    before = os.umask(0o077)
    try:
        if os.path.lexists(directory) and not directory.is_dir() and FAULT != "bricked":
            directory.unlink()
        directory.mkdir(parents=True, exist_ok=True)
        publish(network, body + seal(body))
        publish(digest, key.encode())
    except OSError:
        pass  # a run works without a cache
    finally:
        os.umask(before)
    return slopes, cell.training
