"""Releases as users might make them. What a scene does not mention is right."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_ascendcache.conformance import PACKAGE
from pytest_ascendcache.operators import OperatorSpec, TensorDesc, write_single_op
from pytest_ascendcache.qualification import defective
from pytest_ascendcache.qualification.catalogue import scene
from pytest_ascendcache.qualification.toolchain import reference_toolchain
from pytest_ascendcache.reference import atc, train
from pytest_ascendcache.release.file import read_release
from pytest_ascendcache.release.manifest import (
    KernelDigest,
    Manifest,
    distinct_operators,
    options_digest,
    release_settings,
    write_manifest,
)
from pytest_ascendcache.release.recorded import recorded_inputs

SOC = "Ascend910B1"
_HALF, _SINGLE = TensorDesc.of("float16", 8, 16), TensorDesc.of("float32", 8, 16)
_OPERATORS = (
    OperatorSpec("Sqrt", (_HALF,), (_HALF,), name="layer_sqrt"),
    OperatorSpec("Exp", (_HALF,), (_HALF,), name="layer_exp"),
    OperatorSpec("Add", (_SINGLE, _SINGLE), (_SINGLE,), name="layer_add"),
)
_PRECISION = "Sqrt=high_precision\nExp=high_performance\n[ByNodeName]\nlayer_exp=high_precision\n"
_OPTIONS = {
    "soc_version": SOC,
    "op_compiler_cache_mode": "force",
    "op_compiler_cache_dir": "cache",
    "op_precision_mode": "model.ini",
    "op_bank_path": "bank",
}
_NETWORK = {
    "network": "square",
    "tensors": [
        {"name": "x", "format": "ND", "shape": [3], "type": "float32"},
        {"name": "y", "format": "ND", "shape": [3], "type": "float32"},
    ],
    "constants": {"x": [1, 2, 3]},
    "operators": [{"op": "Square", "name": "square", "inputs": ["x"], "outputs": ["y"]}],
    "outputs": ["y"],
}
_INI = "[op_compiler_cache]\nmax_op_cache_size=200\nremain_cache_size_ratio=50\n"
_LONG_AGO = 1_700_000_000
"""A time (seconds) before any kernel of a scene is compiled."""


def _release(
    directory: Path,
    options: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    precision: str = _PRECISION,
    **keys: Any,
) -> Path:
    """Write a release that is right except for the arguments."""
    directory.mkdir(exist_ok=True)
    write_single_op(directory / "operators.json", _OPERATORS)
    (directory / "model.ini").write_text(precision, encoding="utf-8")
    (directory / "bank").mkdir(exist_ok=True)
    _tune(directory, 4)
    tables = {"options": {**_OPTIONS, **(options or {})}, "environment": environment or {}}
    return write_release(directory, tables, operators="operators.json", **keys)


def write_release(directory: Path, tables: Mapping[str, Mapping[str, Any]], **keys: Any) -> Path:
    """Write ``release.toml`` with these keys and tables. It lacks those that are None."""
    content = {"": {"name": "scene", "toolchain": "reference", **keys}, **tables}
    lines = []
    for name, table in content.items():
        lines += [f"[{name}]"] if name else []
        lines += [f"{key} = {json.dumps(each)}" for key, each in table.items() if each is not None]
    path = directory / "release.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _tune(directory: Path, tile: int, second: int = _LONG_AGO) -> None:
    """Write the knowledge base, last changed at a time in seconds."""
    path = directory / "bank" / f"{SOC}.json"
    path.write_text(json.dumps({"Sqrt": {"tile": tile}}), encoding="utf-8")
    os.utime(path, (second, second))


def judge(path: Path, defect: str = "", rules: Iterable[str] = ()) -> list[str]:
    """The arguments of pytest that have a release judged, by these rules if not by all.

    The toolchain has the ``defect`` if one is named.
    """
    options = [f"--ascend-defect={defect}"] if defect else []
    options += [f"--ascend-rule={each}" for each in rules]
    return [f"--ascend-release={path}", *options, PACKAGE]


def _run(program: list[str], *arguments: str, work: Path, **environment: str) -> None:
    """Run a module with arguments in a directory."""
    subprocess.run(
        [sys.executable, "-m", *program, *arguments],
        cwd=work,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )


def run_atc(work: Path, options: Mapping[str, object], defect: str = "") -> None:
    """Run atc in a directory, with a seeded defect if one is named."""
    program = [defective.__name__, defect, "atc"] if defect else [atc.__name__]
    _run(program, *(f"--{key}={value}" for key, value in options.items()), work=work)


def _filled(directory: Path, defect: str = "", **keys: Any) -> Path:
    """Write a release, and compile it into its cache ``cache`` with its own options."""
    path = _release(directory, **keys)
    options = {
        "singleop": directory / "operators.json",
        "output": directory / "out",
        "soc_version": SOC,
        "op_compiler_cache_mode": "enable",
        "op_compiler_cache_dir": directory / "cache",
        **read_release(path, {}).kernel_options,
    }
    run_atc(directory, options, defect)
    return path


def _rank_caches(directory: Path, *ranks: int) -> None:
    """Run a network as each of these ranks, one after the other."""
    directory.mkdir()
    (directory / "square.json").write_text(json.dumps(_NETWORK), encoding="utf-8")
    for rank in ranks:
        card = {"RANK_ID": str(rank), "DEVICE_ID": str(rank)}
        _run([train.__name__], "square.json", work=directory, **card)


def _manifest(path: Path, **changes: Any) -> None:
    """Write the golden manifest of a release whose cache is filled."""
    kernels = {}
    for key, operator in distinct_operators(read_release(path, {})).items():
        (entry,) = (path.parent / "cache/kernel_cache" / SOC).glob(
            f"te_{operator.type.lower()}_*.json"
        )
        digest = json.loads(entry.read_text(encoding="utf-8"))["sha256"]
        size = entry.with_suffix(".o").stat().st_size
        kernels[key] = KernelDigest(str(operator), digest, size)
    write_golden(path, kernels, **changes)


def write_golden(
    path: Path,
    kernels: Mapping[str, KernelDigest],
    alter: str = "",
    leave_out: str = "",
    of_model: bool = False,
) -> None:
    """Write the golden manifest of a release with the kernels of its operators or its model.

    A kernel whose key contains ``alter`` gets another digest; one with ``leave_out`` is missing.
    """
    toolchain = reference_toolchain()
    toolchain.close()
    release = read_release(path, {})
    golden = {
        key: replace(each, sha256="0" * 64) if alter and alter in key else each
        for key, each in kernels.items()
        if not leave_out or leave_out not in key
    }
    names = toolchain.name, toolchain.version, release.soc, options_digest(release)
    assert release.manifest is not None
    manifest = Manifest(*names, {}, golden) if of_model else Manifest(*names, golden)
    inputs, settings = recorded_inputs(release), release_settings(release)
    write_manifest(release.manifest, replace(manifest, inputs=inputs, settings=settings))


@scene(what="nothing is wrong: caches, cards, knowledge base, manifest and ini are in order")
def release_in_order(directory: Path) -> list[str]:
    path = _filled(
        directory,
        environment={"ASCEND_MAX_OP_CACHE_SIZE": "200"},
        caches=["cache", "ranks"],
        cards=2,
        manifest="kernels.json",
    )
    (directory / "cache/kernel_cache/op_cache.ini").write_text(_INI)
    _rank_caches(directory / "ranks", 0, 1)
    _manifest(path)
    return judge(path)


@scene(what="nothing is wrong: no cache is used, and the release has only operators")
def release_without_cache(directory: Path) -> list[str]:
    plain = {"op_compiler_cache_mode": None, "op_compiler_cache_dir": None, "op_bank_path": None}
    return judge(_release(directory, plain))


@scene("cache-mode/release-setting", what="the cache mode is left at enable")
def release_under_enable(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_compiler_cache_mode": "enable"}))


@scene("release/debug-off", what="the debug level is left at 1")
def release_with_debug_level(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_debug_level": 1}))


@scene("release/debug-off", what="a debug configuration is still named")
def release_with_debug_config(directory: Path) -> list[str]:
    (directory / "debug.cfg").write_text("op_debug_config = dump_cce\n", encoding="utf-8")
    return judge(_release(directory, {"op_debug_level": 0, "op_debug_config": "debug.cfg"}))


@scene("release/debug-off", what="a variable for collecting data turns debugging on")
def release_with_collection(directory: Path) -> list[str]:
    return judge(_release(directory, environment={"NPU_COLLECT_PATH": "collected"}))


@scene("release/implmode-option-off", what="the debugging option is set in addition to the file")
def release_with_debugging_option(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_select_implmode": "high_precision"}))


@scene(
    "release/implmode-option-off",
    "release/precision-file-kept",
    what="the modes come from the debugging option alone",
)
def release_with_debugging_option_alone(directory: Path) -> list[str]:
    options = {
        "op_select_implmode": "high_performance",
        "optypelist_for_implmode": "Sqrt",
        "op_precision_mode": None,
    }
    return judge(_release(directory, options))


@scene("release/precision-file-kept", what="no precision file is named")
def release_without_precision_file(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_precision_mode": None}))


@scene("release/precision-file-kept", what="the precision file is in another directory")
def release_with_precision_file_elsewhere(directory: Path) -> list[str]:
    path = _release(directory / "release", {"op_precision_mode": "../shared/model.ini"})
    (directory / "shared").mkdir()
    (path.parent / "model.ini").rename(directory / "shared/model.ini")
    return judge(path)


@scene("release/precision-file-kept", what="the precision file is a link to another directory")
def release_with_linked_precision_file(directory: Path) -> list[str]:
    path = _release(directory / "release")
    (path.parent / "model.ini").rename(directory / "model.ini")
    (path.parent / "model.ini").symlink_to(directory / "model.ini")
    return judge(path)


@scene("release/precision-file-kept", what="the command loads another file than the release has")
def release_that_loads_another_file(directory: Path) -> list[str]:
    options = {"op_precision_mode": "/home/me/other.ini"}
    return judge(_release(directory, options, precision_file="model.ini"))


@scene("release/precision-file-valid", what="a mode that is not supported for the type")
def precision_file_with_unsupported_mode(directory: Path) -> list[str]:
    return judge(_release(directory, precision="Sqrt=keep_fp16\nExp=high_precision\n"))


@scene("release/precision-file-valid", what="an operator type that does not exist")
def precision_file_with_unknown_type(directory: Path) -> list[str]:
    return judge(_release(directory, precision="Sqrtt=high_precision\n"))


@scene("release/precision-file-valid", what="an operator's name that the model does not have")
def precision_file_with_unknown_name(directory: Path) -> list[str]:
    return judge(_release(directory, precision="[ByNodeName]\nlayer_sqr=high_precision\n"))


@scene("release/precision-file-valid", what="a node of the model among the types")
def precision_file_with_a_node_among_types(directory: Path) -> list[str]:
    return judge(_release(directory, precision=f"{_PRECISION}layer0/exp=high_performance\n"))


@scene("release/precision-file-valid", what="two lines for one type that differ")
def precision_file_that_contradicts_itself(directory: Path) -> list[str]:
    return judge(_release(directory, precision="Exp=high_precision\nExp=high_performance\n"))


@scene("release/knowledge-base-applied", what="the knowledge base was written after the kernels")
def knowledge_base_after_the_kernels(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache", toolchain=None)
    _tune(directory, 4, second=2_000_000_000)
    return judge(path, rules=["release/knowledge-base-applied", "release/debug-off"])


@scene("release/knowledge-base-applied", what="the same, of one that the command does not name")
def knowledge_base_beside_the_command(directory: Path) -> list[str]:
    path = _filled(directory, options={"op_bank_path": None}, caches="cache", knowledge_base="bank")
    _tune(directory, 8, second=2_000_000_000)
    return judge(path)


@scene(
    "release/cached-is-fresh",
    what="the knowledge base changed after the kernels, and force was forgotten",
)
def knowledge_base_changed_without_force(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    _tune(directory, 8, second=2_000_000_000)
    return judge(path)


@scene("release/cached-is-fresh", what="the same, and copying has lost the times")
def knowledge_base_changed_and_copied(directory: Path) -> list[str]:
    path = _filled(directory, caches="cache")
    _tune(directory, 8)
    return judge(path)


@scene("release/cached-is-fresh", what="the toolchain alters kernels that it serves")
def release_by_an_altering_toolchain(directory: Path) -> list[str]:
    path = _release(directory)
    return judge(path, "serves-an-altered-kernel")


@scene("release/cached-is-fresh", what="the toolchain compiles something else under force")
def release_by_a_toolchain_that_forgets_under_force(directory: Path) -> list[str]:
    return judge(_release(directory), "force-without-knowledge-base")


@scene("release/cached-is-fresh", what="the cache has kernels of another precision file")
def cache_of_another_precision_file(directory: Path) -> list[str]:
    # The toolchain does not have the mode in its key, so nothing but the bytes can tell.
    defect = "key-without-impl-mode"
    path = _filled(directory, defect, caches="cache", precision="Sqrt=high_performance\n")
    _release(directory, caches="cache")
    return judge(path, defect)


@scene("release/cached-is-fresh", what="the cache was copied without its directory kernel_cache")
def cache_a_level_too_high(directory: Path) -> list[str]:
    path = _filled(directory, options={"op_compiler_cache_dir": "cache"}, caches="cache")
    (directory / "cache/kernel_cache" / SOC).rename(directory / "cache" / SOC)
    shutil.rmtree(directory / "cache/kernel_cache")
    return judge(path)


@scene("release/cards-get-one-kernel", what="the toolchain tunes kernels for the card")
def release_by_a_toolchain_that_tells_cards_apart(directory: Path) -> list[str]:
    return judge(_release(directory, cards=3), "kernels-of-the-card")


@scene("release/settings-agree", what="the ini file and the environment set different limits")
def limits_that_contradict(directory: Path) -> list[str]:
    path = _filled(directory, environment={"ASCEND_MAX_OP_CACHE_SIZE": "500"}, caches="cache")
    (directory / "cache/kernel_cache/op_cache.ini").write_text(_INI)
    return judge(path)


@scene("release/settings-agree", what="a limit of the environment has a unit, so it is not read")
def limit_with_a_unit(directory: Path) -> list[str]:
    return judge(_release(directory, environment={"ASCEND_MAX_OP_CACHE_SIZE": "800MB"}))


@scene("release/settings-agree", what="a limit is set by its name in an old release")
def limit_by_a_former_name(directory: Path) -> list[str]:
    return judge(_release(directory, environment={"MAX_OP_CACHE_SIZE": "800"}))


@scene("release/settings-agree", what="the option and the environment name different caches")
def directories_that_contradict(directory: Path) -> list[str]:
    return judge(_release(directory, environment={"ASCEND_CACHE_PATH": "/var/cache/atc"}))


@scene("release/settings-agree", what="the cache's path has a character that atc refuses")
def directory_that_is_refused(directory: Path) -> list[str]:
    return judge(_release(directory, {"op_compiler_cache_dir": "my cache"}))


@scene("release/every-card-has-a-cache", what="one of three cards has no cache")
def release_without_the_cache_of_a_card(directory: Path) -> list[str]:
    path = _release(directory, caches="ranks", cards=3)
    _rank_caches(directory / "ranks", 0, 1)
    return judge(path)


@scene("release/every-card-has-a-cache", what="one cache belongs to no card")
def release_with_the_cache_of_another_card(directory: Path) -> list[str]:
    path = _release(directory, caches="ranks", cards=1)
    _rank_caches(directory / "ranks", 0, 1)
    return judge(path)


@scene("release/manifest", what="a kernel is not the golden one")
def release_with_another_kernel(directory: Path) -> list[str]:
    path = _filled(directory, manifest="kernels.json")
    _manifest(path, alter="Exp")
    return judge(path)


@scene("release/manifest", what="the manifest lacks an operator")
def release_with_an_operator_too_many(directory: Path) -> list[str]:
    path = _filled(directory, manifest="kernels.json")
    _manifest(path, leave_out="Sqrt")
    return judge(path)
