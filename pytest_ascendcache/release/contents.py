"""Whether a file that an option names is what the option takes, before anything is converted.

Sources: document of ATC (``--fusion_switch_file``, ``--op_debug_config``, ``--insert_op_conf``,
``--modify_mixlist``); the formats of ONNX, AIR, Caffe and TensorFlow.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pytest_ascendcache.audit.whole import protobuf_damage
from pytest_ascendcache.files import read_input
from pytest_ascendcache.release import command as atc

_MODELS = {"5": ("an ONNX model", 7), "1": ("an AIR model", 1), "3": ("a TensorFlow model", 1)}
"""By ``--framework``: what a model is, and a field of the protocol buffer that each has."""

_SWITCH = re.compile(r"[\w.]+\s*:\s*(?:on|off)", re.IGNORECASE)
_SETTING = re.compile(r"[\w.]+\s*=.*")
_NEVER_EMPTY = (atc.MODEL, "weight", "insert_op_conf", "modify_mixlist")
_LARGEST_TEXT = 1 << 24


def content_fault(option: str, path: Path, framework: str) -> str:
    """Return why the content of a regular file is not what ``option`` takes; empty if it may be.
    Raises ``OSError`` if the file cannot be read."""
    size = path.stat().st_size
    if not size:
        return "is empty" if option in _NEVER_EMPTY else ""
    if option == atc.MODEL and framework in _MODELS:
        return _model_fault(path, size, *_MODELS[framework])
    if option == "weight":
        return _model_fault(path, size, "a Caffe model's weights", 1)
    if size > _LARGEST_TEXT:
        return f"has {size >> 20} MB, and is to be a text"
    try:
        text = read_input(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    return "is no text" if "\0" in text else _text_fault(option, text)


def _model_fault(path: Path, size: int, what: str, reached: int) -> str:
    with path.open("rb") as file:

        def read(start: int, count: int) -> bytes:
            file.seek(start)
            return file.read(count)

        problem = protobuf_damage(read, size, reached)
    return f"is no {what.partition(' ')[2]}" if problem is None else problem


def _text_fault(option: str, text: str) -> str:
    if option == "modify_mixlist" or (option == "fusion_switch_file" and text.lstrip()[:1] == "{"):
        try:
            return "" if isinstance(json.loads(text), dict) else "is JSON, and no object"
        except (ValueError, RecursionError) as error:
            return f"is not JSON: {str(error)[:100]}"
    if option == "insert_op_conf":
        is_whole = "aipp_op" in text and text.count("{") == text.count("}")
        return "" if is_whole else "has no whole aipp_op { ... }"
    shapes = {"fusion_switch_file": _SWITCH, atc.DEBUG_CONFIG: _SETTING}
    for number, line in enumerate(text.splitlines(), start=1):
        bare = line.partition("#")[0].strip()
        if bare and option in shapes and not shapes[option].fullmatch(bare):
            wanted = "<pass>:on or off" if option == "fusion_switch_file" else "<key> = <value>"
            return f"line {number} is {bare[:60]!r}; write {wanted}"
    return ""
