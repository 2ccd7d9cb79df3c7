#!/usr/bin/env python3
"""Another atc that is only different: a client has a server compile, over a socket."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

REAL = os.environ.get("REAL_ATC", "ascendcache-atc")


def server(channel):
    """Compile what the client asks for."""
    with channel, channel.makefile("rwb") as lines:
        request = json.loads(lines.readline())
        done = subprocess.run(
            [REAL, *request["argv"]],
            cwd=request["cwd"],
            env=request["environ"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        answer = {
            "status": done.returncode,
            "out": done.stdout.decode("latin-1"),
            "err": done.stderr.decode("latin-1"),
        }
        lines.write(json.dumps(answer).encode() + b"\n")
        lines.flush()


def main():
    if sys.argv[1:2] == ["--server-on"]:
        return server(socket.socket(fileno=int(sys.argv[2])))
    ours, theirs = socket.socketpair()
    with theirs:  # the server stays in our process group, so it ends with us
        worker = subprocess.Popen(
            [sys.executable, __file__, "--server-on", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
        )
    request = {"argv": sys.argv[1:], "cwd": str(Path.cwd()), "environ": dict(os.environ)}
    with ours, ours.makefile("rwb") as lines:
        lines.write(json.dumps(request).encode() + b"\n")
        lines.flush()
        line = lines.readline()
    worker.wait()
    if not line:
        return 255
    answer = json.loads(line)
    sys.stdout.buffer.write(answer["out"].encode("latin-1"))
    sys.stderr.buffer.write(answer["err"].encode("latin-1"))
    status = answer["status"]
    return status if status >= 0 else 128 - status


sys.exit(main())
