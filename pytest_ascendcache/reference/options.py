"""ATC's command line, as far as it concerns caching.

Source: documents C and its neighbours; facts ``cann-operator-cache`` sections 6.3 to 6.6.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pytest_ascendcache.reference.errors import AtcError, invalid_value
from pytest_ascendcache.reference.version import own_version

CACHE_MODES = ("disable", "enable", "force")
DEBUG_LEVELS = ("0", "1", "2", "3", "4")
IMPL_MODES = (
    "high_performance",
    "high_performance_for_all",
    "high_precision",
    "high_precision_for_all",
)
PRECISION_MODES = {
    "force_fp16": True,
    "allow_fp32_to_fp16": False,
    "must_keep_origin_dtype": False,
    "force_fp32": False,
}
"""Values of ``--precision_mode``, and whether they make float32 operators float16.

Every operator here has a float32 kernel, so ``allow_fp32_to_fp16`` has nothing to lower."""
PRECISION_MODES_V2 = {"fp16": True, "origin": False}
"""The same for ``--precision_mode_v2``."""
ONNX = "5"
INPUT_FORMATS = ("NCHW", "ND", "NHWC")
LOG_LEVELS = ("null", "debug", "info", "warning", "error")

_OF_MODELS = ("input_shape", "input_format", "fusion_switch_file")
"""Options that only apply to models."""

REFUSED = (
    *("weight", "insert_op_conf", "out_nodes", "input_fp16_nodes", "output_type"),
    *("dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "input_shape_range"),
    *("compression_optimize_conf", "modify_mixlist", "keep_dtype", "customize_dtypes"),
)
"""Options of ATC that change what a model computes and that the reference does not support.

It refuses them, because ignoring one would convert a different model."""

_OPTIONS: tuple[tuple[str, str, str], ...] = (
    ("singleop", "FILE", "operators to compile"),
    ("output", "DIR", "where the .om files go"),
    ("soc_version", "SOC", "e.g. Ascend910B1"),
    ("op_compiler_cache_mode", "MODE", "enable, force or disable (default: disable)"),
    (
        "op_compiler_cache_dir",
        "DIR",
        "cache directory (default: $ASCEND_CACHE_PATH, else $HOME/atc_data)",
    ),
    ("op_debug_level", "LEVEL", "0 to 4; not 0 bypasses the cache"),
    ("op_debug_config", "FILE", "debug switches and op_debug_list"),
    ("debug_dir", "DIR", "where debugging keeps kernel_meta"),
    ("op_bank_path", "DIR", "tuning knowledge base (default: $TUNE_BANK_PATH)"),
    (
        "op_select_implmode",
        "MODE",
        "high_precision or high_performance (default), each also with _for_all",
    ),
    (
        "optypelist_for_implmode",
        "TYPES",
        "only these operator types get the mode, separated by commas",
    ),
    (
        "op_precision_mode",
        "FILE",
        "ini file with a mode for each operator; beats the two options above",
    ),
    ("model", "FILE", "ONNX model to convert"),
    ("framework", "5", "5: ONNX, with --model"),
    ("input_shape", "SHAPES", 'of a model\'s inputs, e.g. "ids:1,128;mask:1,128"'),
    ("input_format", "FORMAT", ", ".join(INPUT_FORMATS)),
    (
        "precision_mode",
        "MODE",
        f"of a model: {', '.join(PRECISION_MODES)} (default: force_fp16)",
    ),
    ("precision_mode_v2", "MODE", f"instead of it: {', '.join(PRECISION_MODES_V2)}"),
    ("fusion_switch_file", "FILE", "JSON file: passes on or off"),
    ("log", "LEVEL", ", ".join(LOG_LEVELS)),
)
"""Name, metavar and help of each option, in the order of ``--help``."""
_DEFAULTS = {"op_debug_level": "0", "log": "null"}
"""The defaults that are not empty, except for the cache mode's."""


@dataclass(frozen=True)
class AtcOptions:
    """One parsed command line. An empty string is an option that was not set.

    ``model`` is the ONNX file to convert, or ``None`` to compile single operators. For a model,
    ``half_precision`` tells whether float32 operators become float16, and ``output`` is the path of
    the ``.om`` file without its suffix.
    """

    singleop: Path
    output: Path
    soc_version: str
    cache_mode: str
    cache_dir: str
    debug_level: int
    debug_config: str
    debug_dir: str
    op_bank_path: str
    log: str
    impl_mode: str
    impl_mode_types: tuple[str, ...]
    precision_mode: str
    model: Path | None = None
    input_shape: str = ""
    fusion_switch: str = ""
    half_precision: bool = False


