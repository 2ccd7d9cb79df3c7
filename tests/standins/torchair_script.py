"""A user's script with static kernels, with the reference's client in place of TorchAir.

It runs one network twice. ``STANDIN_DEFECT`` makes it do one thing wrong.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from pytest_ascendcache.reference.static_kernel.client import command
from pytest_ascendcache.reference.static_kernel.client.session import Session

here, defect = Path.cwd(), os.environ.get("STANDIN_DEFECT", "")
network = here / f"network{os.environ.get('RANK', '')}.json"
network.write_text(Path(os.environ["STANDIN_NETWORK"]).read_text())
environ = dict(os.environ)
arguments = [str(network), str(network), "--mode", "reduce-overhead"]
if defect != "off":
    arguments.append("--static-shape-kernel")
if defect == "alone":  # each card works alone, despite LOCAL_WORLD_SIZE
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        environ.pop(name, None)
if defect == "deaf":
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
turns = Path(os.environ.get("STANDIN_TURNS", os.devnull))
with turns.open("a") as file:
    file.write("begin\n")
before = set(Path(environ.get("ASCEND_OPP_PATH", "/")).glob("static_kernel/ai_core/*"))
earlier = sorted(here.glob("aclnn_static_shape_kernel_outputs/*/*.run"))
if defect in ("hoards", "trusts"):  # installs an earlier run's packages again
    if defect == "trusts" and earlier:
        arguments.remove("--static-shape-kernel")
    for each in earlier:
        subprocess.run([str(each)], check=False)
quiet = os.open(os.devnull, os.O_WRONLY) if defect == "silent" else None
if quiet is not None:
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
if defect == "unread" and environ.get("RANK", "0") != "0":  # only the first card reads the index
    Session._select = lambda *_: {}
if defect == "early":  # drops the first shape's kernels before the second shape
    command.run([arguments[0], *arguments[2:]], environ)
    network.write_text(network.read_text().replace("[3]", "[2]").replace("[1, 4, 9]", "[1, 4]"))
    arguments = arguments[1:]
code = command.run(arguments, environ)
trees = here / "aclnn_static_shape_kernel_outputs"
if defect == "renamed":
    for each in trees.iterdir():
        each.rename(trees / f"compiled_{each.name}".removesuffix("_outputs"))
elif defect == "no-debug":
    for each in trees.glob("*/*_debug"):
        shutil.rmtree(each)
elif defect == "odd-package":
    for each in trees.rglob("*.run"):
        each.rename(each.with_name("kernels.run"))
elif defect == "installed":
    for each in trees.rglob("*.run"):
        subprocess.run([str(each)], check=False)
elif defect == "private":  # installs into another directory, as for CANN 9.1
    own = here / "static_kernel_install/1"
    own.mkdir(parents=True)
    for each in trees.rglob("*.run"):
        subprocess.run([str(each), f"--install-path={own}", "-q"], check=False)
elif defect == "more-dumped" or (defect == "by-name" and environ.get("RANK") == "1"):
    for folder in trees.glob("*/*"):  # dumps an operator that op_compiler was not asked for
        for each in folder.glob("Square*.json") if folder.is_dir() else []:
            each.with_name("Abs_float_ND_3_9.json").write_text(
                each.read_text().replace("Square", "Abs")
            )
elif defect in ("hoards", "trusts"):
    for each in Path(environ["ASCEND_OPP_PATH"]).glob("static_kernel/ai_core/*/uninstall.sh"):
        subprocess.run([str(each)], check=False)
elif defect == "broken":
    sys.exit("broken from the start")
with turns.open("a") as file:
    file.write("end\n")
sys.exit(0 if defect == "silent" else code)
