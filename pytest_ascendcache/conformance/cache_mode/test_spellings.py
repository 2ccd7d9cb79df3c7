"""Documents C and I: one table of spellings for options, variables and files. A text that the
documents do not know may be refused, but must not be read as something else, or silently as
nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pytest_ascendcache.caches import keep_access_times
from pytest_ascendcache.conformance.kit.implementations import EXP, SQRT, TANH
from pytest_ascendcache.conformance.kit.shelf import environment, ini_path
from pytest_ascendcache.conformance.kit.spellings import (
    BYTES,
    CLEAN,
    DIRECTORIES,
    DOCUMENTED,
    HOMES,
    LIMIT,
    NAMED,
    PACKAGE,
    RELATIVE,
    Spelled,
    Thing,
    Way,
    files,
    items,
    modes,
    other_paths,
    paths,
    words,
)
from pytest_ascendcache.conformance.kit.states import take_debug_config
from pytest_ascendcache.conformance.kit.told import require_none
from pytest_ascendcache.conformance.kit.vocabulary import ENABLE, FORCE, needs, rule
from pytest_ascendcache.contract import Capability, SelectMode
from pytest_ascendcache.contract.facts import SubjectKind
from pytest_ascendcache.observation import CacheUnderTest
from pytest_ascendcache.operators import OperatorSpec

OPTION, VARIABLE, FILE = SubjectKind.OPTION, SubjectKind.VARIABLE, SubjectKind.FILE
Text = Callable[[CacheUnderTest], str]
Give = Callable[[CacheUnderTest, "str | None"], dict[str, Any]]

_OTHERS = ",".join(
    ("Gelu", "Mish", "Sigmoid", "FastGelu", "RealDiv", "Log", "Swish", "Rsqrt", "Reciprocal")
)
_LONG = ",".join(f"{'block' * 9}/{number}" for number in range(200))
_NODES = "[ByNodeName]\n" + "".join(f"{each}=high_precision\n" for each in _LONG.split(","))
_NO_LIST = "op_debug_config=dump_cce\nop_debug_list=probe_mul\n"
_LIST = _NO_LIST.replace("probe_mul", "OpType::Exp,probe_add,probe_mul")
_SHORTER = _LIST.replace("OpType::Exp,", "")
_MODES = "Tanh=high_performance\nExp=high_precision\nSqrt=high_performance\n"


def _given(name: str, **more: Any) -> Give:
    """Give a text as an option, or as a variable if its name is one."""
    kind = "environment" if name.isupper() else "raw_options"

    def give(_: CacheUnderTest, text: str | None) -> dict[str, Any]:
        return {kind: {} if text is None else {name.removeprefix("--"): text}, **more}

    return give


def _in_file(name: str) -> Give:
    """Give a text as the content of a file, which an option names."""

    def give_file(cache: CacheUnderTest, text: str | None) -> dict[str, Any]:
        path = cache.sandbox / "given.txt"
        path.write_bytes((text or "").encode(errors=BYTES))
        return {"raw_options": {} if text is None else {name: str(path)}}

    return give_file


def _path_of(content: str) -> Text:
    def path(cache: CacheUnderTest) -> str:
        place = cache.sandbox / "below" / "named.cfg"
        place.parent.mkdir(exist_ok=True)
        place.write_text(content)
        return str(place)

    return path


def _home(cache: CacheUnderTest, text: str | None) -> dict[str, Any]:
    return {"cache_dir": None, "environment": {"HOME": text or str(cache.sandbox / "other home")}}


def _types(mode: SelectMode) -> Give:
    def give(_: CacheUnderTest, text: str | None) -> dict[str, Any]:
        return {"raw_options": {"optypelist_for_implmode": text or "Gelu"}, "select_implmode": mode}

    return give


def _ini(cache: CacheUnderTest) -> str:
    size, ratio = cache.edition.ini
    return f"[op_compiler_cache]\n{size}=300\n{ratio}=50\n"


def _ini_file(cache: CacheUnderTest, text: str | None) -> dict[str, Any]:
    path = ini_path(cache)
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text.encode(errors=BYTES))
    return {"environment": cache.edition.limits_in(environment(600, 100))}


def _package(cache: CacheUnderTest) -> str:
    """The directory of an operator package with a version of its own, made anew."""
    shim = cache.sandbox.parent / "package"
    if not (noted := shim / "its-path").exists():
        shim.mkdir()
        change = cache.toolchain.stage(Capability.VERSION_STAMP, EXP, shim)
        change.apply()
        noted.write_text(change.environment["ASCEND_OPP_PATH"])
    return noted.read_text()


MANY_NODES = Way("many nodes before", lambda text, _: f"{_NODES}[ByOpType]\n{text}")
NUMBERS = words(LIMIT, a_zero_before="0{}", a_sign="+{}")
THINGS = (
    Thing("--op_compiler_cache_dir", OPTION, "cache-mode/directory-precedence",
          lambda cache: str(cache.root), _given("--op_compiler_cache_dir", cache_dir=None),
          (*DIRECTORIES, RELATIVE, *other_paths(NAMED)), modes=(ENABLE, FORCE), literal=True),
    Thing("ASCEND_CACHE_PATH", VARIABLE, "cache-mode/directory-precedence",
          lambda cache: str(cache.root), _given("ASCEND_CACHE_PATH", cache_dir=None),
          (*paths(link=CLEAN), RELATIVE)),
    Thing("HOME", VARIABLE, "cache-mode/directory-precedence",
          lambda cache: str(cache.home), _home, HOMES),
    Thing("--op_compiler_cache_mode", OPTION, "cache-mode/rejects-unknown-mode", lambda _: "force",
          lambda _, text: {"mode": None, "raw_mode": text}, modes(CLEAN)),
    Thing("--op_debug_level", OPTION, "debug/level-bypasses", lambda _: "1",
          _given("--op_debug_level"), words(CLEAN, a_zero_before="0{}", a_sign="+{}")),
    Thing("--op_debug_config", OPTION, "debug/config-bypasses", _path_of(_LIST),
          _given("--op_debug_config"), (*paths(CLEAN), *other_paths(CLEAN))),
    Thing("op_debug_list", OPTION, "debug/list-bypasses-listed", lambda _: _LIST,
          _in_file("op_debug_config"),
          (*items("OpType::Exp", "probe_add", _LONG), *files()), unlike=_SHORTER, drawn=3),
    Thing("--op_select_implmode", OPTION, "impl-mode/rejects-bad", lambda _: "high_precision",
          _given("--op_select_implmode"), modes(CLEAN), bytes=True),
    Thing("--optypelist_for_implmode", OPTION, "impl-mode/type-list", lambda _: "Exp,Sqrt,Tanh",
          _types(SelectMode.HIGH_PRECISION),
          items("Exp", "Sqrt", _OTHERS), unlike="Sqrt,Tanh", bytes=True,
          instead=_types(SelectMode.HIGH_PERFORMANCE)),
    Thing("--op_precision_mode", OPTION, "impl-mode/precision-file", _path_of(_MODES),
          _given("--op_precision_mode"), (*paths(CLEAN), DOCUMENTED, *other_paths(CLEAN)),
          bytes=True),
    Thing("op_precision.ini", FILE, "impl-mode/precision-file", lambda _: _MODES,
          _in_file("op_precision_mode"), (MANY_NODES, *files()), bytes=True,
          drawn=3),
    Thing("op_cache.ini", FILE, "aging/ini-needs-both-keys", _ini, _ini_file,
          files(odd=LIMIT), limits=True, drawn=2),
    Thing("ASCEND_MAX_OP_CACHE_SIZE", VARIABLE, "aging/ini-beats-environment", lambda _: "300",
          lambda _, text: {"environment": environment(text, 50)}, NUMBERS, limits=True),
    Thing("ASCEND_REMAIN_CACHE_SIZE_RATIO", VARIABLE, "aging/ini-beats-environment",
          lambda _: "90", lambda _, text: {"environment": environment(300, text)}, NUMBERS,
          limits=True),
    Thing("ASCEND_OPP_PATH", VARIABLE, "robust/upgrade-stamp", _package,
          _given("ASCEND_OPP_PATH"), (*paths(CLEAN), *other_paths(PACKAGE)), with_text=True),
)  # fmt: skip


@pytest.mark.parametrize(
    "thing", [pytest.param(each, marks=rule(each.rule), id=str(each)) for each in THINGS]
)
def test_a_text_means_the_same_however_it_is_written(
    cache: CacheUnderTest, ascend_operators: dict[str, OperatorSpec], thing: Thing
) -> None:
    """A text is read as it is written plainly, or refused; another name is another name."""
    _prepare(cache, thing)
    operators = tuple(ascend_operators[name] for name in ("add", "exp", "leaky_relu", "mul"))
    if thing.bytes:
        operators = (EXP, SQRT, TANH)
    require_none(Spelled(thing, cache, operators).facts(), cache.evidence)


def _prepare(cache: CacheUnderTest, thing: Thing) -> None:
    """Skip the check if the edition or the toolchain does not know the thing."""
    if "debug_config" in thing.name or "debug_list" in thing.name:
        take_debug_config(cache)
    if thing.rule == "robust/upgrade-stamp":
        needs(cache.toolchain, Capability.VERSION_STAMP)
    if thing.name == "op_cache.ini" and not cache.edition.ini:
        pytest.skip(f"{cache.edition} has no op_cache.ini")
    if thing.name == "ASCEND_CACHE_PATH" and not cache.edition.cache_path:
        pytest.skip(f"{cache.edition} has no ASCEND_CACHE_PATH")
    if thing.limits:
        keep_access_times(cache.sandbox, keep=False)
