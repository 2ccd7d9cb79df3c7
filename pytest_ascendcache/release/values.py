"""Whether ATC's options have values that its documents list, and files that they take: before
anything is converted, and so that a misspelt value is not taken for a new one.

Source: document I (``--op_select_implmode``), and the option pages of ATC's documentation
(``--fusion_switch_file``, ``--op_debug_config``, ``--insert_op_conf``, ``--modify_mixlist``).
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_ascendcache.contract.options import CacheMode, SelectMode
from pytest_ascendcache.files import read_input
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


_SWITCH = re.compile(r"[\w.]+\s*:\s*(?:on|off)", re.IGNORECASE)
_SETTING = re.compile(r"[\w.]+\s*=.*")
_MODELS = (atc.MODEL, "weight")
"""What only a conversion can judge; without one the release is undecided anyhow."""

_LARGEST_TEXT = 1 << 24


def content_fault(option: str, path: Path) -> str:
    """Return why the content of a regular file is not what ``option`` takes; empty if it may be.
    Raises ``OSError`` if the file cannot be read."""
    size = path.stat().st_size
    if option in _MODELS:
        return ""
    if size > _LARGEST_TEXT:
        return f"has {size >> 20} MB, and is to be a text"
    content = read_input(path)
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "is text in UTF-16; write it in UTF-8"
    text = content.decode("utf-8-sig", "replace")  # comments may be of any encoding
    return "is no text" if "\0" in text else _text_fault(option, text)


def _text_fault(option: str, text: str) -> str:
    if option == "modify_mixlist" or (option == "fusion_switch_file" and text.lstrip()[:1] == "{"):
        try:
            return "" if isinstance(json.loads(text), dict) else "is JSON, and no object"
        except (ValueError, RecursionError) as error:
            return f"is not JSON: {str(error)[:100]}"
    if option == "insert_op_conf":
        is_whole = "aipp_op" in text and text.count("{") == text.count("}")
        return "" if is_whole else "has no whole aipp_op block"
    shapes = {"fusion_switch_file": _SWITCH, atc.DEBUG_CONFIG: _SETTING}
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.partition("#")[0].strip()
        if bare and option in shapes and not shapes[option].fullmatch(bare):
            wanted = "<pass>:on or off" if option == "fusion_switch_file" else "<key> = <value>"
            return f"line {number} is {bare[:60]!r}; write {wanted}"
    return ""
