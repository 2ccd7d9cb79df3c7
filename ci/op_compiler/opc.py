"""Stands in for CANN's ``opc``: compiles one operator with the reference's kernels.

Takes the options that ``op_compile_tool`` passes. The directory ``OPC_KERNELS`` keeps kernels by
the content of their request, so that only the first request of its kind loads a compiler.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str]) -> None:
    options = dict(each.removeprefix("--").split("=", 1) for each in arguments)
    asked = json.loads(Path(options["input_param"]).read_text())
    (operator,) = asked["op_list"]
    name = operator.pop("bin_filename")
    text = json.dumps([asked, options["soc_version"]], sort_keys=True)
    kept = Path(os.environ["OPC_KERNELS"], hashlib.sha256(text.encode()).hexdigest())
    if not kept.with_suffix(".json").exists():
        compiled(asked["op_type"], operator, options["soc_version"], kept)
    for suffix in (".o", ".json"):
        shutil.copyfile(kept.with_suffix(suffix), Path(options["output"], name + suffix))


def compiled(kind: str, operator: dict[str, Any], soc: str, kept: Path) -> None:
    """Compile into ``kept``. The metadata comes last, because it marks the entry as complete."""
    from pytest_ascendcache.operators.opinfo_json import parse_opinfo
    from pytest_ascendcache.reference.static_kernel.compilation import (
        Job,
        StaticKernelPolicy,
    )

    fields = {**operator, "op_type": kind}
    for group in ("inputs", "outputs", "attrs"):
        fields[group] = [as_dumped(each) for each in operator[group]]
    info, policy = parse_opinfo(fields), StaticKernelPolicy()
    job = Job(info, policy.key(info), "kernel", kept)
    data = policy.compile(job, soc, {})
    (kernel, _) = policy.kernel_files(job, data, "package", "soc")
    for suffix, content in ((".o", kernel.data), (".json", kernel.metadata)):
        temporary = kept.with_suffix(f"{suffix}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(kept.with_suffix(suffix))


def as_dumped(given: Any) -> Any:
    """Return a tensor or an attribute with the names of a dump instead of those of ``opc``."""
    if given is None:
        return None
    if isinstance(given, list):
        return [as_dumped(each) for each in given]
    names = {"paramType": "param_type", "const_value": "const_data"}
    return {names.get(name, name): value for name, value in given.items()}


if __name__ == "__main__":
    main(sys.argv[1:])
