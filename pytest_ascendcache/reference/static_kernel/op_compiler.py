"""The command ``ascendcache-op-compiler``: the part of CANN's ``op_compiler`` for static kernels.

Unlike CANN's, it does not end with 0 if operators failed or nothing was packed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.log import Log
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel.archive import PackageError, PackageManifest
from pytest_ascendcache.reference.static_kernel.index import merged
from pytest_ascendcache.reference.static_kernel.options import (
    USAGE,
    OpCompilerError,
    OpCompilerOptions,
    parse,
)
from pytest_ascendcache.reference.static_kernel.package import NameTaken
from pytest_ascendcache.reference.static_kernel.soc import short_name

if TYPE_CHECKING:
    from pytest_ascendcache.reference.static_kernel.compilation import Job, KernelFile

EXIT_SUCCESS, EXIT_FAILED, EXIT_LEFT_OUT = 0, 1, 3


def main() -> int:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as on Ctrl-C
    return run(sys.argv[1:], os.environ)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    policies: Policies | None = None,
    installer: Sequence[str] = (),
) -> int:
    """Carry out one command line. Returns the exit status.

    That is 0, or 3 if operators were left out under ``--keep-going``, or 1 after printing the
    reason. ``installer`` is the command that the package starts instead of its own installer.
    """
    policies = policies or Policies()
    try:
        options = parse(argv)
        if options is None:
            print(USAGE, end="")
            return EXIT_SUCCESS
        return _OpCompiler(policies, options, environ, installer).run()
    except (OpCompilerError, AtcError, NameTaken) as error:
        return _fail(str(error), EXIT_FAILED)
    except PackageError as error:
        return _fail(f"No package can be made: {error}.", EXIT_FAILED)
    except OSError as error:
        reason = f"No package is made: {error.strerror} [{error.filename}]."
        return _fail(reason, EXIT_FAILED)
    except KeyboardInterrupt:
        return _fail("Interrupted; no package is made.", 130)


@dataclass(frozen=True)
class _OpCompiler:
    """One command line."""

    _policies: Policies
    _options: OpCompilerOptions
    _environ: Mapping[str, str]
    _installer: Sequence[str]

    def run(self) -> int:
        """Count the files, or compile and pack. Returns the exit status."""
        compilation = self._policies.static_kernel.compilation
        files = compilation.files(self._options.params)
        if self._options.count:
            print(f"json file number: {len(files)}")
            return EXIT_SUCCESS
        if not files:
            raise OpCompilerError(
                f"Option -p [{self._options.params}] holds no *.json; name a directory with "
                "operator information."
            )
        operators, problems = compilation.read(files)
        jobs = compilation.jobs(operators)
        if problems and not (jobs and self._options.keep_going):
            raise OpCompilerError("\n".join(problems))
        if not jobs:
            raise OpCompilerError(
                f"None of the {len(files)} files in [{self._options.params}] asks for a static "
                "kernel; tune_mode must be 'all' or 'static_kernel'."
            )
        for line in compilation.views(operators):
            _warn(line)
        packages, options = self._policies.static_kernel.packages, self._options
        # Reserving the package's path comes before compiling, which may take minutes.
        with packages.reserved(self._policies.fs, options.directory, options.package) as name:
            compiled, failures = self._compile(jobs)
            path = self._pack(compiled, name)
        left_out = [*problems, *failures]
        for line in left_out:
            _warn(f"left out: {line}")
        print(f"compiled {len(compiled)} operators of {len(files)} files for {self._options.soc}")
        print(f"generate run package {path.name} success")
        if left_out:
            print(f"static compiler left out {len(left_out)} operators", file=sys.stderr)
            return EXIT_LEFT_OUT
        print("static compiler success")
        return EXIT_SUCCESS

    def _compile(self, jobs: Sequence[Job]) -> tuple[list[tuple[Job, bytes]], list[str]]:
        """Compile. Returns the kernels, and a message for each operator that is left out."""
        # Importing this loads LLVM, which takes long; bad command lines are refused before.
        from pytest_ascendcache.reference.static_kernel.pool import compile_all

        policies, soc = self._policies, self._options.soc
        policies.installation.load_custom_operators(self._environ)
        tuning = policies.installation.tuning("", soc, self._environ)
        compilation = policies.static_kernel.compilation
        compiled, failures, log = [], [], Log(self._options.log)
        for job, result in compile_all(compilation, jobs, soc, tuning, self._options.jobs):
            log.info(f"{job.source}: {job.key}")
            if isinstance(result, bytes):
                compiled.append((job, result))
            else:
                failures.append(f"{job.source}: {result}")
        if self._options.keep_going and compiled:
            return compiled, failures
        return compilation.whole(compiled, failures), []

    def _pack(self, compiled: Sequence[tuple[Job, bytes]], name: str) -> Path:
        """Make and publish the package. Returns its path."""
        policies, soc = self._policies, self._options.soc
        packages, compilation = policies.static_kernel.packages, policies.static_kernel.compilation
        directory = short_name(soc)
        kernels = [
            kernel
            for job, data in compiled
            for kernel in compilation.kernel_files(job, data, name, directory)
        ]
        manifest = PackageManifest(name, soc, directory, _index(kernels), {})
        content = packages.content(manifest, _contents(kernels), self._installer)
        path = self._options.directory / f"{name}.run"
        packages.publish(policies.fs, path, content)
        return path


def _index(kernels: Iterable[KernelFile]) -> dict[str, dict[str, Any]]:
    """The package's part of the index."""
    return merged(
        {kernel.type: {"valueDependIndex": kernel.value_depend, "staticList": [kernel.entry]}}
        for kernel in kernels
    )


def _contents(kernels: Iterable[KernelFile]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for kernel in kernels:
        contents[kernel.path] = kernel.data
        contents[kernel.path.removesuffix(".o") + ".json"] = kernel.metadata
    return contents


def _warn(text: str) -> None:
    for line in text.splitlines():
        print(f"[WARNING] {line}", file=sys.stderr)


def _fail(reason: str, status: int) -> int:
    for line in reason.splitlines():
        print(f"[ERROR] {line}", file=sys.stderr)
    print("static compiler fail", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
