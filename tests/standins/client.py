"""The command of the stand-in atc: sends a request to a warm process, or runs the stand-in itself.

``python -I -S client.py SOCKET PYTHON ATC ARGUMENTS...``. It runs the stand-in itself if it is to
misbehave or is traced, because signals and tracers must reach the process that compiles.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
from pathlib import Path

place, python, script, *arguments = sys.argv[1:]
traced = "TracerPid:\t0\n" not in Path("/proc/self/status").read_text()
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
if "STANDIN" in os.environ or traced or server.connect_ex(place):
    os.execv(python, [python, script, *arguments])
umask = os.umask(0)
os.umask(umask)
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
with tempfile.TemporaryFile() as document, theirs:
    request = {
        "arguments": [script, *arguments],
        "directory": str(Path.cwd()),
        "environment": dict(os.environ),
        "umask": umask,
    }
    document.write(json.dumps(request).encode())
    document.flush()
    socket.send_fds(server, [b"?"], [document.fileno(), theirs.fileno(), 0, 1, 2])
code = os.waitstatus_to_exitcode(int(ours.recv(16) or b"15"))
if code < 0:
    with contextlib.suppress(OSError):
        os.kill(os.getpid(), -code)
sys.exit(code)
