"""The release gate on a model: the shipped example, its wrong variants, and commands that fail."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "fixtures/release-model"
INIT = Path(sys.executable).with_name("ascendcache-release-init")
MODEL_RULES = {
    *("release/model-cached-is-fresh", "release/model-cards-agree", "release/model-manifest"),
    *("release/model-reproducible", "release/outputs-unchanged", "release/outputs-near"),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """The example with the caches of its cards."""
    directory = tmp_path_factory.mktemp("example") / "bert"
    shutil.copytree(EXAMPLE, directory)
    _prepare(directory)
    return directory


@pytest.fixture
def example(prepared: Path, pytester: pytest.Pytester) -> Path:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    return Path(shutil.copytree(prepared, pytester.path / "bert"))


def _prepare(directory: Path, *variant: str) -> None:
    argv = [sys.executable, "prepare.py", *variant]
    subprocess.run(argv, cwd=directory, check=True, capture_output=True)


def _judge(pytester, directory: Path, *arguments: str):
    release = directory / "release.toml"
    result = pytester.runpytest_subprocess(
        f"--ascend-release={release}", "--ascend-report=report.json", *arguments
    )
    report = json.loads((pytester.path / "report.json").read_text())
    return result, {rule["id"]: rule["verdict"] for rule in report["rules"]}


def test_the_example_passes_and_its_wrong_variants_fail(pytester, example) -> None:
    manifest = "--ascend-rule=release/model-manifest"
    _judge(pytester, example, "--ascend-manifest-update", manifest)
    assert len(json.loads((example / "kernels.json").read_text())["model"]) == 19
    result, verdicts = _judge(pytester, example)
    assert result.ret == 0
    assert {verdicts[rule] for rule in MODEL_RULES} == {"pass"}
    result.stdout.fnmatch_lines(
        [
            "*bert-small, new cache: 19 of 19 kernels served",
            "*bert-small, a conversion from */cards/1: 19 of 19 kernels served",
            "*bert-small: 2 of 2 cards converted at once",
            "Release bert-small keeps all * rules that were judged; compiled with the embedded*",
        ]
    )
    for variant, broken in (
        ("other-golden", {"release/model-manifest"}),
        ("swapped-kernel", {"release/model-cached-is-fresh", "release/outputs-unchanged"}),
    ):
        wrong = shutil.copytree(example, pytester.path / variant)
        _prepare(wrong, variant)
        rules = [f"--ascend-rule={each}" for each in sorted(broken)]
        result, verdicts = _judge(pytester, wrong, *rules)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert verdicts == dict.fromkeys(broken, "fail")
    # The entry that was swapped is named, and what is in its place.
    result.stdout.fnmatch_lines(
        ["why *cards/1 has te_softmaxv2_*from the entry te_fused_op_add_layernorm_*too many*"]
    )


def test_init_writes_a_release_whose_command_judges_it(pytester, example) -> None:
    (example / "release.toml").unlink()
    pytester.run("cp", "-r", *map(str, example.iterdir()), str(pytester.path))
    command = [
        *("ascendcache-atc", "--model=model.onnx", "--framework=5", "--output=bert"),
        *("--soc_version=Ascend910B1", "--op_compiler_cache_mode=force"),
        *("--input_shape=input_ids:1,8;attention_mask:1,8", "--op_precision_mode=model.ini"),
    ]
    written = pytester.run(INIT, "--", *command)
    assert written.ret == 0
    judging = shlex.split(written.outlines[-1])
    assert judging[-1] == "--ascend-release=release.toml"
    result = pytester.run(*judging, "--ascend-report=report.json")
    report = json.loads((pytester.path / "report.json").read_text())
    verdicts = {rule["id"]: rule["verdict"] for rule in report["rules"]}
    assert result.ret == 0
    assert verdicts["release/model-cached-is-fresh"] == "pass"
    assert verdicts["release/outputs-unchanged"] == "pass"
    assert verdicts["release/outputs-near"] == "pass"
    assert verdicts["release/model-manifest"] == "not applicable"


_ATC = """#!{python}
import os, pathlib, sys, time
from pytest_ascendcache.reference.atc import run
options = dict(each[2:].partition("=")[::2] for each in sys.argv[1:])
if "model" in options:
    output = pathlib.Path(options["output"] + ".om")
    {wrong}
    print("ATC run success, welcome to the next use.")
    sys.exit(0)
