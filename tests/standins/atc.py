"""A stand-in for an installed atc: the reference with the interface of an installed toolkit.

It takes models as well as single operators, ignores ``--op_debug_config`` for the latter, logs to
``ASCEND_PROCESS_LOG_PATH``, and finds its operator package next to itself. The variable ``STANDIN``
adds bad behaviour, separated by blanks: ``noisy`` (megabytes of output), ``lasts:SECONDS`` (runs at
least so long), ``crash``, ``hang``, ``endless``. With ``@TEXT`` a behaviour applies only to command
lines with that text. ``STANDIN_DEFECT`` is a seeded defect of the reference.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    toolkit = Path(os.environ["STANDIN_TOOLKIT"])
    arguments = sys.argv[1:]
    for manner in os.environ.get("STANDIN", "").split():
        what, _, where = manner.partition("@")
        if where in " ".join(arguments):
            behave(*what.partition(":")[::2])
    environ = {"ASCEND_OPP_PATH": str(toolkit / "opp"), **os.environ}
    options = dict(each[2:].partition("=")[::2] for each in arguments if each.startswith("--"))
    if "model" in options:
        code = convert(options, environ)
    else:
        options.pop("op_debug_config", None)
        code = compile_all(options, environ)
    if code:
        log(b"[INFO] fine\n" * 9 + b"[ERROR] TEFUSION(1,atc):its last words \xff\n")
    return code


def log(text: bytes) -> None:
    if logs := os.environ.get("ASCEND_PROCESS_LOG_PATH"):
        path = Path(logs, "debug/plog/plog-1_20260101.log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def behave(what: str, value: str) -> None:
    if what == "noisy":
        for number in range(64):
            os.write(1, b"\xff\x00\x1b[31m noise %d\n" % number * 4000)
    elif what == "lasts":
        began = time.monotonic()
        atexit.register(lambda: time.sleep(max(0.0, began + float(value) - time.monotonic())))
    elif what == "warns":
        log(f"[WARNING] FE(1,atc):{value}\n".encode())
    elif what == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif what == "hang":
        signal.pause()
    elif what == "endless":
        while True:
            os.write(1, b"more and more\n" * 1000)


def compile_all(options: dict[str, str], environ: dict[str, str]) -> int:
    from pytest_ascendcache.reference import atc

    arguments = [f"--{name}={value}" for name, value in options.items()]
    if defect := os.environ.get("STANDIN_DEFECT"):
        from pytest_ascendcache.qualification.defective import programs
        from pytest_ascendcache.qualification.loading import load_defects

        return programs(load_defects()[defect])["atc"](arguments, environ)
    return atc.run(arguments, environ)


def warm() -> None:
    """Import what runs need, and compile a small operator."""
    import onnx  # noqa: F401 - forked runs have it

    from pytest_ascendcache.qualification.loading import load_defects
    from pytest_ascendcache.reference.forkserver import preload

    load_defects()
    preload()


def convert(options: dict[str, str], environ: dict[str, str]) -> int:
    """Compile the nodes of a model and deliver their kernels in one file. A model whose nodes take
    what others give is left to the embedded converter."""
    import onnx

    graph = onnx.load(options["model"]).graph
    if {name for node in graph.node for name in node.input} & {
        name for node in graph.node for name in node.output
    }:
        options["output"] += "_linux_x86_64"
        return compile_all(options, environ)
    del options["model"]
    assert options.pop("framework") == "5"
    assert options.pop("input_format") == "ND"
    prefix = options.pop("output")
    tensors = {each.name: tensor(each.type.tensor_type) for each in (*graph.input, *graph.output)}
    operators = [
        {
            "op": {"Div": "RealDiv"}.get(node.op_type, node.op_type),
            "name": node.name,
            "input_desc": [tensors[name] for name in node.input],
            "output_desc": [tensors[name] for name in node.output],
            "attr": [
                {"name": "negative_slope", "type": "float", "value": each.f}
                for each in node.attribute
            ],
        }
        for node in graph.node
    ]
    with tempfile.TemporaryDirectory() as name:
        single = Path(name, "operators.json")
        single.write_text(json.dumps(operators))
        code = compile_all({"singleop": str(single), "output": name, **options}, environ)
        models = [Path(name, f"{each['name']}.om") for each in operators]
        if code == 0:
            delivered = b"".join(path.read_bytes() for path in models)
            Path(f"{prefix}_linux_x86_64.om").write_bytes(delivered)
    return code


def tensor(described: object) -> dict[str, object]:
    import onnx

    dtype = onnx.helper.tensor_dtype_to_np_dtype(described.elem_type)
    shape = [each.dim_value for each in described.shape.dim]
    return {"format": "ND", "shape": shape, "type": str(dtype)}


if __name__ == "__main__":
    sys.exit(main())
