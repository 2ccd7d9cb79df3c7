"""The golden kernel manifest: which kernels a release was approved with.

It is a JSON object. ``kernels`` has the digest and size (bytes) of each operator's object. It holds
only for the same ``toolchain`` (name and version), ``soc`` and ``options``, a digest of everything
else that kernels depend on. ``schema`` is the version of this format.
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
from pytest_ascendcache.release.inputs import file_sha256, files_of
from pytest_ascendcache.release.problem import Problem, listed
from pytest_ascendcache.release.recorded import Input, input_problems

SCHEMA = 1


class ManifestError(Exception):
    """A manifest cannot be compared with, or cannot be written."""


@dataclass(frozen=True)
class KernelDigest:
    """Digest and size (bytes) of a kernel's object; ``operator`` describes it to people."""

    operator: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """Kernels by operator (see :func:`distinct_operators`), and what they depend on.

    ``model`` has the kernels of the converted model by function name, if there is a model.
    ``inputs`` has what the release was made from, and ``settings`` what ``options`` is a digest of;
    manifests of former versions have neither.
    """

    toolchain: str
    version: str
    soc: str
    options: str
    kernels: Mapping[str, KernelDigest]
    model: Mapping[str, KernelDigest] | None = None
    inputs: Mapping[str, Input] | None = None
    settings: Mapping[str, str] | None = None

    def unlike(self, other: Manifest) -> str:
        """Return why the kernels of two manifests cannot be compared; empty if they can."""
        for what, mine, theirs in (
            ("toolchain", self.toolchain, other.toolchain),
            ("toolchain version", self.version, other.version),
            ("SoC", self.soc, other.soc),
        ):
            if mine != theirs:
                return f"it is of the {what} {mine!r}, and {theirs!r} is judged"
        if self.options != other.options:
            before, after = self.settings or {}, other.settings or {}
            changed = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
            if self.settings is not None and changed:
                return f"{', '.join(changed)} changed since it was written"
            return "it was made with other options, precision file or knowledge base"
        return ""

    def input_problems(self, now: Mapping[str, Input]) -> list[Problem]:
        """Return which inputs of the release are not those of the manifest."""
        return [] if self.inputs is None else input_problems(self.inputs, now)

    @listed
    def model_problems(self, now: Mapping[str, KernelDigest]) -> Iterator[Problem]:
        """Report how the kernels of the model converted now differ from the manifest's."""
        for name, golden, kernel in _differences(self.model or {}, now):
            if golden is None:
                yield Problem(f"the model has the kernel {name}", "no such kernel")
            elif kernel is None:
                yield Problem(f"the model has no kernel {name}", _shown(golden))
            else:
                yield Problem(f"{name}: {_shown(kernel)}", _shown(golden))

    @listed
    def problems(self, now: Mapping[str, KernelDigest]) -> Iterator[Problem]:
        """Report how the kernels compiled now differ from the manifest's."""
        for key, golden, kernel in _differences(self.kernels, now):
            if kernel is None:
                wanted = f"a kernel of {golden.operator}" if golden else ""
                yield Problem(f"no operator of the release is {key}", wanted)
            elif golden is None:
                yield Problem(f"{kernel.operator} ({key}) is compiled", "no such operator")
            else:
                yield Problem(f"{kernel.operator}: {_shown(kernel)}", _shown(golden))


def _differences(
    golden: Mapping[str, KernelDigest], now: Mapping[str, KernelDigest]
) -> Iterator[tuple[str, KernelDigest | None, KernelDigest | None]]:
    """Yield the keys whose objects differ, each with the golden and the present kernel."""
    for key in sorted({*golden, *now}):
        one, other = golden.get(key), now.get(key)
        if one is None or other is None or (one.sha256, one.size) != (other.sha256, other.size):
            yield key, one, other


def _shown(kernel: KernelDigest) -> str:
    return f"sha256 {kernel.sha256[:16]}..., {kernel.size} bytes"


_FILE_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")


def distinct_operators(release: Release) -> dict[str, OperatorSpec]:
    """Return one operator per kernel, by a key made of type, tensors and attributes, and of the
    name if the precision file gives the operator a mode by name. ATC names delivered files after
    operators, so another name is dropped if no file can have it."""
    file = release.precision_file
    named = _modes(file).by_name if file is not None and file.is_file() else {}
    found: dict[str, OperatorSpec] = {}
    for operator in release.operators:
        text = json.dumps(single_op_document([operator.named("")]), sort_keys=True)
        key = f"{operator.type}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if operator.name in named:
            key += f"-{operator.name}"
        elif not _FILE_NAME.fullmatch(operator.name):
            operator = operator.named("")
        found.setdefault(key, operator)
    return found


def _modes(path: Path) -> ModeTable:
    return ModeTable.read(read_text(path, errors="replace"))


def release_settings(release: Release) -> dict[str, str]:
    """Return what :func:`options_digest` is made of, by name, so that a change can be named. Raises
    ``OSError`` if one of the files cannot be read."""
    return {
        name if name == _BANK else f"--{name}": json.dumps(value, sort_keys=True)
        for name, value in _settings(release).items()
    }


