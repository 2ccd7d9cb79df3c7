"""The release gate on a model: the shipped example, wrong variants of it, and failing commands."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest

from pytest_ascendcache.contract import load_rules
from tests.warm_pytest import WarmPytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "fixtures/release"
PAGE = ROOT / "docs/release-variants.md"
INIT = Path(sys.executable).with_name("ascendcache-release-init")
VARIANTS: dict[str, Any] = runpy.run_path(str(EXAMPLE / "prepare.py"))["VARIANTS"]
GATE = {
    rule.id
    for rule in load_rules().values()
    if rule.id.startswith("release/") or rule.id == "cache-mode/release-setting"
}
UNDECIDED = "half-a-model"
_PATIENCE = 600.0


@dataclass(frozen=True)
class Judged:
    """A run of the gate: its exit status, its output, and its JSON report."""

    code: int
    output: str
    report: dict[str, Any]

    def verdicts(self, release: str) -> dict[str, set[str]]:
        """Return the verdicts of one release's checks, by rule."""
        found: dict[str, set[str]] = {}
        for check in self.report["checks"]:
            if check["check"].endswith(f"[{release}]"):
                found.setdefault(check["rule"], set()).add(check["verdict"])
        return found


def _prepare(directory: Path, *variants: str) -> None:
    argv = [sys.executable, "prepare.py", *variants]
    subprocess.run(argv, cwd=directory, check=True, capture_output=True)


def _gate(warm: WarmPytest, directory: Path, *words: str) -> Judged:
    """Run the gate in a directory without a pytest configuration."""
    output, report = directory / "stdout", directory / "report.json"
    options = ("-p", "no:cacheprovider", *words, f"--ascend-report={report}")
    code = warm.run(options, directory, output, directory / "stderr", _PATIENCE)
    document = json.loads(report.read_text()) if report.exists() else {}
    return Judged(code, output.read_text(), document)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, with the caches of its cards already filled."""
    directory = tmp_path_factory.mktemp("example") / "bert"
    shutil.copytree(EXAMPLE, directory)
    (directory / "pytest.ini").touch()
    _prepare(directory)
    return directory


@pytest.fixture
def example(prepared: Path, pytester: pytest.Pytester) -> Path:
    """A copy of the prepared example, without changes."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    for name in ("cards", *(each.name for each in EXAMPLE.iterdir())):
        pytester.run("cp", "-rp", str(prepared / name), str(pytester.path / name))
    return pytester.path


@pytest.fixture(scope="module")
def variants(prepared: Path, warm_pytest: WarmPytest) -> list[str]:
    """Write the approved manifest and every wrong variant. Returns the names of the variants."""
    rules = ("--ascend-rule=release/model-manifest", "--ascend-rule=release/manifest")
    _gate(warm_pytest, prepared, *_releases(), "--ascend-manifest-update", *rules)
    assert len(json.loads((prepared / "kernels.json").read_text())["model"]) == 19
    _prepare(prepared, "all")
    return list(VARIANTS)


def _releases(*variants: str) -> list[str]:
    return [f"--ascend-release={each}.toml" for each in ("release", *variants)]


@pytest.fixture(scope="module")
def judged(prepared: Path, variants: list[str], warm_pytest: WarmPytest) -> Judged:
    """A run that judges the example by every rule, and each variant by the rules that it breaks.

    All are in one run, so that the releases share their conversions.
    """
    collected = _gate(
        warm_pytest, prepared, *_releases(*variants), "-q", "--collect-only", "--color=no"
    )
    checks = {line.partition("::")[2] for line in collected.output.splitlines() if "::" in line}
    functions = _functions()
    chosen = [
        each
        for each in checks
        for name, _, release in [each.removesuffix("]").partition("[")]
        if release == "bert-small"
        or (release in VARIANTS and functions.get(name) in VARIANTS[release].rules)
    ]
    return _gate(warm_pytest, prepared, *_releases(*variants), "-k", " or ".join(sorted(chosen)))


