"""Whether a file that an option names is what the option takes, before anything is converted.

Sources: document of ATC (``--fusion_switch_file``, ``--op_debug_config``, ``--insert_op_conf``,
``--modify_mixlist``).
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path

from pytest_ascendcache.files import read_input
from pytest_ascendcache.release import command as atc

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
