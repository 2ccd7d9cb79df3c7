"""``ascendcache-why`` as a user runs it: in front of the embedded reference, or of a script."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_ascendcache.caches import Snapshot
from pytest_ascendcache.language import texts
from pytest_ascendcache.why.command import main
from pytest_ascendcache.why.request import InputKind

CI = Path(__file__).parents[2] / "ci"
sys.path.insert(0, str(CI))
from why import ATC, OUTSIDERS, PLANTS, SOC, WHY, Site, filled, flipped, planted, site_at  # noqa: E402


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place with operators and a cache that one run has filled."""
    at = tmp_path_factory.mktemp("source") / "place"
    return filled(at)


@pytest.fixture
def site(source: Path, tmp_path: Path) -> Site:
    """A copy of the place. Files left in ``temporary`` are left behind."""
    shutil.copytree(source, tmp_path / "place")
    made = site_at(tmp_path / "place")
    (tmp_path / "temporary").mkdir()
    made.environment |= {"TMPDIR": str(tmp_path / "temporary"), "LC_ALL": "C.UTF-8"}
    return made


@pytest.mark.parametrize(
    "name",
    [
        *("hits", "new-operator", "link", "aged-by-file", "record-package", "pair-implmode-dtype"),
        *("hits-train", "train-damaged", "train-record-phase", "train-fatal"),
        *("hits-package", "package-shape", "package-damaged"),
        *("two-prefixes", "two-programs", "release-implmode"),
        *("o-entry-unreadable", "o-chip-unreadable", "o-one-more-dimension"),
    ],
)
def test_a_planted_cause_is_named_first_and_nothing_else(
    name: str, source: Path, tmp_path: Path
) -> None:
    score = planted(name, source, tmp_path / "place")
    assert (score.is_first, score.wrong, score.missing) == (True, (), ()), score.shown
    assert score.runs <= 12


def test_the_yardstick_has_every_kind_pairs_and_places_where_nothing_is_wrong() -> None:
    planted_kinds = {
        kind for plant in [*PLANTS.values(), *OUTSIDERS.values()] for kind in plant.kinds
    }
    assert {each.value for each in InputKind} - planted_kinds == {"unstable"}
    assert sum(len(each.kinds) == 2 for each in PLANTS.values()) >= 12
    assert sum(each.kinds in ((), ("new",)) for each in PLANTS.values()) >= 10


def test_only_copies_change_and_nothing_is_left(site: Site, tmp_path: Path) -> None:
    flipped("add")(site)
    (site.cache / "kernel_cache/version.info").write_text("adk_version=0\n")
    cache, place = Snapshot.take(site.cache), Snapshot.take(site.at)
    done = site.why()
    assert "1 all: the cache was made by" in done.stdout
    assert "2 add: its entry in the cache is damaged" in " ".join(done.stdout.split())
    assert cache.changes(Snapshot.take(site.cache)) == {}
    assert place.disturbed(Snapshot.take(site.at)) == {}
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_a_report_has_what_the_page_says_in_both_languages(site: Site, tmp_path: Path) -> None:
    site.options["op_debug_level"] = "2"
    done = site.why("--lang=zh", "--report", str(tmp_path / "why.json"))
    found = json.loads((tmp_path / "why.json").read_text())
    (cause,) = found["causes"]
    assert done.returncode == 0
    assert cause["zh"] in done.stdout.replace("\n", "")
    assert cause["en"] == "--op_debug_level=2 turns the cache off."
    assert (found["answer"], found["operators"], found["served"]) == ("explained", 5, 0)
    assert cause["is_proven"]


def test_every_kind_of_cause_has_its_sentence_and_what_to_do() -> None:
    missing = [
        key
        for kind in InputKind
        for key in (f"why_{kind.value}", f"why_do_{kind.value}")
        if key not in texts()
    ]
    assert missing == []