def _functions() -> dict[str, str]:
    """Return the rule of each check of the gate, by the name of its function."""
    texts = (
        path.read_text(encoding="utf-8")
        for path in (ROOT / "pytest_ascendcache/conformance/release").glob("test_*.py")
    )
    pairs = (re.findall(r'@rule\("([^"]+)"\)\ndef (\w+)', text) for text in texts)
    return {name: rule for each in pairs for rule, name in each}


def test_each_rule_of_the_gate_has_a_wrong_variant() -> None:
    by_times = {"release/knowledge-base-applied"}  # judged where nothing can be compiled
    assert {rule for each in VARIANTS.values() for rule in each.rules} == GATE - by_times
    assert set(_functions().values()) == GATE


def test_the_example_passes(judged: Judged) -> None:
    verdicts = judged.verdicts("bert-small")
    assert set(verdicts) == GATE
    not_applicable = {"release/knowledge-base-applied", "release/every-card-has-a-cache"}
    assert {rule for rule, each in verdicts.items() if each != {"pass"}} == not_applicable
    for line in (
        "bert-small, new cache: 19 of 19 kernels served",
        "bert-small, a conversion from */cards/1: 19 of 19 kernels served",
        "bert-small: 2 of 2 cards converted at once",
        "Release bert-small keeps all 15 rules that were judged; compiled with the embedded*",
    ):
        assert re.search(re.escape(line).replace(r"\*", ".*"), judged.output), line


@pytest.mark.parametrize("name", VARIANTS)
def test_a_wrong_variant_fails_by_the_rules_that_say_so(judged: Judged, name: str) -> None:
    rules, by_rule = load_rules(), judged.verdicts(name)
    assert set(by_rule) == set(VARIANTS[name].rules)
    for rule, verdicts in by_rule.items():
        wrong = "fail" if rules[rule].level.value == "must" else "warn"
        assert ("undecided" if name == UNDECIDED else wrong) in verdicts, rule


