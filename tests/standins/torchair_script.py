"""A user's script with static kernels: the reference's client in TorchAir's place.

``STANDIN_DEFECT`` has it do one thing wrongly.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pytest_ascendcache.reference.static_kernel.client import command

here, defect = Path.cwd(), os.environ.get("STANDIN_DEFECT", "")
network = here / f"network{os.environ.get('RANK', '')}.json"
network.write_text(Path(os.environ["STANDIN_NETWORK"]).read_text())
environ = dict(os.environ)
arguments = [str(network), "--mode", "reduce-overhead"]
if defect != "off":
    arguments.append("--static-shape-kernel")
if defect == "alone":  # every card for itself, whatever LOCAL_WORLD_SIZE says
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        environ.pop(name, None)
code = command.run(arguments, environ)
trees = here / "aclnn_static_shape_kernel_outputs"
if defect == "renamed":
    for each in trees.iterdir():
        each.rename(trees / f"outputs_{each.name}")
elif defect == "no-debug":
    for each in trees.glob("*/*_debug"):
        shutil.rmtree(each)
elif defect == "odd-package":
    for each in trees.rglob("*.run"):
        each.rename(each.with_name("kernels.run"))
elif defect == "installed":
    for each in trees.rglob("*.run"):
        subprocess.run([str(each)], check=True)
elif defect == "broken":
    sys.exit("broken from the start")
sys.exit(code)
