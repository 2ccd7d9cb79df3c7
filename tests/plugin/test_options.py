"""The command-line options: refused values, ini keys, and options that imply others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_ascendcache.plugin.options.option import Access
from pytest_ascendcache.plugin.options.table import OPTIONS, REMOVED, ROWS, TABLE
from tests.refusing import refused

VALUED = [option for option in ROWS.values() if option.kind is not None]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory with a user's test and a small cache."""
    pytester.makepyfile(test_mine="def test_mine(): pass")
    entry = pytester.path / "cache/kernel_cache/Ascend910B1" / f"te_exp_{'0' * 64}.json"
    entry.parent.mkdir(parents=True)
    entry.touch()
    return pytester


@pytest.mark.parametrize("option", VALUED, ids=lambda option: option.name)
def test_an_empty_value_of_any_option_is_refused(project: pytest.Pytester, option) -> None:
    for beside in ([], ["--ascend-cache"]):
        error = refused(project, *beside, *option.words(""))
        assert error.startswith(f"{' '.join(option.words())} is empty; give ")


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("--ascend-timeout", ["inf", "nan", "-5", "0", "1e12", "1e400", "٣", "1_0", "0x10", " "]),
        ("--ascend-stress", ["inf", "nan", "-5", "0s", "0m", "1e12", "60", "999999h"]),
        ("--ascend-stress", ["-1steps", "0steps", "1.5steps", "1000000000000steps", "1_0steps"]),
        ("--ascend-nodes", ["1", "17", "-2", "2.5"]),
        ("--ascend-ranks", ["inf", "-1", "0", "1000000000000", "٣", "1_0", "0x10", "2.0"]),
        ("ascend_torchair_cards", ["1", "1000000000000", "two"]),
        ("--ascend-select", ["", "everything", "10", "19runs", "0m", "-5m", "1.5h", "٣m"]),
        ("--ascend-seed", ["inf", "-1", "1.5", "99999999999999999999", "٣", "1_0", "x"]),
        ("ascend_start", ["thread"]),
        ("--ascend-toolchain", ["reference:/x", ":x", "atc:", "op-compiler: "]),
        ("--ascend-soc", ["Ascend 910", "../x"]),
    ],
)
def test_numbers_and_words_are_checked(
    project: pytest.Pytester, name: str, texts: list[str]
) -> None:
    for text in texts:
        option = ROWS[name]
        error = refused(project, "--ascend-cache", *option.words(text))
        assert error.startswith(" ".join(option.words()))
        assert option.kind is not None
        assert option.kind.expected in error
        assert text in error


WRITERS = [option.name for option in ROWS.values() if option.access.writes]


@pytest.mark.parametrize("name", WRITERS)
def test_what_an_option_writes_is_no_others(project: pytest.Pytester, name: str) -> None:
    arguments = ["--ascend-cache", "--ascend-audit=cache", *ROWS[name].words("./x")]
    other = "--ascend-report" if name != "--ascend-report" else "--ascend-html"
    for second in (f"{other}=x", "--junitxml=x"):
        assert refused(project, *arguments, second).endswith("are one file; name two.")
    (project.path / "link").symlink_to("x")
    assert "are one file" in refused(project, *arguments, f"{other}=link")


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_is_written_into_an_audited_directory(project: pytest.Pytester, name: str) -> None:
    option = ROWS[name]
    words = option.words("cache/x")
    error = refused(project, "--ascend-cache", "--ascend-audit=cache", *words)
    assert error.startswith(" ".join(option.words()))
    assert "which is audited and not written to" in error


@pytest.mark.parametrize(
    "name", [option.name for option in ROWS.values() if option.access is Access.READS]
)
def test_what_an_option_reads_is_not_replaced(project: pytest.Pytester, name: str) -> None:
    project.makefile(".toml", given="soc = 'Ascend910B1'\n")
    (project.path / "given").write_text("")
    path = "given.toml" if name == "--ascend-release" else "given"
    path = f"./{path}"
    words = ROWS[name].words(path)
    error = refused(project, "--ascend-audit=cache", *words, f"--ascend-report={path}")
    assert "would replace the file that" in error or "--ascend-stress: " in error


def test_what_a_toolchain_is_made_of_is_not_replaced(project: pytest.Pytester) -> None:
    error = refused(project, "--ascend-toolchain=torchair:./x", "--ascend-report=x")
    assert "would replace the file that --ascend-toolchain=torchair:/" in error


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_name_says_what_to_write_instead(project: pytest.Pytester, name: str) -> None:
    assert name not in OPTIONS
    new = REMOVED[name]
    assert refused(project, f"{name}=77") == f"{name} is now {new.format(77)}."
    assert refused(project, name) == f"{name} is now {new.format('VALUE')}."
    key = name.lstrip("-").replace("-", "_")
    if key not in ROWS:
        project.makeini(f"[pytest]\n{key} = 77\n")
        assert refused(project).endswith(f"tox.ini: {name} is now {new.format('VALUE')}.")
    first = new.format("x").removeprefix("-o ").partition("=")[0]
    assert first in ROWS or first.startswith("ascendcache-")


