"""Values that ATC's documents list for its options, so that a misspelt one is not taken for new.

Source: document I (``--op_select_implmode``), and the option pages of ATC's documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_ascendcache.contract.options import CacheMode, SelectMode
from pytest_ascendcache.release import command as atc
from pytest_ascendcache.words import nearest

LISTED: Mapping[str, tuple[str, ...]] = {
    atc.SELECT_MODE: tuple(each.value for each in SelectMode),
    atc.CACHE_MODE: tuple(each.value for each in CacheMode),
    atc.DEBUG_LEVEL: ("0", "1", "2", "3", "4"),
}
"""Options whose other values are refused. Rules judge which of them are for a release."""

KNOWN: Mapping[str, tuple[str, ...]] = {
    "precision_mode": (
        *("force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16"),
        *("must_keep_origin_dtype", "allow_mix_precision", "allow_mix_precision_fp16"),
        *("allow_mix_precision_bf16", "allow_fp32_to_bf16"),
    ),
    "precision_mode_v2": (
        *("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16"),
        *("cube_hif8", "mixed_hif8"),
    ),
    "log": ("debug", "info", "warning", "error", "null"),
    "input_format": ("NCHW", "NHWC", "ND", "NCDHW", "NDHWC"),
    "buffer_optimize": ("l1_optimize", "l2_optimize", "off_optimize", "l1_and_l2_optimize"),
    "core_type": ("AiCore", "VectorCore"),
}
"""Options to which releases add values: another one is wrong only if it resembles a known one."""


def value_faults(options: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each option whose value the documents do not have."""
    for name, values in LISTED.items():
        value = options.get(name, "")
        if value and value not in values:
            near = nearest(value, values)
            hint = f"did you mean {near}?" if near else f"write {', '.join(values)}."
            yield f"--{name}={value} is none of its values; {hint}"
    for name, values in KNOWN.items():
        value = options.get(name, "")
        if value and value not in values and (near := nearest(value, values)):
            if near.casefold() != value.casefold() and near in value:
                continue  # a longer name may be one of a newer release
            yield f"--{name}={value} is none of its values; did you mean {near}?"
