"""Judges the embedded reference in environments that users have, one after another.

Mounts, networks and masks are made in namespaces of their own and leave nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ENVIRONMENTS = {
    "tmpfs": "mount -t tmpfs none $HERE",
    "overlay": "mount -t tmpfs none $HERE && cd $HERE && mkdir low up work on && "
    "mount -t overlay none -o lowerdir=low,upperdir=up,workdir=work on && HERE=$HERE/on",
    "bind mount": "mkdir $HERE/own && mount --bind $HERE/own $HERE",
    "relatime": "mount -t tmpfs -o relatime none $HERE",
    "noatime": "mount -t tmpfs -o noatime none $HERE",
    "strictatime": "mount -t tmpfs -o strictatime none $HERE",
    "FUSE": "bindfs $HERE $HERE",
    "little memory": "G=/sys/fs/cgroup/ascendcache-$$ && mkdir $G && "
    "trap 'echo $$ > /sys/fs/cgroup/cgroup.procs; rmdir $G' EXIT && "
    "echo 1G > $G/memory.max && echo $$ > $G/cgroup.procs",
    "umask 077": "umask 077",
    "umask 000": "umask 000",
    "locale C": "export LC_ALL=C",
    "locale zh_CN": "locale -a | grep -qi '^zh_CN' && export LC_ALL=zh_CN.UTF-8",
    "no IPv6": "ip link set lo up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1",
    "one core, twentyfold load": "taskset -pc 0 $$ && for each in $(seq 20); do "
    "timeout 600 sh -c 'while :; do :; done' & done",
    "a user": "RUN='setpriv --reuid=nobody --regid=nogroup --clear-groups --bounding-set=-all' && "
    "chown nobody $HERE && $RUN cat $PYTHON > /dev/null",
}
"""Commands of a shell by what they make. They may change HERE, where temporary files lie, and RUN,
what runs the suite."""


def main() -> int:
    """Entry point. Returns 1 if an environment accuses the reference or leaves checks undecided, if
    the suite did not run in one that could be made, or if none could be made."""
    parser = argparse.ArgumentParser(prog="ci/environments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of environments (default: all)")
    names = parser.parse_args().names or [*ENVIRONMENTS]
    if unknown := [each for each in names if each not in ENVIRONMENTS]:
        parser.error(f"no environment is called {unknown[0]!r}")
    judged = [*map(_judged, names)]  # all of them, also after one that is not acquitted
    return int(False in judged or True not in judged)


_NOT_HERE = 99
"""Exit status of a script whose environment cannot be made on this machine."""


def _judged(name: str) -> bool | None:
    """Whether the reference was acquitted; None if the environment cannot be made here."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-environment-") as work:
        here, report = Path(work, "here"), Path(work, "report/report.json")
        for each in (here, report.parent):
            each.mkdir()
            each.chmod(0o777)
        Path(work).chmod(0o755)
        suite = [sys.executable, "-m", "pytest", "--ascend-cache", "--ascend-select=60runs", "-q"]
        suite += ["-p", "no:cacheprovider", f"--ascend-report={report}"]
        suite += ["--pyargs", "pytest_ascendcache.conformance"]
        script = f"{ENVIRONMENTS[name]} >&2 || exit {_NOT_HERE}\n"
        script += f"TMPDIR=$HERE $RUN {shlex.join(suite)}\ncode=$?\n"
        script += "kill $(jobs -p) 2> /dev/null\nexit $code"
        ended = subprocess.run(
            ["unshare", "-m", *(["-n"] if "IPv6" in name else []), "bash", "-c", script],
            env={
                **os.environ,
                "HERE": str(here),
                "RUN": "",
                "PYTHON": os.path.realpath(sys.executable),
            },
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode not in (0, 1) or not report.exists():
            last = (ended.stderr.strip() or ended.stdout.strip() or "?").splitlines()[-1]
            cannot = ended.returncode == _NOT_HERE or "unshare" in last
            print(f"{'not here' if cannot else 'NOT RUN':<10} {name:<28} {last[:120]}", flush=True)
            return None if cannot else False
        checks = json.loads(report.read_text(encoding="utf-8"))["checks"]
    verdicts = Counter(each["verdict"] for each in checks)
    bad = [each for each in checks if each["verdict"] in ("fail", "warn", "undecided")]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    print(f"{'ACCUSED' if bad else 'acquitted':<10} {name:<28} {counts}", flush=True)
    for each in bad:
        print(f"           {each['check']}\n               {each['verdict']}: {each['message']}")
    return not bad


if __name__ == "__main__":
    sys.exit(main())
