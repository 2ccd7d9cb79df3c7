"""The README's example of static kernels: three shapes for four cards in one package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pytest_ascendcache.observation import meeting_place

FIXTURES = Path(__file__).parents[2] / "fixtures"
MODULE = "pytest_ascendcache.reference.static_kernel.client.command"
LENGTHS = (16, 32, 64, 64)


def test_three_shapes_for_four_cards_in_one_package(tmp_path):
    opp, build = tmp_path / "opp", tmp_path / "build"
    opp.mkdir()
    build.mkdir()
    plain = {key: value for key, value in os.environ.items() if key != "RANK"}
    environment = {**plain, "ASCEND_OPP_PATH": str(opp)}

    def run(*command: object) -> str:
        argv = [str(each) for each in command]
        return subprocess.run(
            argv, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    run(sys.executable, FIXTURES / "bert_lengths.py", *sorted(set(LENGTHS)))
    options = ("--mode=reduce-overhead", "--static-shape-kernel", f"--build-dir={build}")
    with meeting_place(len(LENGTHS)) as place:
        cards = [
            subprocess.Popen(
                [sys.executable, "-m", MODULE, f"bert_{length}.json", *options],
                cwd=tmp_path,
                env={
                    **environment,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(len(LENGTHS)),
                    "LOCAL_WORLD_SIZE": str(len(LENGTHS)),
                    "MASTER_ADDR": place.host,
                    "MASTER_PORT": str(place.port),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank, length in enumerate(LENGTHS)
        ]
        outputs = [card.communicate(timeout=120)[0] for card in cards]
    assert [card.returncode for card in cards] == [0] * len(cards), outputs
    assert outputs[2] == outputs[3]
    (package,) = build.rglob("*.run")
    assert list(opp.iterdir()) == [], "nothing stays installed"

    # Another package is already installed. Uninstalling ours must restore its index.
    other = tmp_path / "other"
    other.mkdir()
    run(
        sys.executable,
        "-m",
        MODULE,
        FIXTURES / "networks" / "square.json",
        *options[:2],
        f"--build-dir={other}",
    )
    run(next(other.rglob("*.run")), "--quiet")
    # Processes read this index. Each package also keeps an index of its own beside its kernels.
    (index,) = opp.glob("static_kernel/ai_core/config/*/binary_info_config.json")
    before = index.read_bytes()
    run(package)
    listed = run(package, "--list")
    assert [listed.count(f"Gelu_float_ND_{length}_512_") for length in (16, 32, 64)] == [2, 2, 2]
    assert index.read_bytes() != before
    run(opp / "static_kernel" / "ai_core" / package.stem / "uninstall.sh")
    assert index.read_bytes() == before
