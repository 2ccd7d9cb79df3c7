"""Bad input to public commands: one sentence, a non-zero exit, no files left, no check passed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.option import Access
from pytest_ascendcache.plugin.options.table import OPTIONS
from tests.refusing import left, refused

BIN = Path(sys.executable).parent
FIXTURES = Path(__file__).parents[2] / "fixtures"

SOC = "--soc_version=Ascend910B1"
COMPILE = ("--singleop=op.json", "--output=o", SOC)
RELEASE = "atc = 'atc --singleop=op.json --soc_version=Ascend910B1'\ntoolchain = 'reference'\n"


@pytest.fixture
def place(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A directory with files of every wrong kind, on a machine without a toolkit."""
    for name in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    path = pytester.path
    (path / "op.json").write_bytes((FIXTURES / "single_add.json").read_bytes())
    (path / "directory").mkdir()
    (path / "empty").touch()
    (path / "binary").write_bytes(b"\xff\xfe\x00" * 100)
    (path / "nested.json").write_text("[" * 100_000)
    (path / "list.json").write_text("[]")
    (path / "number.toml").write_text("1 = [")
    (path / "deep.toml").write_text("a = " + "[" * 5000)
    os.mkfifo(path / "fifo")
    (path / "loop").symlink_to("loop")
    (path / "silent").write_text("#!/bin/sh\n")
    (path / "silent").chmod(0o755)
    (path / "plain-file").write_text("#!/bin/sh\n")
    return pytester


READ = [option.name for option in OPTIONS.values() if option.access is Access.READS]


WRONG_FILES = ("absent", "directory", "loop", "binary", "fifo", "/dev/zero", "/proc/self/mem")


@pytest.mark.parametrize("option", READ)
@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_file_that_cannot_be_read_is_refused(
    place: pytest.Pytester, option: str, name: str
) -> None:
    path = name if name.startswith("/") else f"./{name}"
    error = refused(place, "--ascend-cache", f"{option}={path}")
    assert name in error
    if name in ("fifo", "/dev/zero") and option != "--ascend-atc":
        assert "not a regular file" in error


OPTIONS_TOGETHER = [
    (["--ascend-toolchain=act"], "did you mean 'atc'?"),
    (["--ascend-toolchain=nosuch"], "no such toolchain"),
    (["--ascend-defect=nosuch"], "no such defect; use one of cann, "),
    (["--ascend-rule=enable-stores", "--ascend-cache"], "did you mean 'cache-mode/enable-stores'?"),
    (["--ascend-deviations=number.toml", "--ascend-cache"], "number.toml"),
    (["--ascend-soc=a b", "--ascend-cache"], "--ascend-soc must be"),
    (["--ascend-rules=nosuchword"], "no rule contains this text"),
    (["--ascend-atc=absent"], "is not an executable program"),
    (["--ascend-atc=directory"], "is not an executable program"),
    (["--ascend-atc=plain-file"], "is not an executable program"),
    (["--ascend-toolchain=op-compiler:absent"], "is not an executable program"),
    (["--ascend-atc=silent", "--ascend-defect=stores-nothing"], "leave one of the two out"),
    (["--ascend-atc=silent", "--ascend-toolchain=reference"], "leave one of the two out"),
    (["--ascend-cache", "--ascend-report=/"], "it is a directory; name a file in it"),
    (["--ascend-cache", "--ascend-html=/nowhere/p"], "the directory /nowhere does not exist"),
    (["--ascend-audit=fifo"], "fifo"),
    (["--ascend-cache", "--basetemp=a b"], "contains ' ', which ATC does not accept"),
    (["--ascend-cache", "--basetemp=/proc/sys/x"], "name another with --basetemp"),
    (["--ascend-atc=./silent", "--basetemp=empty/t"], "no temporary directory can be made in"),
    (["--ascend-stress=list.json", "--ascend-cache"], "list.json"),
    (["--ascend-resume=fifo", "--ascend-cache"], "not a regular file"),
    (["--ascend-resume=/dev/zero", "--ascend-cache"], "not a regular file"),
    (["--ascend-nodes=absent"], "or a directory, not 'absent'"),
    (["--ascend-nodes=./absent"], "is not a directory"),
    (["--ascend-nodes=."], "one node alone shares nothing"),
    (["--ascend-nodes=.", "--ascend-nodes=2"], "leave out --ascend-nodes=/"),
    (["--ascend-nodes=2", "--ascend-nodes=3"], "leave out --ascend-nodes=3"),
]


