"""The part of ``msrun`` that checks use. It starts and logs ranks, and ends all if one fails.

With ``STANDIN_FAULT=unnamed-rank`` it does not print which rank failed. With ``forgets-ranks`` it
ends no rank.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

options = dict(each[2:].partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))
command = [each for each in sys.argv[1:] if not each.startswith("--")]
size, logs = int(options["worker_num"]), Path(options["log_dir"])
logs.mkdir(parents=True, exist_ok=True)
fault = os.environ.get("STANDIN_FAULT", "")

ranks = {}


def end(*_):
    """End the remaining ranks, which would wait for the failed one."""
    if fault != "forgets-ranks":
        for each in ranks:
            os.kill(each, signal.SIGKILL)
    sys.exit(1)


signal.signal(signal.SIGALRM, end)
with tempfile.TemporaryDirectory() as meeting:
    for rank in range(size):
        own = {"RANK_ID": str(rank), "RANK_SIZE": str(size), "STANDIN_MEETING": meeting}
        environment = {**os.environ, **own}
        with (logs / f"worker_{rank}.log").open("wb") as log:
            argv = ["python", *command]
            process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        ranks[process.pid] = rank
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
        signal.setitimer(signal.ITIMER_REAL, 2)  # other ranks may still print a reason, or succeed
    sys.exit(code)
