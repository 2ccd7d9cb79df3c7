"""Builds a toolkit from a checkout: the cache layer as a shared object, and an atc around it."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

from pytest_ascendcache.toolchains.atc import IMPL_MODE
from pytest_ascendcache.toolchains.cann_cache.checkout import Checkout
from pytest_ascendcache.toolchains.cann_cache.compiler import Notes, ObjectCompiler, SourceUnit
from pytest_ascendcache.toolchains.cann_cache.plan import BuildPlan, SourceError, python_headers

_TABLES = Path(__file__).parents[2] / "reference" / "opp" / IMPL_MODE
_LIBRARY = "libop_compile_adapter.so"
"""CANN's own name for it; versions are looked up next to it."""

_SET_ENV = """\
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PATH="$here/bin:$PATH" ASCEND_OPP_PATH="$here/opp"
"""


@dataclass(frozen=True)
class Toolkit:
    """A built toolkit with CANN's layout: ``bin/atc``, ``lib64``, ``opp``, ``version.info``.
    ``release`` is the CANN release of the sources; empty if unknown."""

    root: Path
    version: str
    commit: str
    release: str = ""

    @property
    def atc(self) -> Path:
        return self.root / "bin" / "atc"


def default_store() -> Path:
    """The directory of builds: ``pytest-ascendcache/cann-cache`` in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pytest-ascendcache" / "cann-cache"


def reference_command(name: str) -> str:
    """A command of the reference, whose compiler makes the kernels. Raises ``SourceError`` if it is
    not installed."""
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.is_file():
        raise SourceError(f"[{path}] is missing; install pytest-ascendcache into {sys.prefix}.")
    return str(path)


class Builder:
    """Builds toolkits in ``store``, with ``jobs`` compilers at the same time. ``say`` receives
    progress messages."""

    def __init__(
        self,
        store: Path | None = None,
        jobs: int | None = None,
        say: Callable[[str], None] = lambda _: None,
        plan: BuildPlan | None = None,
    ) -> None:
        self.store = (store or default_store()).absolute()
        self.plan = plan or BuildPlan.load()
        self._jobs = jobs or os.cpu_count() or 1
        self._say = say

    def build(self, source: Path) -> Toolkit:
        """The toolkit of a checkout. Builds it unless an equal one exists. Raises ``SourceError``
        if it cannot be built. Nothing half-built is left."""
        checkout = Checkout.open(source, self.plan)
        compiler = ObjectCompiler.find(self.plan, self.store / "objects")
        root = self.store / "toolkits" / self._key(checkout, compiler)
        if root.is_dir():
            return Toolkit(root, checkout.version, checkout.commit, checkout.release)
        with self._locked():
            if not root.is_dir():  # another process may have built it meanwhile
                objects = self._objects(checkout, compiler)
                self._publish(checkout, compiler, objects, root)
            return Toolkit(root, checkout.version, checkout.commit, checkout.release)

    def _key(self, checkout: Checkout, compiler: ObjectCompiler) -> str:
        parts = [checkout.digest, checkout.version, self.plan.digest, compiler.identity]
        parts += [*self.plan.flags, *self.plan.link, sys.executable, installed_version("llvmlite")]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]

    def _units(self, checkout: Checkout) -> Iterator[tuple[str, SourceUnit]]:
        native, root = self.plan.native, checkout.root
        for group in self.plan.groups:
            includes = [native / "command", *(native / each for each in group.standins)]
            includes += [root / each for each in group.includes]
            includes += [native / each for each in group.fallbacks]
            if group.python:
                includes.append(python_headers())
            for source in group.sources:
                yield "library", SourceUnit(root / source, tuple(includes), source)
            for own in group.own:
                yield "library", SourceUnit(native / own, tuple(includes), own)
        for own in self.plan.command:
            yield "command", SourceUnit(native / own, (native / "command",), own)

    def _objects(self, checkout: Checkout, compiler: ObjectCompiler) -> dict[str, list[Path]]:
        units = list(self._units(checkout))
        objects: dict[str, list[Path]] = {"library": [], "command": []}
        notes = Notes(self.store / "objects", checkout.root, self.plan)
        with ThreadPoolExecutor(self._jobs) as pool:
            made = [pool.submit(compiler.object, unit, checkout.root, notes) for _, unit in units]
            try:
                for number, ((kind, unit), future) in enumerate(zip(units, made, strict=True), 1):
                    objects[kind].append(future.result())
                    self._say(f"[{number}/{len(units)}] {Path(unit.shown).name}")
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return objects

    def _publish(
        self,
        checkout: Checkout,
        compiler: ObjectCompiler,
        objects: dict[str, list[Path]],
        root: Path,
    ) -> None:
        """Assemble the toolkit in a temporary directory, then rename it."""
        making = Path(tempfile.mkdtemp(prefix="making-", dir=self.store / "toolkits"))
        try:
            for name in ("bin", "lib64", f"opp/{IMPL_MODE}"):
                (making / name).mkdir(parents=True)
            library = making / "lib64" / _LIBRARY
            compiler.link(
                objects["library"], library, f"-Wl,-soname,{_LIBRARY}", *self.plan.library_link
            )
            compiler.link(
                [*objects["command"], library],
                making / "bin" / "atc",
                "-Wl,-rpath,$ORIGIN/../lib64,--enable-new-dtags",
            )
            release = checkout.version.replace(" ", "-")
            for place in (making, making / "opp"):
                (place / "version.info").write_text(f"Version={release}\n", encoding="utf-8")
            for table in _TABLES.glob("*.ini"):
                shutil.copy(table, making / "opp" / IMPL_MODE)
            kernels = self.store / "kernels"
            settings = {
                "command": [reference_command("ascendcache-atc")],
                "kept": str(kernels),
                "version": installed_version("llvmlite"),
            }
            text = json.dumps(settings, indent=1)
            (making / "bin" / "kernels.json").write_text(text, encoding="utf-8")
            (making / "set_env.sh").write_text(_SET_ENV, encoding="utf-8")
            making.chmod(0o755)
            making.rename(root)
        except OSError as error:
            raise SourceError(f"[{root}] cannot be built: {error}.") from None
        finally:
            shutil.rmtree(making, ignore_errors=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Allow one build at a time, and remove what a killed build left."""
        try:
            for name in ("objects", "toolkits", "kernels"):
                (self.store / name).mkdir(parents=True, exist_ok=True)
            lock = (self.store / "lock").open("a")
        except OSError as error:
            raise SourceError(
                f"[{self.store}] cannot be written ({error.strerror}); set XDG_CACHE_HOME to a "
                "directory that can."
            ) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._say("another build is at work; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for left in (self.store / "objects").glob("*.tmp"):
                left.unlink(missing_ok=True)
            for left in (self.store / "toolkits").glob("making-*"):
                shutil.rmtree(left, ignore_errors=True)
            yield