_BANK = "the knowledge base"


def _settings(release: Release) -> dict[str, Any]:
    options: dict[str, Any] = dict(release.kernel_options)
    if release.precision_file is not None and atc.PRECISION_FILE in options:
        table = _modes(release.precision_file)
        options[atc.PRECISION_FILE] = [dict(table.by_type), dict(table.by_name)]
    for name in (atc.OP_BANK, atc.MODEL_BANK):
        options.pop(name, None)
    return {**options, _BANK: [_content(bank) for bank in release.knowledge_base]}


def options_digest(release: Release) -> str:
    """Return a digest of what kernels depend on apart from toolchain, SoC and operators. Files
    count by content, so that a release may be moved, and its precision file commented. Raises
    ``OSError`` if one of the files cannot be read."""
    options = _settings(release)
    banks = options.pop(_BANK)
    text = json.dumps({"options": options, "knowledge_base": banks}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _content(path: Path) -> dict[str, str]:
    """Return the digests of a directory's files by relative path, or of one file by ``""``."""
    if not path.is_dir():
        return {"": file_sha256(path)}
    return {each.relative_to(path).as_posix(): file_sha256(each) for each in files_of(path)}


def read_manifest(path: Path) -> Manifest:
    """Read a manifest. Raises ``ManifestError``, which names the file and what is wrong with it."""
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
    parts: dict[str, Any] = {
        part: {key: kind(**fields) for key, fields in content[part].items()}
        for part, kind in (("kernels", KernelDigest), ("model", KernelDigest), ("inputs", Input))
        if part in content
    }
    return Manifest(
        toolchain=content["toolchain"]["name"],
        version=content["toolchain"]["version"],
        soc=content["soc"],
        options=content["options"],
        settings=content.get("settings"),
        **parts,
    )


def _damage(content: Mapping[str, Any]) -> str:
    for key, kind in (("toolchain", dict), ("soc", str), ("options", str), ("kernels", dict)):
        if not isinstance(content.get(key), kind):
            return f"'{key}' is missing or of another type"
    for key in ("name", "version"):
        if not isinstance(content["toolchain"].get(key), str):
            return f"'toolchain.{key}' is missing or of another type"
    model = content.get("model", {})
    if not isinstance(model, dict):
        return "'model' is of another type"
    inputs, settings = content.get("inputs", {}), content.get("settings", {})
    if not isinstance(inputs, dict) or not isinstance(settings, dict):
        return "'inputs' or 'settings' is of another type"
    shape = {"kind": str, "value": str, "parts": dict}
    for name, fields in inputs.items():
        if not isinstance(fields, dict) or {k: type(v) for k, v in fields.items()} != shape:
            return f"the input '{name}' has not just {', '.join(shape)}"
    wanted = {"operator": str, "sha256": str, "size": int}
    for name, fields in [*content["kernels"].items(), *model.items()]:
        if not isinstance(fields, dict) or {k: type(v) for k, v in fields.items()} != wanted:
            return f"the kernel '{name}' has not just {', '.join(wanted)}"
    return ""


def update_manifest(
    path: Path,
    now: Manifest,
    kernels: Mapping[str, KernelDigest] | None = None,
    model: Mapping[str, KernelDigest] | None = None,
) -> None:
    """Write the kernels of operators or of the model into a manifest. The other part is kept if it
    is comparable. Concurrent updates wait for each other. Raises the errors of
    :func:`read_manifest` and :func:`write_manifest`."""
    with _alone(path):
        try:
            golden = read_manifest(path) if path.exists() else now
        except ManifestError:
            golden = now  # a damaged one is replaced, and what is none at all is refused below
        if golden.unlike(now):
            golden = now
        kernels = golden.kernels if kernels is None else kernels
        model = golden.model if model is None else model
        write_manifest(path, replace(now, kernels=kernels, model=model))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock under which one process at a time updates manifests in a directory. Raises
    ``ManifestError`` if the directory cannot be opened."""
    place = destination(path).parent
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ManifestError(f"the manifest {path} cannot be written ({error.strerror}).") from None
    try:
        # NFS cannot lock a directory. Writing still replaces the file as a whole there.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest, as a whole or not at all. Raises ``ManifestError`` if it cannot be written,
    or the file exists and is not a manifest."""
    if path.exists():
        try:
            existing = json.loads(read_text(path))
        except (OSError, ValueError, RecursionError):
            existing = None
        if not isinstance(existing, dict) or "kernels" not in existing:
            raise ManifestError(
                f"{path} is no manifest and is left as it is; name another file, or remove it."
            )
    content = {
        "schema": SCHEMA,
        "toolchain": {"name": manifest.toolchain, "version": manifest.version},
        "soc": manifest.soc,
        "options": manifest.options,
    }
    for part in ("kernels", "model", "inputs", "settings"):
        if (items := asdict(manifest)[part]) is not None:
            content[part] = dict(sorted(items.items()))
    try:
        write_output(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ManifestError(f"the manifest {path} cannot be written ({error.strerror}).") from None