@pytest.mark.parametrize(("arguments", "error"), OPTIONS_TOGETHER, ids=lambda each: str(each)[:60])
def test_bad_options_are_refused(place: pytest.Pytester, arguments: list[str], error: str) -> None:
    # A user's test that passes must not make the run green.
    place.makepyfile(test_mine="def test_mine(): pass")
    assert error in refused(place, *arguments)


RELEASES = {
    "1 = [": "is not TOML",
    f"{RELEASE}cards = -1": "'cards' is -1",
    f"{RELEASE}cards = nan": "'cards' is nan",
    f"{RELEASE}caches = 'fifo'": "fifo",
    "soc = 'A'\ntoolchain = 'act'": "did you mean 'atc'?",
    "soc = 'A'\ntoolchain = 'bin/atc'": "is not an executable program",
    "atc = 'atc --soc_version=A --model=fifo'": "fifo is no regular file",
    "atc = 'atc --soc_version=A --singleop=absent.json'": "absent.json",
    "atc = 'atc --soc_version=A --singleop=list.json'": "list.json",
    "atc = 'atc --soc_version=A --singleop=nested.json'": "nested.json",
    "atc = 'atc --soc_version=A --singleop=binary'": "binary",
}


@pytest.mark.parametrize("text", RELEASES)
def test_a_bad_release_is_refused(place: pytest.Pytester, text: str) -> None:
    (place.path / "release.toml").write_text(text)
    assert RELEASES[text] in refused(place, "--ascend-release=release.toml")


COMMANDS = [
    (["ascendcache-release-init", "-o", "fifo"], "fifo exists and is left as it is"),
    (["ascendcache-compare", "nested.json", "nested.json"], "nested.json"),
    (["ascendcache-compare", "binary", "list.json"], "binary"),
    (["ascendcache-compare", "fifo", "list.json"], "it is a FIFO, not a regular file"),
    (["ascendcache-atc", "--singleop=absent.json", "--output=o", SOC], "absent.json"),
    (["ascendcache-atc", "--singleop=nested.json", "--output=o", SOC], "nested.json"),
    (["ascendcache-atc", *COMPILE, "--op_compiler_cache_mode=on"], "op_compiler_cache_mode"),
    (["ascendcache-aclgraph", "absent.json"], "absent.json"),
    (["ascendcache-aclgraph", "nested.json"], "nested.json"),
    (["ascendcache-op-compiler", "-p", "absent", "-v", "Ascend910B1", "-o", "o"], "absent"),
    (["ascendcache-train", "absent.json"], "absent.json"),
    (["ascendcache-run", "absent.om", "in.npz", "out.npz"], "absent.om"),
]


def _run(program: str, *arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [BIN / program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(("words", "error"), COMMANDS, ids=lambda each: str(each)[:60])
def test_a_command_refuses_bad_input(place: pytest.Pytester, words: list[str], error: str) -> None:
    before = left(place.path)
    code, text = _run(*words)
    assert code not in (0, -11), text
    assert "Traceback" not in text
    assert error in text
    assert left(place.path) == before


def test_huge_extents_are_refused(place: pytest.Pytester) -> None:
    text = (place.path / "op.json").read_text()
    shape = re.sub(r'"shape": \[[^]]*\]', '"shape": [1000000000000, 1000000000000]', text)
    assert shape != text
    (place.path / "huge.json").write_text(shape)
    code, output = _run("ascendcache-atc", "--singleop=huge.json", "--output=o", SOC)
    assert code != 0
    assert "which no card's memory holds" in output
    assert not list(place.path.glob("o/*.om"))