sys.exit(run(sys.argv[1:], os.environ))
"""


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("pass", "reported success but left no */out/model.om"),
        ("pathlib.Path('mine.om').write_bytes(b'x')", "wrote */work/mine.om instead of *"),
        ("output.write_bytes(b'no kernels')", "carries no ELF object"),
        ("output.write_bytes(b'')", "carries no ELF object"),
        ("input()", "ended with exit status 1"),
        ("time.sleep(600)", "did not end within 5 s and was killed"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ],
)
def test_a_command_that_makes_no_model_decides_nothing(pytester, example, wrong, said) -> None:
    program = example / "atc"
    program.write_text(_ATC.format(python=sys.executable, wrong=wrong))
    program.chmod(0o755)
    release = example / "release.toml"
    release.write_text(release.read_text().replace('"reference"', '"./atc"'))
    rule = "--ascend-rule=release/model-cached-is-fresh"
    result, verdicts = _judge(pytester, example, rule, "--ascend-timeout=5", "-k", "new_cache")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts["release/model-cached-is-fresh"] == "undecided"
    result.stdout.fnmatch_lines([f"why *{said}*"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('inputs = "nowhere.npz"', "*'inputs': there is no file *nowhere.npz*"),
        ("inputs = [1]", "*'inputs' is [[]1]; write a path*"),
        ("tolerance = 2", "*'tolerance' is 2; write a share*"),
        ("tolerance = true", "*'tolerance' is True*"),
    ],
)
def test_bad_keys_are_one_sentence(pytester, example, line, said) -> None:
    release = example / "release.toml"
    text = release.read_text()
    release.write_text(text.replace("tolerance = 0.02", line))
    result = pytester.runpytest_subprocess(f"--ascend-release={release}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])


def test_samples_that_do_not_fit_decide_nothing(pytester, example) -> None:
    import numpy

    numpy.savez(example / "samples.npz", input_ids=numpy.zeros((1, 8), numpy.int64))
    release = example / "release.toml"
    release.write_text('inputs = "samples.npz"\n' + release.read_text())
    result, verdicts = _judge(pytester, example, "--ascend-rule=release/outputs-unchanged")
    assert verdicts["release/outputs-unchanged"] == "undecided"
    result.stdout.fnmatch_lines(["why *a fresh model cannot be run*attention_mask* is missing*"])


def test_a_cache_that_changes_while_it_is_copied_decides_nothing(pytester, example) -> None:
    pytester.makeconftest(
        """
        from pytest_ascendcache.conformance.kit import release_conversions

        copy = release_conversions.copy_cache

        def copied(release, cache, root):
            (cache / "kernel_cache/Ascend910B1/te_new.o").touch()
            return copy(release, cache, root)

        release_conversions.copy_cache = copied
        """
    )
    rule = "--ascend-rule=release/model-cached-is-fresh"
    result, verdicts = _judge(pytester, example, rule, "-k", "caches_of_the_release")
    assert verdicts["release/model-cached-is-fresh"] == "undecided"
    result.stdout.fnmatch_lines(["why */cards/0 changed while it was copied (*te_new.o); nothing*"])


def test_outputs_that_depend_on_nothing_decide_nothing(pytester, example) -> None:
    pytester.makeconftest(
        """
        import numpy
        from pytest_ascendcache.toolchains import atc

        atc.run_model = lambda *_: {"hidden": numpy.ones(3)}
        """
    )
    result, verdicts = _judge(pytester, example, "--ascend-rule=release/outputs-unchanged")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts["release/outputs-unchanged"] == "undecided"
    result.stdout.fnmatch_lines(["why *gives the same outputs whatever its inputs are*"])


def test_a_toolchain_that_converts_nothing_decides_nothing(pytester, example) -> None:
    pytester.makeconftest(
        """
        from pytest_ascendcache.toolchains.atc import AtcToolchain

        del AtcToolchain.convert_together
        """
    )
    result, verdicts = _judge(pytester, example, "--ascend-rule=release/model-cached-is-fresh")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts["release/model-cached-is-fresh"] == "undecided"
    result.stdout.fnmatch_lines(["why *converts no models*"])
