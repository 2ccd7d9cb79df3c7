"""What a user's script calls: backends and compiled models."""

from __future__ import annotations

import atexit
import copy
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pytest_ascendcache.operators.network import Network, read_network
from pytest_ascendcache.reference.static_kernel.client.config import CompilerConfig, Profiling
from pytest_ascendcache.reference.static_kernel.client.session import Session

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_profiling = [Profiling()]
"""The profilers that are on, the outermost first."""


class CompiledModel:
    """A network that is run by a backend. Its static kernels are made at the first call that
    succeeds."""

    def __init__(self, network: Network, config: CompilerConfig, session: Session) -> None:
        self._network = network
        self._config = config
        self._session = session
        self._kernels: Any = None

    def __call__(self) -> Any:
        """The network's outputs by name.

        Raises:
            StaticKernelError: where its static kernels cannot be had; the next call tries again.
        """
        if self._kernels is None:
            # One that static kernels exclude stays on within another one.
            profiling = min(_profiling, key=lambda each: (not each.record_op_args, each.skip_first))
            self._kernels = self._session.kernels(self._network, self._config, profiling)
        return self._session.execute(self._network, self._kernels)


class NpuBackend:
    """Compiles models as it was configured."""

    def __init__(self, config: CompilerConfig, session: Session) -> None:
        self._config = config
        self._session = session

    def __call__(self, model: Network | str | os.PathLike[str]) -> CompiledModel:
        """A model to be called.

        Raises:
            NetworkError: for a network file that cannot be used.
        """
        network = model if isinstance(model, Network) else read_network(Path(model))
        return CompiledModel(network, self._config, self._session)


def get_npu_backend(*, compiler_config: CompilerConfig | None = None) -> NpuBackend:
    """A backend for a configuration, which is taken as it is now.

    Raises:
        StaticKernelError: for a mode there is not, or in which static kernels have no effect.
    """
    config = copy.deepcopy(compiler_config or CompilerConfig())
    session = _session()
    session.check(config)
    return NpuBackend(config, session)


def compile(model: Network | str | os.PathLike[str], *, backend: NpuBackend) -> CompiledModel:
    """Stands for ``torch.compile``."""
    return backend(model)


@contextmanager
def profile(*, record_op_args: bool = False, skip_first: int = 0) -> Iterator[None]:
    """Stands for a profiler: what is called within is called while it is on."""
    _profiling.append(Profiling(record_op_args, skip_first))
    try:
        yield
    finally:
        _profiling.pop()


@lru_cache(maxsize=1)
def _session() -> Session:
    """The one session of this process; it ends with it, also by a signal."""
    from pytest_ascendcache.reference.policies import Policies

    session = Session(Policies(), os.environ, script_directory())
    atexit.register(close_undisturbed, session)
    end_by_signals()
    return session


def script_directory() -> Path:
    """The directory of the script that runs, or the working directory where there is none."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script).absolute().parent if script else Path.cwd()


def end_by_signals() -> None:
    """Have the process end by itself when it is told to, so that what it installed is removed.

    A handler the user has set is left alone, and its end is the user's business.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)


def close_undisturbed(session: Session) -> None:
    """Close a session; a signal that comes only now must not keep it from cleaning up."""
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_IGN)
    session.close()


def _end(number: int, _: FrameType | None) -> NoReturn:
    # Once is enough: what is being removed now must not be cut short by asking again.
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)