def test_the_page_of_the_variants_is_what_they_give(
    judged: Judged, prepared: Path, tmp_path: Path
) -> None:
    page = _page(judged, prepared)
    (tmp_path / PAGE.name).write_text(page, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page, (
        f"docs/{PAGE.name} is not current: cp {tmp_path / PAGE.name} docs"
    )


def _page(judged: Judged, directory: Path) -> str:
    """Return the page with the gate's messages about each variant.

    Digests, sizes of kernels and times are left out, because they depend on the machine.
    """
    parts = [_HEAD]
    for name, variant in VARIANTS.items():
        parts.append(f"\n## {name}\n\n{variant.what[0].upper()}{variant.what[1:]}.\n\n```\n")
        checks = [each for each in judged.report["checks"] if each["check"].endswith(f"[{name}]")]
        checks = [each for each in checks if each["verdict"] != "pass"]
        messages = dict.fromkeys(
            f"{check['verdict']}  {check['rule']}\n{_shown(check['message'], directory)}\n"
            for check in sorted(checks, key=lambda each: variant.rules.index(each["rule"]))
        )
        parts += messages
        parts.append("```\n")
    return "".join(parts)


def _shown(message: str, directory: Path) -> str:
    text = message.replace(str(directory), "/home/me/bert")
    for pattern, instead in _OF_THE_MACHINE:
        text = re.sub(pattern, instead, text)
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


_HEAD = """\
# A release, and what the gate says where it is wrong

`fixtures/release` is a small BERT with a precision file, operators, the caches of two cards and a
golden manifest. In a copy of that directory:

```console
$ python prepare.py                 # fills the caches of both cards with the reference
$ pytest --ascend-release=release.toml --ascend-manifest-update
$ pytest --ascend-release=release.toml
$ python prepare.py all             # the variants below: VARIANT.toml, and what they need
$ pytest --ascend-release=swapped-kernel.toml
```

Each variant is the same release but for one thing, and there is one for each rule of the gate. What
is below is what the rules that it breaks say; `tests/release/test_model_release.py` holds this page
to it. Digests, sizes of kernels and times depend on the machine and are left out.
"""

_OF_THE_MACHINE = (
    # Cards that convert at once: what one of them has too many depends on which stores first.
    (r"\n?observed: card \d has .* too many\nexpected: no kernel but a fresh conversion's", ""),
    (r"[0-9a-f]{16}\.\.\.", "..."),
    (r"_[0-9a-f]{64}", "_..."),
    (r"\b\d+ bytes", "... bytes"),
    (r"such as .* more of .* UTC", "such as ..."),
    (r"off by [0-9.e-]+ of", "off by ... of"),
)


@pytest.mark.nightly
def test_a_wrong_variant_breaks_no_other_rule(
    prepared: Path, variants: list[str], warm_pytest: WarmPytest
) -> None:
    rules = [f"--ascend-rule={each}" for each in sorted(GATE)]
    judgement = _gate(warm_pytest, prepared, *_releases(*variants), *rules)
    for name in (each for each in variants if each != UNDECIDED):
        # Other rules may be undecided, for example if atc refuses the command.
        verdicts = judgement.verdicts(name)
        broken = {rule for rule, each in verdicts.items() if each & {"fail", "warn"}}
        assert broken == set(VARIANTS[name].rules), name


COMMAND = (
    *("--model=model.onnx", "--framework=5", "--output=bert", "--soc_version=Ascend910B1"),
    *("--op_compiler_cache_mode=force", "--op_precision_mode=model.ini"),
    "--input_shape=input_ids:1,8;attention_mask:1,8",
)


def test_init_writes_a_release_whose_command_judges_it(
    example: Path, warm_pytest: WarmPytest
) -> None:
    (example / "release.toml").unlink()
    init = [str(INIT), "--", "ascendcache-atc", *COMMAND]
    written = subprocess.run(init, cwd=example, check=True, capture_output=True, text=True)
    words = shlex.split(written.stdout.splitlines()[-1])
    assert words[-1] == "--ascend-release=release.toml"
    # A nightly test runs every check. This one runs two: on a cached model, and on outputs.
    result = _gate(warm_pytest, example, *words[words.index("pytest") + 1 :], "-k", _CORE)
    assert result.code == 0, result.output
    verdicts = result.verdicts("model")
    assert verdicts["release/model-cached-is-fresh"] == {"pass"}
    assert verdicts["release/outputs-near"] == {"pass"}


_CORE = "test_a_new_cache_gives_the_model_of_a_fresh_conversion or float32_run"


@pytest.mark.nightly
@pytest.mark.parametrize("program", ["atc", "ascendcache-atc"])
def test_a_stranger_judges_the_example_in_a_minute(
    example: Path, warm_pytest: WarmPytest, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without atc
    (example / "release.toml").unlink()
    init = [str(INIT), "--", program, *COMMAND]
    written = subprocess.run(init, cwd=example, check=True, capture_output=True, text=True)
    words = shlex.split(written.stdout.splitlines()[-1])
    result = _gate(warm_pytest, example, *words[words.index("pytest") + 1 :])
    assert result.code == 0, result.output
    verdicts = result.verdicts("model")
    passed = {rule for rule, each in verdicts.items() if "pass" in each}
    assert {"release/model-cached-is-fresh", "release/model-reproducible"} <= passed
    assert {"release/outputs-unchanged", "release/outputs-near"} <= passed
    assert verdicts["release/model-manifest"] == {"not applicable"}


_ATC = """#!{python}
import os, pathlib, sys, time
options = dict(each[2:].partition("=")[::2] for each in sys.argv[1:])
if "model" in options:
    output = pathlib.Path(options["output"] + ".om")
    exec(os.environ["WRONG"])
    print("ATC run success, welcome to the next use.")
    sys.exit(0)
from pytest_ascendcache.reference.atc import run
sys.exit(run(sys.argv[1:], os.environ))
"""

FAILING = {
    "nothing": ("pass", "reported success but left no .*/out/model.om"),
    "elsewhere": ("pathlib.Path('mine.om').write_bytes(b'x')", "wrote .*/work/mine.om instead of"),
    "no-kernels": ("output.write_bytes(b'no kernels')", "carries no ELF object"),
    "empty": ("output.write_bytes(b'')", "carries no ELF object"),
    "a-directory": ("output.mkdir()", "reported success but left no .*/out/model.om"),
    "asking": ("input()", "ended with exit status 1: EOFError"),
    "killed": ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
    "a-changing-model": (
        "pathlib.Path(options['model']).write_bytes(b'changed')",
        "/model.onnx changed while the model was converted; nothing may change it",
    ),
}


def _failing(example: Path, wrong: dict[str, str]) -> list[str]:
    """Write releases whose command misbehaves; returns the options that name them."""
    program = example / "atc"
    program.write_text(_ATC.format(python=sys.executable))
    program.chmod(0o755)
    text = (example / "release.toml").read_text().replace('"reference"', '"./atc"')
    for name, code in wrong.items():
        changed = text.replace('"bert-small"', f'"{name}"').replace("model.onnx", f"{name}.onnx")
        shutil.copy(example / "model.onnx", example / f"{name}.onnx")
        wrong_text = f"{changed}\n[environment]\nWRONG = {json.dumps(code)}\n"
        (example / f"{name}.toml").write_text(wrong_text)
    return [f"--ascend-release={name}.toml" for name in wrong]


def test_a_command_that_makes_no_model_decides_nothing(
    example: Path, warm_pytest: WarmPytest
) -> None:
    releases = _failing(example, {name: code for name, (code, _) in FAILING.items()})
    result = _gate(warm_pytest, example, *releases, "-k", "test_a_new_cache_gives_the_model")
    assert result.code == pytest.ExitCode.TESTS_FAILED
    messages = {
        each["check"]: (each["verdict"], each["message"]) for each in result.report["checks"]
    }
    assert len(messages) == len(FAILING)
    for name, (_, expected) in FAILING.items():
        ((verdict, message),) = [each for check, each in messages.items() if f"[{name}]" in check]
        assert verdict == "undecided", name
        assert re.search(expected.replace("/model.onnx", f"/{name}.onnx"), message), message
        assert len(message.splitlines()) <= 2, message


@pytest.mark.nightly
def test_a_command_that_hangs_is_ended(example: Path, warm_pytest: WarmPytest) -> None:
    releases = _failing(example, {"hangs": "time.sleep(600)"})
    chosen = ("--ascend-timeout=20", "-k", "test_a_new_cache_gives_the_model")
    result = _gate(warm_pytest, example, *releases, *chosen)
    (check,) = result.report["checks"]
    assert check["verdict"] == "undecided"
    assert "did not end within 20 s and was killed" in check["message"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('inputs = "nowhere.npz"', "*'inputs': there is no file *nowhere.npz*"),
        ('inputs = "samples"', "*'inputs': */samples is no regular file; write an .npz file.*"),
        ("inputs = [1]", "*'inputs' is [[]1]; write a path*"),
        ("tolerance = 2", "*'tolerance' is 2; write a share*"),
        ("tolerance = true", "*'tolerance' is True*"),
    ],
)
def test_bad_keys_are_one_sentence(
    pytester: pytest.Pytester, example: Path, line: str, message: str
) -> None:
    release = example / "release.toml"
    (example / "samples").mkdir()
    text = release.read_text()
    release.write_text(text.replace("tolerance = 0.02", line))
    result = pytester.runpytest_subprocess(f"--ascend-release={release}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def _judge(pytester: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, dict[str, str]]:
    result = pytester.runpytest_subprocess(
        "--ascend-release=release.toml", "--ascend-report=report.json", *arguments
    )
    report = json.loads((pytester.path / "report.json").read_text())
    return result, {rule["id"]: rule["verdict"] for rule in report["rules"]}


@pytest.mark.usefixtures("example")
def test_a_cache_that_changes_while_it_is_copied_decides_nothing(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        from pytest_ascendcache.conformance.kit import converting

        copy = converting.copy_cache

        def copied(release, cache, root):
            (cache / "kernel_cache/Ascend910B1/te_new.o").touch()
            return copy(release, cache, root)

        converting.copy_cache = copied
        """
    )
    rule = "--ascend-rule=release/model-cached-is-fresh"
    result, verdicts = _judge(pytester, rule, "-k", "caches_of_the_release")
    assert verdicts["release/model-cached-is-fresh"] == "undecided"
    result.stdout.fnmatch_lines(["why */cards/0 changed while it was copied (*te_new.o); nothing*"])


def test_outputs_that_tell_nothing_decide_nothing(pytester: pytest.Pytester, example: Path) -> None:
    numpy.savez(example / "samples.npz", input_ids=numpy.zeros((1, 8), numpy.int64))
    text = (example / "release.toml").read_text().replace("bert-small", "lacks-one")
    (example / "samples.toml").write_text('inputs = "samples.npz"\n' + text)
    pytester.makeconftest(
        """
        import numpy
        from pytest_ascendcache.toolchains.atc import AtcToolchain

        right = AtcToolchain.run_model

        def wrong(self, model, inputs):
            if len(inputs) == 2:
                return {"hidden": numpy.ones(3)}
            return right(self, model, inputs)

        AtcToolchain.run_model = wrong
        """
    )
    more = ("--ascend-rule=release/outputs-unchanged", "--ascend-release=samples.toml")
    result, verdicts = _judge(pytester, *more)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts["release/outputs-unchanged"] == "undecided"
    result.stdout.fnmatch_lines(["*gives the same outputs whatever its inputs are*"])
    result.stdout.fnmatch_lines(["*a fresh model cannot be run*attention_mask* is missing*"])


def test_what_a_cache_changes_or_does_not_serve_is_told_and_outputs_of_nan_decide_nothing(
    pytester: pytest.Pytester, example: Path
) -> None:
    entry = min((example / "cards/1/kernel_cache/Ascend910B1").glob("te_fused_*[0-9a-f].json"))
    entry.write_text("{")
    file = example / "release.toml"
    file.write_text(file.read_text().replace('operators = "operators.json"', ""))
    pytester.makeconftest(
        """
        import numpy
        from pytest_ascendcache.toolchains.atc import AtcToolchain

        right = AtcToolchain.convert_together

        def wrong(self, requests):
            filled = [any(each.cache_dir.rglob("*.o")) for each in requests]
            results = right(self, requests)
            for is_filled, result in zip(filled, results):
                if is_filled and result.model:
                    result.model.write_bytes(result.model.read_bytes() + b"blockDim=999")
            return results

        AtcToolchain.convert_together = wrong
        AtcToolchain.run_model = lambda *_: {"hidden": numpy.full(3, numpy.nan)}
        """
    )
    judged = ("model-cached-is-fresh", "outputs-unchanged")
    rules = [f"--ascend-rule=release/{each}" for each in judged]
    result, verdicts = _judge(pytester, *rules)
    assert verdicts["release/model-cached-is-fresh"] == "fail"
    assert verdicts["release/outputs-unchanged"] == "undecided"
    result.stdout.fnmatch_lines(["why *differs outside of the kernels*"])
    told = (pytester.path / "report.json").read_text()
    assert (
        "serves 18 of 19 kernels of the release: the files of 1 of the other names are not taken"
        in told
    )
    assert f"18 of 19 kernels served; compiled again: {entry.stem}" in told
    assert "19 of 19 kernels served; 2 entries are of no kernel of the model" in told


@pytest.mark.usefixtures("example")
def test_a_toolchain_that_converts_nothing_decides_nothing(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        from pytest_ascendcache.toolchains.atc import AtcToolchain

        del AtcToolchain.convert_together
        """
    )
    result, verdicts = _judge(pytester, "--ascend-rule=release/model-cached-is-fresh")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert verdicts["release/model-cached-is-fresh"] == "undecided"
    result.stdout.fnmatch_lines(["why *converts no models*"])
