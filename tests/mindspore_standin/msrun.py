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

with tempfile.TemporaryDirectory() as meeting:
    ranks = {}
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
    while ranks:
        pid, status = os.wait()
        lost = ranks.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            continue
        if code > 0 and ranks:
            continue  # the others may still succeed, or say why not
        if fault != "unnamed-rank":
            print(f"Worker {lost} exited abnormally with {code}.", flush=True)
        if fault != "forgets-ranks":
            for each in ranks:
                os.kill(each, signal.SIGKILL)
        sys.exit(1)
