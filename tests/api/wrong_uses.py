"""Wrong uses of the API, each on a line of its own: mypy and pyright refuse the line, and so does
the call itself, with one sentence. ``test_wrong_uses`` holds all three to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytest_ascendcache import (
    CacheUnderTest,
    CompileOptions,
    DebugConfig,
    Entry,
    NetworkUnderTest,
    PrecisionFile,
    Run,
    TensorDesc,
    operator,
    read_network,
    read_single_op,
)

ADD = operator("Add", "float16", 4, 8)
NETWORK = read_network(Path(__file__).parents[2] / "docs/example/models/regression.json")

OF_A_CACHE: dict[str, Callable[[CacheUnderTest], object]] = {
    "an option that does not exist": lambda cache: cache.compile(ADD, debug_list=("Add",)),
    "a mistyped option": lambda cache: cache.attempt(ADD, moed="enable"),
    "an option of warm that does not exist": lambda cache: cache.warm(ADD, level=1),
    "an option of entry that does not exist": lambda cache: cache.entry(ADD, chip="Ascend910B1"),
    "an unknown option of recovery": lambda cache: cache.recovery(ADD, debug_list=("Add",)),
    "a mode that does not exist": lambda cache: cache.compile(ADD, mode="enabled"),
    "a mode in capitals": lambda cache: cache.compile(ADD, mode="ENABLE"),
    "a mode that is no text": lambda cache: cache.compile(ADD, mode=True),
    "an unknown implementation mode": lambda cache: cache.compile(ADD, select_implmode="precise"),
    "an implementation mode that is a number": lambda cache: cache.compile(ADD, select_implmode=1),
    "a debug level as text": lambda cache: cache.compile(ADD, debug_level="1"),
    "a debug level with a fraction": lambda cache: cache.compile(ADD, debug_level=1.5),
    "a path for a precision file": lambda cache: cache.compile(ADD, precision_file=Path("p.ini")),
    "a name for a precision file": lambda cache: cache.compile(ADD, precision_file="p.ini"),
    "a number for the chip": lambda cache: cache.compile(ADD, soc=910),
    "one type instead of a list": lambda cache: cache.compile(ADD, implmode_types="Exp"),
    "a list of numbers for types": lambda cache: cache.compile(ADD, implmode_types=[1]),
    "a switch instead of a debug config": lambda cache: cache.compile(ADD, debug_config="ccec_g"),
    "a number for a directory": lambda cache: cache.compile(ADD, cache_dir=3),
    "a umask as text": lambda cache: cache.compile(ADD, umask="077"),
    "a list of raw options": lambda cache: cache.compile(ADD, raw_options=["--op_debug_level=1"]),
    "a raw mode that is no text": lambda cache: cache.compile(ADD, raw_mode=1),
    "a debug file that is no path": lambda cache: cache.compile(ADD, debug_file=1),
    "one variable instead of a set": lambda cache: cache.compile(ADD, unset="HOME"),
    "a variable that is no text": lambda cache: cache.compile(ADD, environment={"RANK_ID": 1}),
    "an environment that is no dict": lambda cache: cache.compile(ADD, environment="RANK_ID=1"),
    "a name where an operator is meant": lambda cache: cache.compile("add"),
    "a list of operators": lambda cache: cache.compile([ADD]),
    "a name to warm": lambda cache: cache.warm("add"),
    "a name of an entry": lambda cache: cache.entry("add"),
    "a name of a fresh kernel": lambda cache: cache.fresh("add"),
    "one request instead of a list": lambda cache: cache.together(cache.request(ADD)),
    "a number for another directory": lambda cache: cache.elsewhere(3),
}
"""Options and operators of a compile."""

OF_NOTHING: dict[str, Callable[[], object]] = {
    "a change of options that does not exist": lambda: CompileOptions().but(debug_list=("Add",)),
    "a change of options to an unknown mode": lambda: CompileOptions().but(cache_mode="enabled"),
    "a number for a data type": lambda: operator("Add", 16, 4, 8),
    "a text for a shape": lambda: operator("Add", "float16", "4x8"),
    "a fraction for a shape": lambda: operator("Add", "float16", 4.5),
    "a text for an extent": lambda: TensorDesc.of("float16", "4"),
    "a name for a tensors type": lambda: TensorDesc((4, 8), "float16"),
    "a number for a file of operators": lambda: read_single_op(3),
    "bytes for a file of a network": lambda: read_network(b"network.json"),
    "an option of options that does not exist": lambda: CompileOptions(debug_list=("Add",)),
    "a switch instead of switches": lambda: DebugConfig(switches="ccec_g"),
    "modes as the content of a file": lambda: PrecisionFile({"Exp": "high_precision"}),
    "a line instead of modes": lambda: PrecisionFile.of("Exp=high_precision"),
}
"""Operators, options and files by themselves."""

OF_A_RUN: dict[str, Callable[[Run], object]] = {
    "an outcome by name": lambda run: run["add"],
    "a kernel by name": lambda run: run.kernel("add"),
    "the fate of a name": lambda run: run.fate("add"),
}
"""What came of a compile."""

OF_AN_ENTRY: dict[str, Callable[[Entry], object]] = {
    "the object of an entry": lambda entry: entry.object.read_bytes(),
}
"""An entry of the cache."""

OF_NETWORKS: dict[str, Callable[[NetworkUnderTest], object]] = {
    "a name where a network is meant": lambda networks: networks.run("regression"),
    "a name of a network to warm": lambda networks: networks.warm("regression"),
    "a rank as text": lambda networks: networks.run(NETWORK, rank="0"),
    "a phase that does not exist": lambda networks: networks.run(NETWORK, phase="train"),
    "a number for a variable": lambda networks: networks.run(NETWORK, environment={"RANK_ID": 0}),
}
"""Networks."""
