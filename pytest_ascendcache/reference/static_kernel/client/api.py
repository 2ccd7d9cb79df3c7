"""The interface for users' scripts: backends and compiled models."""

from __future__ import annotations

import atexit
import copy
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from pytest_ascendcache.operators.network import Network, read_network
from pytest_ascendcache.reference.static_kernel.client.config import CompilerConfig, Profiling
from pytest_ascendcache.reference.static_kernel.client.session import Session

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_profiling = [Profiling()]
"""The active profilers, the outermost first."""


@dataclass(eq=False)
class CompiledModel:
    """A network that a backend runs. The first successful call makes its static kernels."""

    _network: Network
    _config: CompilerConfig
    _session: Session
    _kernels: Any = None

    def __call__(self) -> Any:
        """Run the network. Returns its outputs by name.

        Raises ``StaticKernelError`` if its static kernels cannot be made; the next call tries
        again.
        """
        if self._kernels is None:
            # If any of several nested profilers is incompatible with static kernels, use that one.
            profiling = min(_profiling, key=lambda each: (not each.record_op_args, each.skip_first))
            self._kernels = self._session.kernels(self._network, self._config, profiling)
        return self._session.execute(self._network, self._kernels)


@dataclass(eq=False)
class NpuBackend:
    """Compiles models with one configuration."""

    _config: CompilerConfig
    _session: Session

    def __call__(self, model: Network | str | os.PathLike[str]) -> CompiledModel:
        """Compile a model. Raises ``NetworkError`` if a network file cannot be used."""
        network = model if isinstance(model, Network) else read_network(Path(model))
        return CompiledModel(network, self._config, self._session)


def get_npu_backend(*, compiler_config: CompilerConfig | None = None) -> NpuBackend:
    """A backend with a configuration, of which it takes a copy.

    Raises ``StaticKernelError`` for an unknown mode, or one in which static kernels have no effect.
    """
    config = copy.deepcopy(compiler_config or CompilerConfig())
    session = _session()
    session.check(config)
    return NpuBackend(config, session)


def compile(model: Network | str | os.PathLike[str], *, backend: NpuBackend) -> CompiledModel:
    """The equivalent of ``torch.compile``."""
    return backend(model)


@contextmanager
def profile(*, record_op_args: bool = False, skip_first: int = 0) -> Iterator[None]:
    """The equivalent of a profiler that is active within the ``with`` block."""
    _profiling.append(Profiling(record_op_args, skip_first))
    try:
        yield
    finally:
        _profiling.pop()


@lru_cache(maxsize=1)
def _session() -> Session:
    """The session of this process. It is closed when the process ends, also by a signal."""
    from pytest_ascendcache.reference.policies import Policies

    session = Session(Policies(), os.environ, script_directory())
    atexit.register(close_undisturbed, session)
    end_by_signals()
    return session


def script_directory() -> Path:
    """The directory of the running script, or the working directory if there is none."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(script).absolute().parent if script else Path.cwd()


def end_by_signals() -> None:
    """Turn signals that end the process into a normal exit, so that packages are uninstalled.

    Handlers that the user has set are left alone.
    """
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)


def close_undisturbed(session: Session) -> None:
    """Close a session, ignoring signals that would interrupt the clean-up."""
    if threading.current_thread() is threading.main_thread():
        for number in _ENDING:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_IGN)
    session.close()


def _end(number: int, _: FrameType | None) -> NoReturn:
    # A second signal must not interrupt the clean-up.
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)
