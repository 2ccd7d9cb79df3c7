"""As much of ``msrun`` as checks use: starts ranks, logs them, and ends all where one fails.

``STANDIN_FAULT``: ``unnamed-rank`` does not say which, ``forgets-ranks`` ends none.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

given = dict(each[2:].partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))
command = [each for each in sys.argv[1:] if not each.startswith("--")]
size, logs = int(given["worker_num"]), Path(given["log_dir"])
logs.mkdir(parents=True, exist_ok=True)
fault = os.environ.get("STANDIN_FAULT", "")

ranks = {}


def end(*_):
    """The ranks that are left wait for one that has failed, and will never know."""
    if fault != "forgets-ranks":
        for each in ranks:
            os.kill(each, signal.SIGKILL)
    sys.exit(1)


signal.signal(signal.SIGALRM, end)
with tempfile.TemporaryDirectory() as meeting:
    for rank in range(size):
        environment = {
            **os.environ,
            "RANK_ID": str(rank),
            "RANK_SIZE": str(size),
            "STANDIN_MEETING": meeting,
        }
        with (logs / f"worker_{rank}.log").open("wb") as log:
            started = subprocess.Popen(
                ["python", *command], env=environment, stdout=log, stderr=log
            )
        ranks[started.pid] = rank
        print(f"Start worker process with rank id:{rank}", flush=True)
    code = 0
    while ranks:
        pid, status = os.wait()
        lost, how = ranks.pop(pid), os.waitstatus_to_exitcode(status)
        if how == 0:
            continue
        code = 1
        if fault != "unnamed-rank":
            print(f"Worker {lost} exited abnormally with {how}.", flush=True)
        if how < 0 or fault == "forgets-ranks":
            end()
        signal.setitimer(signal.ITIMER_REAL, 2)  # others may still say why, or succeed
    sys.exit(code)