@pytest.mark.parametrize("beside", [[], ["--ascend-cache"], ["test_mine.py"]])
def test_a_key_that_nobody_reads_is_an_error(project: pytest.Pytester, beside: list[str]) -> None:
    meant = "no such setting; did you mean 'ascend_deviations'?"
    assert (
        refused(project, *beside, "-o", "ascend_deviation=cann") == f"-o ascend_deviation: {meant}"
    )
    for file, section in (("tox.ini", "pytest"), ("pyproject.toml", "tool.pytest.ini_options")):
        (project.path / file).write_text(f"[{section}]\nascend_deviation = 'cann'\n")
        assert refused(project, *beside) == f"ascend_deviation in {project.path}/{file}: {meant}"
        (project.path / file).unlink()


def test_reading_the_settings_writes_nothing(project: pytest.Pytester) -> None:
    """xdist's workers judge by what the controller has settled, also by a seed that it drew."""
    project.makeini("[pytest]\nascend_timeout = 77\nascend_start = process\n")
    project.makeconftest(
        "import copy, pathlib\n"
        "from pytest_ascendcache.plugin.options.settings import read_settings\n"
        "from pytest_ascendcache.plugin.stash import settings_of\n"
        "def pytest_sessionfinish(session):\n"
        "    config = session.config\n"
        "    before = copy.deepcopy(vars(config.option))\n"
        "    read_settings(config)\n"
        "    assert vars(config.option) == before\n"
        "    name = getattr(config, 'workerinput', {}).get('workerid', 'controller')\n"
        "    pathlib.Path(name).write_text(' '.join(settings_of(config).arguments))\n"
    )
    options = ("--ascend-stress=20steps", "-k", "nothing")
    project.runpytest_subprocess("-n", "1", *options)
    given = (project.path / "gw0").read_text()
    assert given == (project.path / "controller").read_text()
    assert "--ascend-seed=" in given
    assert given.endswith("--ascend-stress=20steps -o ascend_start=process")
    project.runpytest_subprocess(*options)
    assert (project.path / "controller").read_text() != given


@pytest.mark.parametrize("name", [*WRITERS, "--ascend-baseline"])
def test_an_option_about_verdicts_needs_verdicts(project: pytest.Pytester, name: str) -> None:
    words = ROWS[name].words("x.json")
    error = refused(project, *words, "test_mine.py")
    assert error.startswith(" ".join(words)[:10])
    assert "add --ascend-" in error or "give --ascend-" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--ascend-defect=nosuch"],
        ["--ascend-toolchain=nosuch"],
        ["--ascend-atc=/no/such/atc"],
        ["--ascend-toolchain=op-compiler:/no/such/op_compiler"],
    ],
)
def test_a_toolchain_that_does_not_exist_is_an_error_beside_ones_own_tests_too(
    project: pytest.Pytester, arguments: list[str]
) -> None:
    value = arguments[0].partition("=")[2]
    assert value in refused(project, *arguments, "test_mine.py")
    assert value in refused(project, *arguments)


def collected(pytester: pytest.Pytester, *arguments: str) -> set[str]:
    """Return the first part of each collected path: ``test_mine.py``, ``pytest_ascendcache``."""
    result = pytester.runpytest_subprocess("--collect-only", "-q", *arguments)
    assert result.ret == 0, result.stdout.str() + result.stderr.str()
    return {line.partition("/")[0].partition("::")[0] for line in result.outlines if "::" in line}


@pytest.mark.parametrize(
    "option",
    ["--ascend-toolchain=reference", "--ascend-defect=never-hits", "--ascend-select=whole"],
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
    options = ("-s", "--collect-only", "--ascend-strict", "-o", "ascend_start=process")
    words = f"--ascend-strict --ascend-deviations={project.path}/known.toml --ascend-timeout=77"
    result = project.runpytest_subprocess(*options)
    result.stdout.fnmatch_lines([f"repeat {words} -o ascend_start=process"])


def test_help_has_the_options_in_groups(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--help")
    text = result.stdout.str()
    assert text.count("Ascend operator compile caches: ") == len(TABLE)
    assert [name for name in ROWS if name not in text] == []
    assert "ascend_toolchain" in text
    assert [name for name in REMOVED if f"{name} " in text or f"{name}=" in text] == []
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("Ascend operator"))
    last = max(n for n, line in enumerate(lines) if "--ascend-" in line and line.startswith("  --"))
    assert len(OPTIONS) <= 28
    assert last - first <= 66  # two screens of a terminal of usual height


def test_the_page_of_options_is_made_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs/options.md"
    text = page.read_text(encoding="utf-8")
    cells = [option.usage.replace("|", "\\|") for option in ROWS.values()]
    assert [each for each in cells if f"`{each}`" not in text] == []
