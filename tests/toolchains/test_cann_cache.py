"""Building a checkout of CANN's sources, with a small layer written for this project."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_ascendcache.toolchains.cann_cache.build import Builder, Toolkit
from pytest_ascendcache.toolchains.cann_cache.checkout import Checkout
from pytest_ascendcache.toolchains.cann_cache.plan import NATIVE, BuildPlan, SourceError

_LAYER = Path(__file__).with_name("cann_layer")
_SOURCE = Path("compiler/opcompiler/op_compile_adapter/source")


@dataclass
class Site:
    """A checkout of sources, stand-ins for programs, and a store of builds."""

    root: Path
    store: Path
    messages: list[str] = field(default_factory=list)

    @property
    def checkout(self) -> Path:
        return self.root / "checkout"

    @property
    def plan(self) -> BuildPlan:
        return BuildPlan.load(self.root / "native")

    def file(self, name: str) -> Path:
        return self.checkout / _SOURCE / name

    def build(self) -> Toolkit:
        return Builder(self.store, jobs=2, say=self.messages.append, plan=self.plan).build(
            self.checkout
        )

    def objects(self) -> set[str]:
        return {each.name for each in (self.store / "objects").glob("*.o")}


def _site(root: Path, store: Path) -> Site:
    shutil.copytree(_LAYER / "checkout", root / "checkout")
    shutil.copytree(NATIVE / "command", root / "native/command")
    shutil.copy(_LAYER / "plan.toml", root / "native/plan.toml")
    return Site(root, store)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A store of objects that all tests share, so that each object is compiled once.

    It starts with the objects of the unchanged layer, which one worker compiles for all and for
    later test runs: an object is found by the text it is compiled from.
    """
    session = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent
    cache = getattr(pytestconfig, "cache", None)
    first = cache.mkdir("cann-layer") if cache is not None else session / "cann-layer"
    kept = tmp_path_factory.mktemp("store")
    with contextlib.suppress(SourceError):  # each test reports what is missing
        _site(tmp_path_factory.mktemp("first"), first).build()
        (kept / "objects").mkdir()
        for each in (first / "objects").glob("*.o"):
            shutil.copy(each, kept / "objects")
        for each in (first / "objects").glob("*.json"):  # their directory is never used again
            each.unlink(missing_ok=True)
    return kept


@pytest.fixture
def site(store: Path) -> Site:
    """A site in one directory, which each test restores, so that files need not be read again."""
    root = store.with_name("site")
    shutil.rmtree(root, ignore_errors=True)
    made = _site(root, store)
    try:
        made.build()
    except SourceError as error:
        if "install" in str(error):
            pytest.skip(f"the small layer cannot be compiled here: {error}")
        raise
    made.messages.clear()
    return made


def test_an_unchanged_checkout_is_not_built_again(site: Site) -> None:
    before = site.objects()
    site.build()
    assert site.messages == []
    assert site.objects() == before


def test_a_changed_source_compiles_what_includes_it_alone(site: Site) -> None:
    before = site.objects()
    header = site.file("settings.h")
    header.write_text(header.read_text().replace("SERVES = true", "SERVES = !true"))
    first = site.build()
    assert len(site.objects() - before) == 1, "settings.cc alone includes settings.h"
    header.write_text(header.read_text().replace("SERVES = !true", "SERVES = true"))
    assert site.build() != first


def _preprocessed(site: Site, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Build the site. Return the names of the sources that the compiler preprocesses."""
    log, program = site.root / "commands", site.root / "compiler"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec g++ "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    site.build()
    words = [line.split() for line in log.read_text().splitlines()]
    return {Path(each[each.index("-E") + 1]).name for each in words if "-MD" in each}


def test_a_changed_source_is_all_that_is_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = site.file("frontend.cc")
    source.write_text(source.read_text() + "\n// once\n")
    site.build()
    source.write_text(source.read_text() + "\n// twice\n")
    assert _preprocessed(site, monkeypatch) == {"frontend.cc"}


def test_a_name_that_comes_to_stand_before_another_is_looked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler finds the new header before the one that it read in the last build."""
    site.file("nlohmann").mkdir()
    shadow = "#pragma once\n#include_next <nlohmann/json.hpp>\n// shadow\n"
    site.file("nlohmann/json.hpp").write_text(shadow)
    assert {"layer.cc", "frontend.cc"} <= _preprocessed(site, monkeypatch)


@pytest.mark.parametrize(
    ("name", "text", "release"),
    [
        ("version.cmake", 'set_cann_package(ge-compiler VERSION "9.2.0")\n', "9.2.0"),
        ("version.cmake", 'set_package(ge-compiler VERSION "9.0.0")\n', "9.0.0"),
        ("version.info", "Version=8.5.0-beta.1\nversion_dir=cann\n", "8.5.0-beta.1"),
        ("version.info", "Version=unknown\n", ""),
        ("README.md", "CANN 9.1.0\n", ""),
    ],
)
def test_files_without_a_tag_say_their_release(
    site: Site, name: str, text: str, release: str
) -> None:
    """The release determines the edition of the documents."""
    (site.checkout / name).write_text(text)
    assert Checkout.open(site.checkout, site.plan).release == release


def test_a_tag_says_the_release_and_an_older_one_where_no_file_does(site: Site) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *who, *words], cwd=site.checkout, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "one")
    git("tag", "v8.5.0")
    (site.checkout / "version.info").write_text("Version=8.5.0-beta.1\n")
    assert Checkout.open(site.checkout, site.plan).release == "v8.5.0"
    git("add", ".")
    git("commit", "-m", "two")
    assert Checkout.open(site.checkout, site.plan).release == "8.5.0-beta.1"
    (site.checkout / "version.info").unlink()
    assert Checkout.open(site.checkout, site.plan).release == "v8.5.0"


