"""Compiling kernels in several processes."""

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
    """The workers' input, which they inherit by being forked."""

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
    """Compile all jobs. Yields each job with its object, or with the reason of its failure.

    Raises ``OpCompilerError`` if a worker was killed.
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
        # Nobody waits for the workers' results any more.
        for worker in multiprocessing.active_children():
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """Prepare a worker: it ignores signals that stop the command, and dies with its parent."""
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