class OptionPolicy:
    """Reads a command line: which values the options take, and their defaults."""

    default_cache_mode = "disable"

    def parse(self, argv: Sequence[str]) -> AtcOptions:
        """Read a command line.

        Raises ``AtcError`` (E10054) for a missing option, E10001 or E10010 for a bad value, and
        ``SystemExit`` if the command line has ``--help`` or ``--version``.
        """
        given = _parser(self.default_cache_mode).parse_args(argv)
        model = self.model(given)
        for name in ("output", "soc_version") if model else ("singleop", "output", "soc_version"):
            if not getattr(given, name):
                raise AtcError("E10054", f"Parameter [--{name}] is missing; give it a value.")
        if given.log not in LOG_LEVELS:
            raise AtcError(
                "E10010",
                f"Value [{given.log}] for parameter [--log] is invalid. It must be one of "
                f"{_choices(LOG_LEVELS)}.",
            )
        return AtcOptions(
            singleop=Path(given.singleop),
            output=Path(given.output),
            soc_version=given.soc_version,
            cache_mode=self.cache_mode(given.op_compiler_cache_mode),
            cache_dir=given.op_compiler_cache_dir,
            debug_level=int(_one_of("--op_debug_level", given.op_debug_level, DEBUG_LEVELS)),
            debug_config=given.op_debug_config,
            debug_dir=given.debug_dir,
            op_bank_path=given.op_bank_path,
            log=given.log,
            impl_mode=self.impl_mode(given.op_select_implmode, given.optypelist_for_implmode),
            impl_mode_types=_items(given.optypelist_for_implmode),
            precision_mode=given.op_precision_mode,
            model=model,
            input_shape=given.input_shape,
            fusion_switch=given.fusion_switch_file,
            half_precision=self.half_precision(given.precision_mode, given.precision_mode_v2),
        )

    def model(self, given: argparse.Namespace) -> Path | None:
        """Check the options that apply to models, and return the model's path if there is one.

        Raises ``AtcError`` for a framework other than ONNX, a refused option, or an option that
        needs a model without one.
        """
        for name in REFUSED:
            if value := getattr(given, name):
                raise invalid_value(
                    f"--{name}", value, "This ATC does not have the option; leave it out."
                )
        if not given.model:
            for name in ("framework", *_OF_MODELS):
                if value := getattr(given, name):
                    raise invalid_value(
                        f"--{name}", value, "It says how a model is read; give --model too."
                    )
            return None
        if given.singleop:
            raise invalid_value(
                "--singleop", given.singleop, "It cannot be given together with --model."
            )
        if given.framework != ONNX:
            raise AtcError(
                "E10007",
                f"Value [{given.framework}] for parameter [--framework] is invalid. It must be "
                f"[{ONNX}], for ONNX, the only kind of model that is converted here.",
            )
        if given.input_format:
            _one_of("--input_format", given.input_format, INPUT_FORMATS)
        return Path(given.model)

    def half_precision(self, mode: str, mode_v2: str) -> bool:
        """Check ``--precision_mode`` and its successor; returns whether float32 becomes float16."""
        if mode and mode_v2:
            raise invalid_value(
                "--precision_mode",
                mode,
                "Parameters --precision_mode and --precision_mode_v2 cannot be set both.",
            )
        if mode_v2:
            return PRECISION_MODES_V2[_one_of("--precision_mode_v2", mode_v2, PRECISION_MODES_V2)]
        return PRECISION_MODES[_one_of("--precision_mode", mode or "force_fp16", PRECISION_MODES)]

    def cache_mode(self, value: str) -> str:
        """Check ``--op_compiler_cache_mode``."""
        return _one_of("--op_compiler_cache_mode", value, CACHE_MODES)

    def impl_mode(self, value: str, types: str) -> str:
        """Check ``--op_select_implmode``, which ``--optypelist_for_implmode`` requires.

        The option's default does not satisfy it. Source: facts ``cann-operator-cache`` section 5.3.
        """
        if types and not value:
            raise invalid_value(
                "--op_select_implmode",
                value,
                "Parameters --op_select_implmode and --optypelist_for_implmode must be set at the "
                "same time.",
            )
        return _one_of("--op_select_implmode", value, IMPL_MODES) if value else value


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _one_of(parameter: str, value: str, allowed: Iterable[str]) -> str:
    """``value``, which must be allowed."""
    if value not in allowed:
        raise invalid_value(parameter, value, f"It must be one of {_choices(allowed)}.")
    return value


def _choices(allowed: Iterable[str]) -> str:
    return " ".join(f"[{each}]" for each in allowed)


class _Parser(argparse.ArgumentParser):
    """Reports a bad command line as ATC does: exit status 255."""

    def error(self, message: str) -> NoReturn:
        raise AtcError("E10001", f"{message[0].upper()}{message[1:]}; see {self.prog} --help.")


@functools.cache  # a forked run inherits it
def _parser(default_cache_mode: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ascendcache-atc",
        description="Converts an ONNX model to an .om file, or compiles the operators of a "
        "single-operator JSON file, one .om each.",
        allow_abbrev=False,
        epilog="Environment: ASCEND_CACHE_PATH, ASCEND_WORK_PATH, ASCEND_OPP_PATH, "
        "ASCEND_CUSTOM_OPP_PATH, TUNE_BANK_PATH, HOME.",
    )
    for name, metavar, text in _OPTIONS:
        default = _DEFAULTS.get(name, "")
        parser.add_argument(f"--{name}", default=default, metavar=metavar, help=text)
    for name in REFUSED:
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    parser.set_defaults(op_compiler_cache_mode=default_cache_mode)
    parser.add_argument("--version", action="version", version=f"ascendcache-atc {own_version()}")
    return parser