@pytest.mark.parametrize("name", ["layer.cc", "frontend.cc"])
def test_a_partial_checkout_is_refused_by_file(site: Site, name: str) -> None:
    site.file(name).unlink()
    with pytest.raises(SourceError, match=rf"does not fit: .*/{name} is missing"):
        site.build()


def test_a_compile_error_is_named_by_file_and_line(site: Site) -> None:
    source = site.file("frontend.cc")
    source.write_text(source.read_text() + "\nint broken() { return nothing; }\n")
    before = site.objects()
    with pytest.raises(SourceError, match=r"frontend\.cc:\d+:\d+: error: .nothing."):
        site.build()
    assert site.objects() == before


def test_a_symbol_that_is_missing_is_named(site: Site) -> None:
    source = site.file("frontend.cc")
    source.write_text(
        '#include "boundary.h"\nstruct FrontEnd::Parsers {};\n'
        "bool elsewhere();\n"
        "bool FrontEnd::read(const Options &, const std::string &) { return elsewhere(); }\n"
        "void FrontEnd::apply(Operator &) const {}\n"
        'std::string FrontEnd::debug_config() const { return ""; }\n'
    )
    toolkits = set((site.store / "toolkits").iterdir())
    with pytest.raises(SourceError, match=r"the symbol elsewhere\(\) is defined nowhere"):
        site.build()
    assert set((site.store / "toolkits").iterdir()) == toolkits


def test_what_a_killed_build_left_is_removed(site: Site) -> None:
    left = site.store / "toolkits/making-killed"
    left.mkdir()
    half = site.store / "objects/half.tmp"
    half.write_text("half")
    site.file("settings.h").write_text("#pragma once\nconstexpr bool SERVES = 1;\n")
    site.build()
    assert not left.exists()
    assert not half.exists()


def test_a_second_build_waits_for_the_first(site: Site) -> None:
    site.file("settings.h").write_text("#pragma once\nconstexpr bool SERVES = 2 > 1;\n")
    with (site.store / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def release(text: str) -> None:
            site.messages.append(text)
            if "waiting" in text:
                fcntl.flock(lock, fcntl.LOCK_UN)

        Builder(site.store, say=release, plan=site.plan).build(site.checkout)
    assert site.messages[0] == "another build is at work; waiting for it"


def test_a_checkout_that_may_only_be_read_is_built(site: Site) -> None:
    site.file("settings.h").write_text("#pragma once\nconstexpr bool SERVES = 3 > 1;\n")
    before = {each: each.stat().st_mtime_ns for each in site.checkout.rglob("*")}
    for each in before:
        each.chmod(0o555 if each.is_dir() else 0o444)
    try:
        site.build()
        assert {each: each.stat().st_mtime_ns for each in site.checkout.rglob("*")} == before
    finally:
        for each in before:
            each.chmod(0o755)


def test_without_a_compiler_it_says_what_to_install(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(SourceError, match=r"no C.. compiler; install g"):
        site.build()


def test_missing_headers_are_named_together(site: Site) -> None:
    plan = site.root / "native/plan.toml"
    lacking = '[needs]\n"no/such.h" = "libno-dev"\n"nor/this.h" = "libnor-dev"\n'
    plan.write_text(plan.read_text().replace("[needs]\n", lacking))
    with pytest.raises(SourceError, match=r"no/such.h, nor/this.h; .*libno-dev libnor-dev"):
        site.build()


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("missing", "is not a directory"),
        ("native", "is not a checkout of CANN's public repository ge"),
    ],
)
def test_what_is_no_checkout_is_refused(site: Site, place: str, says: str) -> None:
    with pytest.raises(SourceError, match=says):
        Builder(site.store, plan=site.plan).build(site.root / place)


_STORIES = "pytest_ascendcache.conformance.cache_mode.test_cache_mode::test_enable_"


@pytest.mark.parametrize(
    "checks",
    [
        ("stores_a_valid_entry[add]", "reuses[add]"),
        pytest.param(
            ("stores_a_valid_entry", "reuses"),
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["one", "all"],
)
@pytest.mark.parametrize(("serves", "code"), [("true", 0), ("false", 1)])
def test_the_suite_judges_what_was_built(
    site: Site,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    serves: str,
    code: int,
    checks: tuple[str, ...],
) -> None:
    """A correct layer passes; the same layer with one changed constant does not."""
    site.file("settings.h").write_text(f"#pragma once\nconstexpr bool SERVES = {serves};\n")
    toolkit = site.build()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(toolkit.root / "opp"))
    options = ("--ascend-cache", f"--ascend-atc={toolkit.atc}", "-q", "-p", "no:cacheprovider")
    nodes = [f"{_STORIES}{each}" for each in checks]
    assert pytester.runpytest_subprocess(*options, "--pyargs", *nodes).ret == code
