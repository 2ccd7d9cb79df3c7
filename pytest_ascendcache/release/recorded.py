"""What a release is made from: a digest and a kind for every input, as the manifest records it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_ascendcache.release import command as atc
from pytest_ascendcache.release.file import CUSTOM_OPP, KERNEL_OPTIONS, Release
from pytest_ascendcache.release.inputs import external_data, file_sha256, files_of
from pytest_ascendcache.release.onnx_parts import GRAPH, onnx_parts
from pytest_ascendcache.release.problem import Problem, listed, names
from pytest_ascendcache.words import count

_KINDS = {"0": "Caffe model", "1": "AIR model", "3": "TensorFlow model", "5": "ONNX model"}
_ONNX = "5"
_IRRELEVANT = (
    *(atc.OUTPUT, atc.CACHE_DIR, atc.CACHE_MODE, atc.SINGLE_OP, atc.SOC, "log", "debug_dir"),
    *("check_report", "display_model_info", "json", "mode", "framework", "export_compile_stat"),
    *("ac_parallel_enable", "device_id", "save_original_model", "dump_mode", atc.DEBUG_LEVEL),
    *(atc.PRECISION_FILE, atc.OP_BANK, atc.MODEL_BANK, *KERNEL_OPTIONS),
)
"""Options that do not change the model, or are part of the digest of options."""


@dataclass(frozen=True)
class Input:
    """One input: its kind, its digest (or an option's value), and digests of its parts by name."""

    kind: str
    value: str
    parts: Mapping[str, str] = field(default_factory=dict)


def recorded_inputs(release: Release) -> dict[str, Input]:
    """Return every input of a release by what names it: an option, a file of external data, a file
    of an operator package. Raises ``OSError`` for a file that cannot be read."""
    found = dict(_packages(release))
    options = release.options
    for name in sorted(options.keys() - {*_IRRELEVANT}):
        value = options[name]
        if not release.names_file(name):
            found[f"--{name}"] = Input("option", value)
            continue
        path = release.place(value)
        kind = _KINDS.get(options.get("framework", ""), "model") if name == atc.MODEL else "file"
        is_onnx = name == atc.MODEL and options.get("framework") == _ONNX
        parts = onnx_parts(path) if is_onnx else {}
        found[f"--{name}"] = Input(kind, file_sha256(path), parts)
        for each in external_data(path) if is_onnx else ():
            place = os.path.relpath(each, path.parent)
            found[f"external data {place}"] = Input("external data", file_sha256(each))
    return found


def _packages(release: Release) -> Iterator[tuple[str, Input]]:
    """Yield the packages of custom operators, each as one digest of all of its files."""
    value = release.kernel_environment.get(CUSTOM_OPP, "")
    for number, text in enumerate(filter(None, value.split(os.pathsep)), start=1):
        place = Path(text)
        files = {
            os.path.relpath(each, place): file_sha256(each)
            for each in files_of(place)
            if each.suffix != ".pyc"
        }
        digest = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
        parts = files if len(files) <= 1000 else {}
        yield f"{CUSTOM_OPP} {number}", Input("operator package", digest, parts)


@listed
def input_problems(golden: Mapping[str, Input], now: Mapping[str, Input]) -> Iterator[Problem]:
    """Return what changed since the manifest was written, one by one."""
    for name in sorted({*golden, *now}):
        before, after = golden.get(name), now.get(name)
        if before is None and after is not None:
            yield Problem(f"{name} is given{_shown(after)}", "no such input, as approved")
        elif after is None and before is not None:
            yield Problem(f"{name} is not given", f"{name}{_shown(before)}, as approved")
        elif before is not None and after is not None and before.value != after.value:
            yield _changed(name, before, after)


def _changed(name: str, before: Input, after: Input) -> Problem:
    if after.kind == "option":
        return Problem(f"{name}={after.value}", f"{name}={before.value}, as approved")
    keys = sorted({*before.parts, *after.parts})
    changed = [each for each in keys if before.parts.get(each) != after.parts.get(each)]
    weights = [each for each in changed if each != GRAPH]
    problem = f"{name}: only its producer or metadata differs"
    if not (before.parts and after.parts):
        problem = f"{name}: the {after.kind} changed, sha256 {after.value[:16]}..."
    elif after.kind == "operator package":
        problem = f"the files {names(changed)} of {name} changed"
    elif weights and GRAPH not in changed:
        problem = (
            f"{name}: weights differ in {count(len(weights), 'initialiser')}: {names(weights)}"
        )
    elif changed:
        more = f", and in {len(weights)} initialisers: {names(weights)}" if weights else ""
        problem = f"{name}: the model differs in its graph{more}"
    return Problem(problem, f"sha256 {before.value[:16]}..., as approved")


def _shown(each: Input) -> str:
    return f"={each.value}" if each.kind == "option" else f", sha256 {each.value[:16]}..."
