"""The golden kernel manifest: which kernels a release was approved with.

A JSON object: ``schema``; ``toolchain`` (name and version), ``soc`` and ``options``, a digest of
everything else kernels depend on, for a manifest says nothing of kernels of another toolchain or
of other options; ``kernels``, by operator: digest and size (bytes) of the object.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.contract import ModeTable
from pytest_ascendcache.files import destination, read_text, write_output
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.operators.singleop import single_op_document
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import Release
from pytest_ascendcache.release.inputs import file_sha256
from pytest_ascendcache.release.problem import Problem

SCHEMA = 1


class ManifestError(Exception):
    """A manifest nothing can be compared with, or that cannot be written."""


@dataclass(frozen=True)
class KernelDigest:
    """A kernel: digest and size (bytes) of its object; ``operator`` describes it to people."""

    operator: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """Kernels by operator (see :func:`distinct_operators`), and what they depend on; ``model`` has
    those of the converted model by the names of their functions, where it was converted."""

    toolchain: str
    version: str
    soc: str
    options: str
    kernels: Mapping[str, KernelDigest]
    model: Mapping[str, KernelDigest] | None = None

    def unlike(self, other: Manifest) -> str:
        """Why the kernels of two manifests cannot be compared; empty where they can."""
        for what, mine, theirs in (
            ("toolchain", self.toolchain, other.toolchain),
            ("toolchain version", self.version, other.version),
            ("SoC", self.soc, other.soc),
        ):
            if mine != theirs:
                return f"it is of the {what} {mine!r}, and {theirs!r} is judged"
        if self.options != other.options:
            return "it was made with other options, precision file or knowledge base"
        return ""

    def model_problems(self, now: Mapping[str, KernelDigest]) -> list[Problem]:
        """Where the kernels of the model converted now are not those of the manifest."""
        found, golden = [], self.model or {}
        for name in sorted({*golden, *now}):
            if name not in golden:
                found.append(Problem(f"the model has the kernel {name}", "not in manifest"))
            elif name not in now:
                found.append(Problem(f"the model has no kernel {name}", _shown(golden[name])))
            elif _bytes(golden[name]) != _bytes(now[name]):
                found.append(Problem(f"{name}: {_shown(now[name])}", _shown(golden[name])))
        return found

    def problems(self, now: Mapping[str, KernelDigest]) -> list[Problem]:
        """Where the kernels compiled now are not those of the manifest."""
        found = []
        for key in sorted({*self.kernels, *now}):
            golden, kernel = self.kernels.get(key), now.get(key)
            if golden is None and kernel is not None:
                found.append(Problem(f"{kernel.operator} ({key}) is compiled", "not in manifest"))
            elif kernel is None and golden is not None:
                found.append(
                    Problem(
                        f"no operator of the release is {key}", f"a kernel of {golden.operator}"
                    )
                )
            elif golden is not None and kernel is not None and _bytes(golden) != _bytes(kernel):
                found.append(Problem(f"{kernel.operator}: {_shown(kernel)}", _shown(golden)))
        return found


def _bytes(kernel: KernelDigest) -> tuple[str, int]:
    return (kernel.sha256, kernel.size)


def _shown(kernel: KernelDigest) -> str:
    return f"sha256 {kernel.sha256[:16]}..., {kernel.size} bytes"


_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")


def distinct_operators(release: Release) -> dict[str, OperatorSpec]:
    """The operators that are different kernels, by a key made of what the kernel depends on.

    That is type, tensors and attributes, and the name where the precision file gives a mode to
    an operator by its name. A name that can be no file's is left out where it does not matter,
    for ATC delivers kernels under their names.
    """
    file = release.precision_file
    named = _modes(file).by_name if file is not None and file.is_file() else {}
    found: dict[str, OperatorSpec] = {}
    for operator in release.operators:
        key = _key(operator) + (f"-{operator.name}" if operator.name in named else "")
        if operator.name not in named and not _FILE_NAME.fullmatch(operator.name):
            operator = operator.named("")
        found.setdefault(key, operator)
    return found


def _key(operator: OperatorSpec) -> str:
    text = json.dumps(single_op_document([operator.named("")]), sort_keys=True)
    return f"{operator.type}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _modes(path: Path) -> ModeTable:
    return ModeTable.read(read_text(path, errors="replace"))


def options_digest(release: Release) -> str:
    """Digest of what its kernels depend on beside toolchain, SoC and operators.

    Files count by what they say, so that a release may be moved and commented.

    Raises:
        OSError: where one of the files cannot be read.
    """
    options: dict[str, Any] = dict(release.kernel_options)
    if release.precision_file is not None and atc.PRECISION_FILE in options:
        table = _modes(release.precision_file)
        options[atc.PRECISION_FILE] = [dict(table.by_type), dict(table.by_name)]
    for name in (atc.OP_BANK, atc.MODEL_BANK):
        options.pop(name, None)
    banks = [_content(bank) for bank in release.knowledge_base]
    text = json.dumps({"options": options, "knowledge_base": banks}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _content(path: Path) -> dict[str, str]:
    """Digests of a file, or of every file of a directory, by name."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    return {
        "" if each == path else each.relative_to(path).as_posix(): file_sha256(each)
        for each in files
    }


