"""Lays out the part of a CANN 8.1 toolkit that its op_compiler needs, with stand-ins for the rest.

``layout.py TOOLKIT PLACE KERNELS`` copies parts of TOOLKIT to PLACE. They are unmodified except for
execute bits, which a checkout loses. PLACE/op_compiler is the command.
"""

import platform
import shlex
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOOL = "python/site-packages/op_compile_tool"
MAKESELF = "tools/msopgen/template/custom_operator_sample/TIK/PyTorch/cmake/util/makeself"
CHIPS = "aarch64-linux/data/platform_config", "x86_64-linux/data/platform_config"
PROGRAMS = (f"{TOOL}/static_compile", MAKESELF)

COMPILER = """\
#!/bin/sh
root=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
export ASCEND_OPP_PATH="$root/opp" PATH="$root/bin:$PATH"
export PYTHONPATH="$root/{tool}:{standins}" OPC_KERNELS={kernels}
exec {python} "$root/{tool}/op_compiler_tool.py" "$@"
"""
OPC = """\
#!/bin/sh
unset PYTHONPATH
exec {python} {opc} "$@"
"""


def main(toolkit: Path, place: Path, kernels: Path) -> None:
    """Lay out the toolkit, replacing an earlier one."""
    shutil.rmtree(place, ignore_errors=True)
    for part in (TOOL, MAKESELF):
        shutil.copytree(part_of(toolkit, part), place / part)
    chips = next((toolkit / each for each in CHIPS if (toolkit / each).is_dir()), None)
    if chips is None:
        sys.exit(f"ci/verify-op-compiler: {toolkit} has no {CHIPS[0]}; name the whole toolkit.")
    shutil.copytree(chips, place / f"{platform.machine()}-linux/data/platform_config")
    (place / "opp").mkdir()
    shutil.copy(part_of(toolkit, "opp/version.info"), place / "opp")
    for folder in PROGRAMS:
        for each in (place / folder).iterdir():
            if each.suffix in (".py", ".sh"):
                each.chmod(0o755)
    words = {
        "python": shlex.quote(sys.executable),
        "tool": TOOL,
        "standins": shlex.quote(str(HERE / "standins")),
        "kernels": shlex.quote(str(kernels)),
        "opc": shlex.quote(str(HERE / "opc.py")),
    }
    (place / "bin").mkdir()
    for path, text in ((place / "op_compiler", COMPILER), (place / "bin/opc", OPC)):
        path.write_text(text.format(**words))
        path.chmod(0o755)


def part_of(toolkit: Path, part: str) -> Path:
    if not (toolkit / part).exists():
        sys.exit(f"ci/verify-op-compiler: {toolkit} has no {part}; name the whole toolkit.")
    return toolkit / part


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
