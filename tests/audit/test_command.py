"""``ascendcache-audit``: a command of its own, which needs neither pytest nor the reference."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from directories import dead_pid, scratch

from pytest_ascendcache.qualification.scenes.caches import elf_object, kernel_cache, put, ranks
from pytest_ascendcache.words.layout import columns

COMMAND = Path(sys.executable).with_name("ascendcache-audit")


def _run(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "80", "LC_ALL": "C.UTF-8", **variables}
    return subprocess.run(
        [str(COMMAND), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_many_directories_have_a_table_with_the_worst_first(tmp_path: Path) -> None:
    kernel_cache(tmp_path / "good")
    kernel_cache(tmp_path / "broken").entries[1].object.write_bytes(elf_object(b"other"))
    ended = _run(tmp_path / "good", tmp_path / "broken")
    assert ended.returncode == 1
    head, first, second = ended.stdout.splitlines()[-3:]
    assert head.split()[:3] == ["verdict", "entries", "names"]
    assert first.startswith("broken")
    assert second.startswith("good")
    assert "14 names: 11 of entries, 3 known and harmless, 0 not read, 0 foreign" in ended.stdout


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_fits_a_terminal(language: str, tmp_path: Path) -> None:
    kernels = ranks(tmp_path / "job")
    for suffix in (".info", ".json", ".o"):
        kernels[1][0].metadata.with_suffix(suffix).unlink()
    ended = _run("--lang", language, tmp_path / "job")
    assert ended.returncode == 0
    assert max(map(columns, ended.stdout.splitlines())) <= 80
    assert "HCCL_CONNECT_TIMEOUT" in ended.stdout


def test_what_is_not_read_is_not_good(tmp_path: Path) -> None:
    put(kernel_cache(tmp_path / "c").soc / "-rf.o", b"what is this")
    report = tmp_path / "report.json"
    ended = _run("--json", report, tmp_path / "c")
    assert ended.returncode == 1
    assert "Not decided: 1 name in" in ended.stdout
    (content,) = json.loads(report.read_text())
    names = content["names"]
    parts = names["of_entries"] + sum(names["known"].values()) + names["not_read"]
    assert parts + names["foreign"] == names["all"] == 15
    assert content["verdict"] == "undecided"


def test_a_limit_of_time_is_said(tmp_path: Path) -> None:
    kernel_cache(tmp_path / "c", entries=200)
    ended = _run("--seconds", "1e-9", tmp_path / "c")
    assert ended.returncode == 1
    assert "not read to its end" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["absent"], "does not exist; name a directory that holds a cache."),
        (["file"], "is not a directory"),
        (["other"], "holds no cache of CANN, MindSpore or TorchAir"),
        (["--seconds=0", "c"], "--seconds=0 is no time; write a number above 0."),
        (["--json=c/x.json", "c"], "which is only read; name another place."),
        (["--json=no/x.json", "c"], "there is no directory"),
        (["--edition=99", "c"], "--edition=99"),
        (["--edition=", "c"], "--edition="),
        ([""], "a directory is empty; name one that holds a cache: is a variable unset?"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel_cache(tmp_path / "c")
    put(tmp_path / "other/README", "no cache")
    put(tmp_path / "file", "x")
    ended = _run(*arguments)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert told in line


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_an_answer_that_cannot_be_printed_is_not_taken_for_a_broken_cache(
    where: str, tmp_path: Path
) -> None:
    kernel_cache(tmp_path / "c")
    command = f"{shlex.quote(str(COMMAND))} {shlex.quote(str(tmp_path / 'c'))} {where}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, timeout=60
    )
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 2
    assert "the answer cannot be printed" in line


def test_it_needs_neither_hypothesis_nor_the_reference(tmp_path: Path) -> None:
    kernel_cache(tmp_path / "c")
    program = (
        "import sys; from pytest_ascendcache.audit.command import main; main(sys.argv[1:]);"
        "print(*sorted(sys.modules))"
    )
    run = [sys.executable, "-c", program, str(tmp_path / "c")]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    unwanted = ("hypothesis", "llvmlite", "numpy", "pytest", "pytest_ascendcache.reference")
    assert not {*unwanted} & {*loaded}


def test_a_reader_that_has_seen_enough_is_no_fault(tmp_path: Path) -> None:
    kernel_cache(tmp_path / "c")
    script = f"{shlex.quote(str(COMMAND))} {shlex.quote(str(tmp_path / 'c'))} | true"
    ended = subprocess.run(
        ["bash", "-c", f"{script}; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("0\n", "")


def test_a_list_is_translated_part_by_part(tmp_path: Path) -> None:
    scratch(tmp_path / "d/work", dead_pid())
    kernel_cache(tmp_path / "d/cache")
    shown = _run("--ascend-language=zh", tmp_path / "d").stdout
    assert "CANN 单个 SoC 的算子缓存 2 个，编译临时目录 1 个；" in shown
    assert "已知：编译临时文件 4 个；缓存限额文件 1 个；锁文件 2 个" in shown
