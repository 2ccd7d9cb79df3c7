"""ATC's command line, as far as caching is concerned.

Source: documents C and its neighbours; facts ``cann-operator-cache`` sections 6.3 to 6.6.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
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
"""Values of ``--precision_mode``, and whether they make float32 operators float16. Every operator
here has a float32 kernel, so ``allow_fp32_to_fp16`` has nothing to lower."""
PRECISION_MODES_V2 = {"fp16": True, "origin": False}
"""The same for ``--precision_mode_v2``."""
ONNX = "5"
INPUT_FORMATS = ("NCHW", "ND", "NHWC")
LOG_LEVELS = ("null", "debug", "info", "warning", "error")


_OF_MODELS = ("input_shape", "input_format", "fusion_switch_file")
"""Options that say something of a model, and nothing of single operators."""

REFUSED = (
    *("weight", "insert_op_conf", "out_nodes", "input_fp16_nodes", "output_type"),
    *("dynamic_batch_size", "dynamic_image_size", "dynamic_dims", "input_shape_range"),
    *("compression_optimize_conf", "modify_mixlist", "keep_dtype", "customize_dtypes"),
)
"""Options of ATC that change what a model computes, and that the reference does not have: leaving
one out silently would convert another model."""


@dataclass(frozen=True)
class AtcOptions:
    """One command line. Empty strings are options that were not given.

    ``model`` is the ONNX file to convert, ``None`` where single operators are compiled; then
    ``half_precision`` says whether float32 operators become float16, and ``output`` is the ``.om``
    file's path without its suffix.
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
    """Which values the options take, and their defaults."""

    default_cache_mode = "disable"

    def parse(self, argv: Sequence[str]) -> AtcOptions:
        """Read a command line.

        Raises:
            AtcError: E10054 for a missing option, E10001 or E10010 for a bad value.
            SystemExit: after ``--help`` or ``--version``, or for an unknown option.
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
        if given.op_debug_level not in DEBUG_LEVELS:
            raise _not_one_of("--op_debug_level", given.op_debug_level, DEBUG_LEVELS)
        return AtcOptions(
            singleop=Path(given.singleop),
            output=Path(given.output),
            soc_version=given.soc_version,
            cache_mode=self.cache_mode(given.op_compiler_cache_mode),
            cache_dir=given.op_compiler_cache_dir,
            debug_level=int(given.op_debug_level),
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
        """Check the options that belong to a model, and return its path.

        Raises:
            AtcError: for a framework other than ONNX, an option that is not carried out here, or
                one that needs a model where there is none.
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
                f"[{ONNX}], for ONNX, the one kind of model that is converted here.",
            )
        if given.input_format and given.input_format not in INPUT_FORMATS:
            raise _not_one_of("--input_format", given.input_format, INPUT_FORMATS)
        return Path(given.model)

    def half_precision(self, mode: str, mode_v2: str) -> bool:
        """Check ``--precision_mode`` and its successor; whether float32 becomes float16."""
        if mode and mode_v2:
            raise invalid_value(
                "--precision_mode",
                mode,
                "Parameters --precision_mode and --precision_mode_v2 cannot be set both.",
            )
        if mode_v2:
            if mode_v2 not in PRECISION_MODES_V2:
                raise _not_one_of("--precision_mode_v2", mode_v2, [*PRECISION_MODES_V2])
            return PRECISION_MODES_V2[mode_v2]
        if mode and mode not in PRECISION_MODES:
            raise _not_one_of("--precision_mode", mode, [*PRECISION_MODES])
        return PRECISION_MODES[mode or "force_fp16"]

    def cache_mode(self, value: str) -> str:
        """Check ``--op_compiler_cache_mode``."""
        if value not in CACHE_MODES:
            raise _not_one_of("--op_compiler_cache_mode", value, CACHE_MODES)
        return value

    def impl_mode(self, value: str, types: str) -> str:
        """Check ``--op_select_implmode`` beside ``--optypelist_for_implmode``.

        The default counts as not given. Source: facts ``cann-operator-cache`` section 5.3.
        """
        if types and not value:
            raise invalid_value(
                "--op_select_implmode",
                value,
                "Parameters --op_select_implmode and --optypelist_for_implmode must be set at the "
                "same time.",
            )
        if value and value not in IMPL_MODES:
            raise _not_one_of("--op_select_implmode", value, IMPL_MODES)
        return value


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _not_one_of(parameter: str, value: str, allowed: Sequence[str]) -> AtcError:
    return invalid_value(parameter, value, f"It must be one of {_choices(allowed)}.")


