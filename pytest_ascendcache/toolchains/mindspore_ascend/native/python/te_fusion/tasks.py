"""Compiles a task: C text, a shared object, and its description, written in place one by one."""

import hashlib
import json
import os
import subprocess

from te_fusion import kernels

_FINISHED = {}
MAGIC = "RT_DEV_BINARY_MAGIC_ELF_AIVEC"


def log(event, **fields):
    """Append what happened to the log. Compiles are counted here, never in MindSpore's own log."""
    place = os.environ.get("ASCENDCACHE_STANDIN_LOG")
    if place:
        line = json.dumps({"event": event, **fields}) + "\n"
        descriptor = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(descriptor, line.encode())
        os.close(descriptor)


def pattern_of(names):
    """How an operator may be fused with others."""
    text = " ".join(names).lower()
    if "reduce" in text:
        return "CommReduce"
    if os.environ.get("ASCENDCACHE_STANDIN_FUSION") != "1" or "matmul" in text:
        return "Opaque"
    return "ElemWise"


def finish(graph, task, result, failed=""):
    _FINISHED.setdefault(graph, []).append(
        {
            "graph_id": graph,
            "task_id": task,
            "status_code": int(bool(failed)),
            "result": failed or "success",
            "op_res": result,
            "info_msg": failed,
        }
    )


def finished(graph):
    return _FINISHED.pop(graph, [])


def identity(options):
    """What a kernel was built for and by."""
    return {
        "chip": options.get("socVersion"),
        "compiler": os.environ.get("ASCENDCACHE_STANDIN_COMPILER", "1"),
        "level": str(options.get("op_debug_level")),
        "device": str(options.get("deviceId")),
        "mode": options.get("op_impl_mode"),
        "banks": [options.get("mdl_bank_path") or "", options.get("op_bank_path") or ""],
    }


def compile_single(graph, task, name, kind, function, inputs, outputs, attributes, options):
    attributes = {each["name"]: each.get("value") for each in attributes if isinstance(each, dict)}
    step = kernels.Step(
        kind, kernels.tensors(inputs, "in"), kernels.tensors(outputs, "out"), attributes
    )
    _compile(graph, task, name, [step], step.inputs, step.outputs, options)


def compile_fused(graph, task, name, content, options):
    if options is None:
        options = dict(content["SocInfo"])
    options.setdefault("op_debug_dir", content["SocInfo"]["op_debug_dir"])
    steps, arguments, results = kernels.fused(content["op_list"])
    _compile(graph, task, name, steps, arguments, results, options)


def _compile(graph, task, name, steps, arguments, results, options):
    built = identity(options)
    log("compile", kernel=name, identity=built)
    directory = os.path.join(options["op_debug_dir"], "kernel_meta")
    try:
        text = kernels.source(name + "__kernel0", steps, arguments, results, json.dumps(built))
    except kernels.Unknown as error:
        return finish(graph, task, "", str(error))
    hold("compile")
    data = _built(text)
    place = os.path.join(directory, name + ".o")
    with _new(place) as file:
        file.write(data[: len(data) // 2])
        hold("half-o")
        file.write(data[len(data) // 2 :])
    hold("after-o")
    described = {
        "binFileName": name,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "kernelName": name + "__kernel0",
        "magic": MAGIC,
        "opParaSize": 0,
        "parameters": [0] * (len(arguments) + len(results)),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    text = json.dumps(described, indent=4, sort_keys=True).encode()
    place = os.path.join(directory, name + ".json")
    with _new(place) as file:
        file.write(text[: len(text) // 2])
        hold("half-json")
        file.write(text[len(text) // 2 :])
    hold("after-json")
    return finish(graph, task, place)


def _new(place):
    """A new private file. What lies there is removed first, so that a link is not followed: neither
    says anything about MindSpore."""
    if os.path.isdir(place) and not os.path.islink(place):
        os.rmdir(place)
    elif os.path.lexists(place):
        os.unlink(place)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    return open(os.open(place, flags, 0o600), "wb", buffering=0)


def hold(point):
    """Stop here, until the gate opens, if ASCENDCACHE_STANDIN_HOLD is "POINT:DIRECTORY"."""
    where, _, directory = os.environ.get("ASCENDCACHE_STANDIN_HOLD", "").partition(":")
    if where != point:
        return
    with open(os.path.join(directory, "pid"), "w") as file:
        file.write(str(os.getpid()))
    with open(os.path.join(directory, "reached"), "w") as file:
        file.write("x")
    with open(os.path.join(directory, "go"), "rb", buffering=0) as file:
        file.read(1)


def _built(text):
    """The shared object of a C text. Equal texts of a session are compiled once."""
    shelf = os.environ.get("ASCENDCACHE_STANDIN_SHELF")
    name = hashlib.sha256(text.encode()).hexdigest()
    kept = os.path.join(shelf, name) if shelf else None
    if kept and os.path.exists(kept):
        with open(kept, "rb") as file:
            return file.read()
    directory = os.environ.get("TMPDIR", "/tmp")
    made = os.path.join(directory, "kernel-%d-%s.so" % (os.getpid(), name[:16]))
    command = ["gcc", "-O1", "-shared", "-fPIC", "-xc", "-o", made, "-", "-lm"]
    subprocess.run(command, input=text.encode(), check=True)
    with open(made, "rb") as file:
        data = file.read()
    if kept:
        os.replace(made, kept)
    else:
        os.unlink(made)
    return data
