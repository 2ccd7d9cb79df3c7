"""The command-line options: refused values, ini keys, and options that imply others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.option import Access
from pytest_ascendcache.plugin.options.table import OPTIONS, TABLE

VALUED = [option for option in OPTIONS.values() if option.kind is not None]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory with a user's test and a small cache."""
    pytester.makepyfile(test_mine="def test_mine(): pass")
    entry = pytester.path / "cache/kernel_cache/Ascend910B1" / f"te_exp_{'0' * 64}.json"
    entry.parent.mkdir(parents=True)
    entry.touch()
    return pytester


def left(pytester: pytest.Pytester) -> list[str]:
    """Return the files in the directory, except those of pytester."""
    pytesters = ("stdout", "stderr", "runpytest-")
    return sorted(
        each.relative_to(pytester.path).as_posix()
        for each in pytester.path.rglob("*")
        if not each.relative_to(pytester.path).as_posix().startswith(pytesters)
    )


def refused(pytester: pytest.Pytester, *arguments: str) -> str:
    """Run pytest. Return the one sentence of its usage error, and check that it left no files."""
    before = left(pytester)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, result.stdout.str()
    assert left(pytester) == before
    text = result.stderr.str() + result.stdout.str()
    assert not [each for each in ("Traceback", "INTERNALERROR", "passed") if each in text]
    (line,) = [line for line in result.errlines if line]
    assert line.startswith("ERROR: ")
    assert line.endswith((".", "?", ")"))
    assert len(line) < 600
    return line.removeprefix("ERROR: ")


@pytest.mark.parametrize("option", VALUED, ids=lambda option: option.name)
def test_an_empty_value_of_any_option_is_refused(project: pytest.Pytester, option) -> None:
    for beside in ([], ["--ascend-cache"]):
        error = refused(project, *beside, f"{option.name}=")
        assert error.startswith(f"{option.name} is empty; give ")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("--ascend-timeout", ["inf", "nan", "-5", "0", "1e12", "x", " "]),
        ("--ascend-stress", ["inf", "nan", "-5", "0", "1e12"]),
        ("--ascend-stress-steps", ["-1", "0", "1.5", "1000000000000", "1_0"]),
        ("--ascend-stress-seed", ["-1", "99999999999999999999", "x"]),
        ("--ascend-ranks", ["-1", "0", "1000000000000", "٣", "2.0"]),
        ("--ascend-torchair-cards", ["1", "1000000000000", "two"]),
        ("--ascend-matrix", ["", "everything"]),
        ("--ascend-seed", ["-1", "1.5", "10000000000", "x"]),
        ("--ascend-start", ["thread"]),
        ("--ascend-soc", ["Ascend 910", "../x"]),
    ],
)
def test_numbers_and_words_are_checked(
    project: pytest.Pytester, name: str, texts: list[str]
) -> None:
    for text in texts:
        assert refused(project, "--ascend-cache", f"{name}={text}").startswith(name)


WRITERS = [option.name for option in OPTIONS.values() if option.access.writes]


@pytest.mark.parametrize("name", WRITERS)
def test_what_an_option_writes_is_no_others(project: pytest.Pytester, name: str) -> None:
    arguments = ["--ascend-cache", "--ascend-audit=cache", "--ascend-stress=1", f"{name}=./x"]
    other = "--ascend-report" if name != "--ascend-report" else "--ascend-html"
    for second in (f"{other}=x", "--junitxml=x"):
        assert refused(project, *arguments, second).endswith("are one file; name two.")
    (project.path / "link").symlink_to("x")
    assert "are one file" in refused(project, *arguments, f"{other}=link")


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_into_an_audited_directory(project: pytest.Pytester, name: str) -> None:
    arguments = ["--ascend-cache", "--ascend-audit=cache", "--ascend-stress=1"]
    error = refused(project, *arguments, f"{name}=cache/x")
    assert error.startswith(name)
    assert "which is audited and not written to" in error


@pytest.mark.parametrize(
    "name", [option.name for option in OPTIONS.values() if option.access is Access.READS]
)
def test_what_an_option_reads_is_not_replaced(project: pytest.Pytester, name: str) -> None:
    project.makefile(".toml", given="soc = 'Ascend910B1'\n")
    (project.path / "given").write_text("")
    path = "given.toml" if name == "--ascend-release" else "given"
    arguments = ["--ascend-audit=cache", f"{name}={path}", f"--ascend-report={path}"]
    if name.startswith("--ascend-mindspore"):
        arguments.append("--ascend-toolchain=mindspore-operator-cache")
    error = refused(project, *arguments)
    assert "would replace the file that" in error or "--ascend-stress-replay" in error


