"""One bare run of a built toolkit's atc, without the suite."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

_TENSOR = {"format": "ND", "shape": [8, 16], "type": "float32"}
_ADD = {
    "op": "Add",
    "name": "bare",
    "input_desc": [_TENSOR, _TENSOR],
    "output_desc": [_TENSOR],
}
_LIMIT = 60
"""Seconds."""


def run(toolkit: Path, directory: Path, mode: str) -> bool:
    """Compile one operator in an empty directory; returns whether that succeeded."""
    path = directory / "add.json"
    path.write_text(json.dumps([_ADD]), encoding="utf-8")
    command = [
        str(toolkit / "bin" / "atc"),
        f"--singleop={path}",
        f"--output={directory}/out",
        "--soc_version=Ascend910B1",
        f"--op_compiler_cache_mode={mode}",
        f"--op_compiler_cache_dir={directory}/cache",
    ]
    environment = {**os.environ, "ASCEND_OPP_PATH": str(toolkit / "opp")}
    try:
        ended = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            capture_output=True,
            check=False,
            timeout=_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0