def _choices(allowed: Sequence[str]) -> str:
    return " ".join(f"[{each}]" for each in allowed)


class _Parser(argparse.ArgumentParser):
    """Reports a bad command line as ATC does: exit status 255."""

    def error(self, message: str) -> NoReturn:
        raise AtcError("E10001", f"{message[0].upper()}{message[1:]}; see {self.prog} --help.")


@functools.cache  # a forked run finds it made
def _parser(default_cache_mode: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ascendcache-atc",
        description="Converts an ONNX model to an .om file, or compiles the operators of a "
        "single-operator JSON file, one .om each.",
        allow_abbrev=False,
        epilog="Environment: ASCEND_CACHE_PATH, ASCEND_WORK_PATH, ASCEND_OPP_PATH, "
        "ASCEND_CUSTOM_OPP_PATH, TUNE_BANK_PATH, HOME.",
    )
    parser.add_argument("--singleop", default="", metavar="FILE", help="operators to compile")
    parser.add_argument("--output", default="", metavar="DIR", help="where the .om files go")
    parser.add_argument("--soc_version", default="", metavar="SOC", help="e.g. Ascend910B1")
    parser.add_argument(
        "--op_compiler_cache_mode",
        default=default_cache_mode,
        metavar="MODE",
        help="enable, force or disable (default: disable)",
    )
    parser.add_argument(
        "--op_compiler_cache_dir",
        default="",
        metavar="DIR",
        help="cache directory (default: $ASCEND_CACHE_PATH, else $HOME/atc_data)",
    )
    parser.add_argument(
        "--op_debug_level", default="0", metavar="LEVEL", help="0 to 4; not 0 bypasses the cache"
    )
    parser.add_argument(
        "--op_debug_config", default="", metavar="FILE", help="debug switches and op_debug_list"
    )
    parser.add_argument(
        "--debug_dir", default="", metavar="DIR", help="where debugging keeps kernel_meta"
    )
    parser.add_argument(
        "--op_bank_path",
        default="",
        metavar="DIR",
        help="tuning knowledge base (default: $TUNE_BANK_PATH)",
    )
    parser.add_argument(
        "--op_select_implmode",
        default="",
        metavar="MODE",
        help="high_precision or high_performance (default), each also with _for_all",
    )
    parser.add_argument(
        "--optypelist_for_implmode",
        default="",
        metavar="TYPES",
        help="only these operator types get the mode, separated by commas",
    )
    parser.add_argument(
        "--op_precision_mode",
        default="",
        metavar="FILE",
        help="ini file with a mode for each operator; beats the two options above",
    )
    parser.add_argument("--model", default="", metavar="FILE", help="ONNX model to convert")
    parser.add_argument("--framework", default="", metavar="5", help="5: ONNX, with --model")
    parser.add_argument(
        "--input_shape",
        default="",
        metavar="SHAPES",
        help='of a model\'s inputs, e.g. "ids:1,128;mask:1,128"',
    )
    parser.add_argument(
        "--input_format", default="", metavar="FORMAT", help=f"{', '.join(INPUT_FORMATS)}"
    )
    parser.add_argument(
        "--precision_mode",
        default="",
        metavar="MODE",
        help=f"of a model: {', '.join(PRECISION_MODES)} (default: force_fp16)",
    )
    parser.add_argument(
        "--precision_mode_v2",
        default="",
        metavar="MODE",
        help=f"instead of it: {', '.join(PRECISION_MODES_V2)}",
    )
    parser.add_argument(
        "--fusion_switch_file", default="", metavar="FILE", help="JSON file: passes on or off"
    )
    for name in REFUSED:
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--log", default="null", metavar="LEVEL", help=", ".join(LOG_LEVELS))
    parser.add_argument("--version", action="version", version=_version())
    return parser


def _version() -> str:
    return f"ascendcache-atc {own_version()}"
