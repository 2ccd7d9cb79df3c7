"""Compiling in several processes."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor

from pytest_ascendcache.reference.kernels import KernelError
from pytest_ascendcache.reference.static_kernel.compilation import Job, StaticKernelPolicy
from pytest_ascendcache.reference.static_kernel.options import OpCompilerError

_PR_SET_PDEATHSIG = 1


class _Work:
    """What every worker has from its parent by being forked from it."""

    policy: StaticKernelPolicy
    jobs: Sequence[Job]
    soc: str
    tuning: Mapping[str, Mapping[str, int]]


def compile_all(
    policy: StaticKernelPolicy,
    jobs: Sequence[Job],
    soc: str,
    tuning: Mapping[str, Mapping[str, int]],
    processes: int,
) -> Iterator[tuple[Job, bytes | str]]:
    """Objects, or the reason why there is none, in the order of the jobs.

    Raises:
        OpCompilerError: where a process that compiles was killed.
    """
    _Work.policy, _Work.jobs, _Work.soc, _Work.tuning = policy, jobs, soc, tuning
    pool = ProcessPoolExecutor(
        min(processes, len(jobs)),
        mp_context=multiprocessing.get_context("fork"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        yield from zip(jobs, pool.map(_compile, range(len(jobs))), strict=True)
    except BrokenExecutor:
        raise OpCompilerError(
            "A process that compiles was killed, perhaps for want of memory; "
            "try again with fewer (-j)."
        ) from None
    except BaseException:
        # Whatever they are at, nobody is waiting for it any more.
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """In a worker: end with the parent, and leave being stopped to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit()


def _compile(number: int) -> bytes | str:
    job = _Work.jobs[number]
    try:
        return _Work.policy.compile(job, _Work.soc, _Work.tuning.get(job.info.type, {}))
    except KernelError as error:
        return str(error)