@pytest.mark.parametrize("name", [*WRITERS, "--ascend-baseline"])
def test_an_option_about_verdicts_needs_verdicts(project: pytest.Pytester, name: str) -> None:
    error = refused(project, f"{name}=x.json", "test_mine.py")
    assert error.startswith(name)
    assert "add --ascend-" in error or "give --ascend-" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ascend-defect=nosuch"],
        ["--ascend-profile=nosuch"],
        ["--ascend-toolchain=nosuch"],
        ["--ascend-atc=/no/such/atc"],
        ["--ascend-op-compiler=/no/such/op_compiler"],
    ],
)
def test_a_toolchain_that_does_not_exist_is_an_error_beside_ones_own_tests_too(
    project: pytest.Pytester, arguments: list[str]
) -> None:
    assert arguments[0].partition("=")[2] in refused(project, *arguments, "test_mine.py")
    assert arguments[0].partition("=")[2] in refused(project, *arguments)


def collected(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    """Return the first part of each collected path: ``test_mine.py``, ``pytest_ascendcache``."""
    result = pytester.runpytest_subprocess("--collect-only", "-q", *arguments)
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    return {line.partition("/")[0].partition("::")[0] for line in result.outlines if "::" in line}


@pytest.mark.parametrize(
    "option",
    ["--ascend-toolchain=reference", "--ascend-defect=never-hits", "--ascend-matrix=pairwise"],
)
def test_an_option_of_the_suite_asks_for_the_suite(project: pytest.Pytester, option: str) -> None:
    assert collected(project, option) == {"pytest_ascendcache"}
    assert collected(project, option, "test_mine.py") == {"test_mine.py"}


def test_a_projects_options_do_not_ask_for_the_suite(project: pytest.Pytester) -> None:
    project.makeini(
        "[pytest]\naddopts = --ascend-toolchain=reference\n"
        "ascend_toolchain = reference\nascend_timeout = 60\nascend_strict = true\n"
    )
    assert collected(project) == {"test_mine.py"}


def test_a_project_fixes_options_in_its_ini_file(project: pytest.Pytester) -> None:
    (project.path / "tools").mkdir()
    project.makepyprojecttoml(
        "[tool.pytest.ini_options]\n"
        'ascend_atc = "tools/no-atc"\nascend_deviations = ["cann"]\nascend_ranks = "3"\n'
    )
    program = project.path / "tools/no-atc"
    wanted = f"--ascend-atc={program}: '{program}' is not an executable program"
    assert refused(project, "--ascend-cache").startswith(wanted)
    os.chdir(project.path / "tools")
    assert refused(project, "--ascend-cache").startswith(wanted)
    os.chdir(project.path)
    # The command line takes precedence, even if it names the toolchain with another option.
    assert collected(project, "--ascend-toolchain=reference") == {"pytest_ascendcache"}


@pytest.mark.parametrize("key", [option.key for option in VALUED if option.ini])
def test_an_empty_ini_key_is_refused(project: pytest.Pytester, key: str) -> None:
    project.makeini(f"[pytest]\n{key} =\n")
    assert refused(project).startswith(f"{key} in {project.path}/tox.ini is empty; give ")


def test_a_repeat_line_has_what_the_ini_file_says(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nascend_timeout = 77\nascend_deviations = known.toml\n")
    (project.path / "known.toml").write_text("")
    project.makeconftest(
        "from pytest_ascendcache.plugin.stash import settings_of\n"
        "def pytest_collection_finish(session):\n"
        "    print('repeat', *settings_of(session.config).arguments)\n"
    )
    options = ("-s", "--collect-only", "--ascend-strict", "--ascend-start=process")
    words = f"--ascend-start=process --ascend-strict --ascend-deviations={project.path}/known.toml"
    result = project.runpytest_subprocess(*options)
    result.stdout.fnmatch_lines([f"repeat --ascend-cache {words} --ascend-timeout=77"])


def test_help_has_the_options_in_groups(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--help")
    text = result.stdout.str()
    assert text.count("Ascend operator compile caches: ") == len(TABLE)
    assert [name for name in OPTIONS if name not in text] == []
    assert "ascend_toolchain" in text


def test_the_page_of_options_is_made_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs/options.md"
    text = page.read_text(encoding="utf-8")
    assert [option.usage for option in OPTIONS.values() if f"`{option.usage}`" not in text] == []
