"""A toolchain of one's own: ccache around gcc. ``pytest.ini`` names it."""

import os
import shutil

from pytest_ascendcache import CacheMode
from pytest_ascendcache.toolchains import CommandToolchain, ProcessLauncher, ToolchainError

SOURCE = """void kernel(const float *x, const float *y, float *out)
{{ for (int i = 0; i < {size}; i++) out[i] = x[i] {sign} y[i]; }}
"""

# gcc that stamps every object it makes: so a cached object is told from a compiled one.
COMPILER = """#!/bin/sh
gcc "$@" || exit
for last; do [ "$previous" = -o ] && out=$last; previous=$last; done
case " $* " in *" -c "*)
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
  printf 'ascendcache-canary:%s' "$token" >> "$out";;
esac
"""

MODES = {
    CacheMode.ENABLE: {},
    CacheMode.FORCE: {"CCACHE_RECACHE": "1"},
    CacheMode.DISABLE: {"CCACHE_DISABLE": "1"},
}


class Ccache(CommandToolchain):
    """One operator a process; the operator's C source is its key."""

    name = "ccache"
    birthmarks = True

    def __init__(self, deadline):
        found = shutil.which("ccache")
        if found is None or shutil.which("gcc") is None:
            raise ToolchainError("ccache and gcc are needed: apt-get install ccache gcc")
        super().__init__(ProcessLauncher({"ccache": (found,)}), deadline)
        self.version = os.path.realpath(found)

    def command(self, request):
        (operator,) = request.operators
        sign = {"Add": "+", "Mul": "*"}[operator.type]
        size = operator.outputs[0].elements
        compiler = request.home / "stamping-gcc"
        compiler.write_text(COMPILER)
        compiler.chmod(0o755)
        os.utime(compiler, (0, 0))  # ccache knows a compiler by its time and size
        source = request.work / "kernel.c"
        source.write_text(SOURCE.format(size=size, sign=sign))
        level = request.options.debug_level or 0
        target = self.delivered(request)[0]
        return "ccache", [str(compiler), f"-g{level}", "-c", source.name, "-o", str(target)]

    def environment(self, request):
        mode = MODES[request.options.effective_mode]
        given = {"PATH": os.environ["PATH"], "HOME": str(request.home), **mode}
        return {**given, "CCACHE_DIR": str(request.cache_dir), **request.environment}

    def delivered(self, request):
        return [request.output / "kernel.o"]


def pytest_ascendcache_toolchain(name, settings):
    """The hook: ``--ascend-toolchain=ccache`` asks for this one."""
    return Ccache(settings.timeout) if name == "ccache" else None