def _check_manifest(path: Path) -> None:
    """Whatever is there under a manifest's name and is none is not to be lost."""
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "kernels" not in content:
        raise ManifestError(
            f"{path} is no manifest and is left as it is; name another file, or remove it."
        )


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises:
        ManifestError: naming the file and what is wrong with it.
    """
    try:
        content = json.loads(read_text(path))
    except FileNotFoundError:
        raise ManifestError(
            f"there is no manifest {path}; --ascend-manifest-update writes it."
        ) from None
    except OSError as error:
        raise ManifestError(f"the manifest {path} cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"the manifest {path} is not JSON: {error}.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ManifestError(
            f"the manifest {path} is not of schema {SCHEMA}; write it anew with "
            "--ascend-manifest-update."
        )
    if damage := _damage(content):
        raise ManifestError(
            f"the manifest {path} is damaged: {damage}; take it from version control, or write it "
            "anew with --ascend-manifest-update."
        )
    kernels, model = (
        {key: KernelDigest(**fields) for key, fields in content.get(part, {}).items()}
        for part in ("kernels", "model")
    )
    toolchain = content["toolchain"]
    return Manifest(
        *(toolchain["name"], toolchain["version"], content["soc"], content["options"]),
        kernels,
        model if "model" in content else None,
    )


def _damage(content: Mapping[str, Any]) -> str:
    """What a manifest lacks, in words; empty where it is whole."""
    for key, kind in (("toolchain", dict), ("soc", str), ("options", str), ("kernels", dict)):
        if not isinstance(content.get(key), kind):
            return f"'{key}' is missing or of another type"
    for key in ("name", "version"):
        if not isinstance(content["toolchain"].get(key), str):
            return f"'toolchain.{key}' is missing or of another type"
    wanted = {"operator": str, "sha256": str, "size": int}
    model = content.get("model", {})
    if not isinstance(model, dict):
        return "'model' is of another type"
    for name, fields in [*content["kernels"].items(), *model.items()]:
        whole = isinstance(fields, dict) and fields.keys() == wanted.keys()
        if not whole or not all(type(fields[key]) is kind for key, kind in wanted.items()):
            return f"the kernel '{name}' has not just {', '.join(wanted)}"
    return ""


def update_manifest(
    path: Path,
    now: Manifest,
    kernels: Mapping[str, KernelDigest] | None = None,
    model: Mapping[str, KernelDigest] | None = None,
) -> None:
    """Write the kernels of operators or of the model into a manifest. The other part is kept where
    it is of the same circumstances; one process at a time reads and writes it.

    Raises:
        ManifestError: as :func:`read_manifest` and :func:`write_manifest`.
    """
    with _alone(path):
        golden = read_manifest(path) if path.exists() else now
        if golden.unlike(now):
            golden = now
        write_manifest(
            path,
            replace(
                now,
                kernels=golden.kernels if kernels is None else kernels,
                model=golden.model if model is None else model,
            ),
        )


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process updates a manifest in this directory meanwhile.

    Raises:
        ManifestError: where the directory cannot be locked.
    """
    place = destination(path).parent
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ManifestError(f"the manifest {path} cannot be written ({error.strerror}).") from None
    try:
        # NFS locks no directories. Writing still replaces the file as a whole there.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest whole, or leave the one that is there.

    Raises:
        ManifestError: where it cannot be written, or something else is there.
    """
    if path.exists():
        _check_manifest(path)
    content = {
        "schema": SCHEMA,
        "toolchain": {"name": manifest.toolchain, "version": manifest.version},
        "soc": manifest.soc,
        "options": manifest.options,
        "kernels": {key: asdict(each) for key, each in sorted(manifest.kernels.items())},
    }
    if manifest.model is not None:
        content["model"] = {key: asdict(each) for key, each in sorted(manifest.model.items())}
    try:
        write_output(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ManifestError(f"the manifest {path} cannot be written ({error.strerror}).") from None