def test_a_record_holds_no_values_of_unknown_variables(site: Site, tmp_path: Path) -> None:
    site.environment |= {"MY_TOKEN": "a-secret-of-mine", "RANK_SIZE": "8"}
    record = tmp_path / "hits.why"
    assert site.why("--record", str(record)).returncode == 0
    assert "a-secret" not in record.read_text()
    assert json.loads(record.read_text())["variables"] == {"RANK_SIZE": "8"}


def test_a_difference_known_by_its_digest_is_told_where_nothing_else_explains(
    site: Site, tmp_path: Path
) -> None:
    site.environment["MY_OWN"] = "there"
    site.why("--record", str(tmp_path / "hits.why"))
    site.environment["MY_OWN"] = "here"
    site.options["op_compiler_cache_mode"] = "disable"
    done = site.why("--against", str(tmp_path / "hits.why"))
    assert "1 all: the cache is off" in done.stdout
    assert "MY_OWN" not in done.stdout
    done = site.why("--against", str(tmp_path / "hits.why"), "--budget=1")
    assert "Not explained" in done.stdout
    assert "which cannot be tried here: MY_OWN" in " ".join(done.stdout.split())


def _script(site: Site, text: str) -> list[str]:
    """The command with a script in the place of atc."""
    path = site.at / "atc.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return [str(path), *site.argv()[1:]]


def _why(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(WHY), *words]
    return subprocess.run(
        command, env=site.environment, cwd=site.at, capture_output=True, text=True
    )


FORGETS = f"""\
for each; do
  case $each in --op_compiler_cache_dir=*) rm -rf ${{each#*=}}/*/{SOC}/*.o;; esac
done
exec {ATC} "$@"
"""
"""A program that removes all objects first, and so never hits."""


def test_of_a_program_that_never_hits_nothing_is_blamed(site: Site) -> None:
    done = _why(site, "--cache", str(site.cache), "--", *_script(site, FORGETS))
    assert done.returncode == 1, done.stdout
    told = " ".join(done.stdout.split())
    assert "Nothing is served even from a cache that this command has just filled" in told
    assert "1 " not in done.stdout.splitlines()[1][:2]


def test_an_entry_that_stays_damaged_is_named(site: Site) -> None:
    words = _script(
        site,
        f"""\
for each; do
  case $each in --op_compiler_cache_dir=*) own=${{each#*=}}/kernel_cache/{SOC} ;; esac
done
half=$(find $own -size -1 -name '*.o')
{ATC} "$@" || exit
for each in $half; do : > $each; done""",
    )
    site.entry("mul").write_bytes(b"")
    done = _why(site, "--cache", str(site.cache), "--", *words)
    assert done.returncode == 0, done.stdout
    assert "1 mul: its entry in the cache is damaged" in " ".join(done.stdout.split())


def test_versions_may_be_in_any_file_beside_the_entries(site: Site) -> None:
    """CANN keeps them in op_cache.ini."""
    words = _script(
        site,
        f"""\
for each; do
  case $each in --op_compiler_cache_dir=*) cache=${{each#*=}}/kernel_cache ;; esac
done
grep -q "ops_version=2" $cache/op_cache.ini || {{
  echo ops_version=2 > $cache/op_cache.ini
  rm -f $cache/{SOC}/*
}}
exec {ATC} "$@\"""",
    )
    (site.cache / "kernel_cache/op_cache.ini").write_text("ops_version=1\n")
    done = _why(site, "--cache", str(site.cache), "--", *words)
    told = " ".join(done.stdout.split())
    assert "1 all: the cache was made by ops_version=1, this run is of ops_version=2" in told


def test_a_record_of_another_command_is_refused(site: Site, tmp_path: Path) -> None:
    site.why("--record", str(tmp_path / "hits.why"))
    done = _why(site, "--against", str(tmp_path / "hits.why"), "--", sys.executable, "train.py")
    assert done.returncode == 2
    assert "is of a command like atc, and this one is like python" in done.stderr


def test_a_script_finds_its_files_and_leaves_its_directory_alone(
    site: Site, tmp_path: Path
) -> None:
    """It imports a module beside it, and writes where it runs."""
    site.file("part.py", "NAME = 'square_1_0'\n")
    site.file(
        "train.py",
        """\
import json, os, pathlib, part
here = pathlib.Path(os.environ["MS_COMPILER_CACHE_PATH"], "rank_0/kernel_meta")
here.mkdir(parents=True, exist_ok=True)
pathlib.Path("said.txt").write_text("done")
for suffix in (".o", ".json", ".info"):
    if not (here / (part.NAME + suffix)).exists():
        (here / (part.NAME + suffix)).write_text("{}")
""",
    )
    before = Snapshot.take(site.at)
    site.environment["MS_COMPILER_CACHE_PATH"] = str(site.at / "ms")
    done = _why(site, "--", sys.executable, "train.py")
    assert "0 of 1 operators served" in done.stdout, done.stderr
    assert before.disturbed(Snapshot.take(site.at)) == {}
    assert [*(tmp_path / "temporary").iterdir()] == []


def test_runs_are_limited(site: Site) -> None:
    site.options["op_debug_level"] = "2"
    done = site.why("--budget=1")
    assert done.returncode == 1
    assert "--budget allows are used up" in done.stdout
    assert "Not explained" in done.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cache=absent", "--", "ATC"], "--cache=absent is not a directory"),
        (["--"], "there is no command; write -- atc"),
        (["--", "atc", "--model=m"], "there is no such file"),
        (["--", "atc", "--singleop"], "has no value"),
        (["--", "atc", "--soc_version=X"], "neither --model nor --singleop"),
        (["--budget=0", "--", "ATC"], "--budget=0"),
        (["--seconds=nan", "--", "ATC"], "--seconds=nan"),
        (["--report=no/such/r.json", "--", "ATC"], "the directory"),
        (["--against=absent", "--", "ATC"], "--against=absent cannot be read"),
        (["--against=old.why", "--", "ATC"], "schema 0"),
        (["--against=typed.why", "--", "ATC"], "is no record; make one with --record"),
        (["--against=ops.json", "--", "ATC"], "is no record; make one with --record"),
        (["--against-directory=absent", "--", "ATC"], "absent is not a directory"),
        (["--against-directory=empty", "--", "ATC"], "is like nothing that the command uses"),
        (["--release=absent", "--", "ATC"], "cannot be read"),
        (["--", "true"], "delivers no kernel and keeps none"),
        (["--", "false"], "exit status 1 and printed nothing"),
        (["--", "ATC", "--soc_version=Ascend0"], "the command fails by itself"),
        (["--", "./ops.json", "--singleop=ops.json"], "is not an executable program"),
    ],
)
def test_bad_input_is_one_sentence(
    site: Site,
    words: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    site.file("old.why", '{"ascendcache-why": 0}')
    site.file("typed.why", '{"ascendcache-why": 1, "cache": "/c", "options": {"a": 3}}')
    (site.at / "empty").mkdir()
    whole = [part for each in words for part in (site.argv() if each == "ATC" else [each])]
    monkeypatch.chdir(site.at)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert main(whole) == 2
    out, error = capfd.readouterr()
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert out == ""


def test_an_interrupt_leaves_nothing(site: Site, tmp_path: Path) -> None:
    """The script says that it has begun on one pipe, and would wait on another for ever."""
    began, never = tmp_path / "began", tmp_path / "never"
    os.mkfifo(began)
    os.mkfifo(never)
    words = _script(site, f"echo $$ > {began}; read line < {never}")
    process = subprocess.Popen(
        [str(WHY), "--cache", str(site.cache), "--", *words],
        env=site.environment,
        cwd=site.at,
        # A shell starts what it runs in the background with SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    script = os.pidfd_open(int(began.read_text()))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert [*(tmp_path / "temporary").iterdir()] == []
    # Readable once it has ended; its new parent may not have reaped it yet.
    assert select.select([script], [], [], 60)[0], "the script is left behind"
    os.close(script)
