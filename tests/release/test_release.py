"""The release gate in another pytest process, and the command ascendcache-release-init."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_ascendcache.release.file import read_release

FIXTURES = Path(__file__).parents[2] / "fixtures"
ATC = Path(sys.executable).with_name("ascendcache-atc")
INIT = Path(sys.executable).with_name("ascendcache-release-init")


@dataclass(frozen=True)
class Gate:
    """Runs pytest on the example release in its own directory."""

    pytester: pytest.Pytester
    file: Path

    def judge(self, *arguments: str) -> pytest.RunResult:
        """Run pytest on the release."""
        return self.pytester.runpytest_subprocess(f"--ascend-release={self.file}", *arguments)

    def verdicts(self, *arguments: str) -> dict[str, str]:
        """Judge the release, and return the verdict of each rule."""
        self.judge("--ascend-report=report.json", *arguments)
        report = json.loads((self.pytester.path / "report.json").read_text())
        return {rule["id"]: rule["verdict"] for rule in report["rules"]}

    def simplify(self, *changes: tuple[str, str]) -> None:
        """Reduce the release to a single operator, and change its text."""
        tensor = {"format": "ND", "shape": [8, 16], "type": "float16"}
        single = {"op": "Exp", "name": "exp", "input_desc": [tensor], "output_desc": [tensor]}
        (self.file.parent / "single.json").write_text(json.dumps([single]))
        text = self.file.read_text()
        for old, new in (("../bert_base_encoder_layer.json", "single.json"), *changes):
            assert old in text
            text = text.replace(old, new)
        self.file.write_text(text)


@pytest.fixture
def gate(pytester: pytest.Pytester) -> Gate:
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider\n")
    shutil.copytree(FIXTURES / "release-operators", pytester.path / "bert")
    shutil.copy(FIXTURES / "bert_base_encoder_layer.json", pytester.path)
    return Gate(pytester, pytester.path / "bert/release.toml")


def _files(directory: Path) -> dict[Path, object]:
    """Return every file with all of its times."""
    return {each: each.stat() for each in directory.rglob("*") if each.is_file()}


def test_the_example_passes_once_its_manifest_is_written(gate: Gate) -> None:
    first = gate.judge()
    assert first.ret == pytest.ExitCode.TESTS_FAILED
    first.stdout.fnmatch_lines(
        ["why * there is no manifest *; --ascend-manifest-update writes it."]
    )
    second = gate.judge("--ascend-manifest-update")
    assert second.ret == 0
    second.stdout.fnmatch_lines(["*kernels.json was written with 17 kernels"])
    manifest = json.loads((gate.file.parent / "kernels.json").read_text())
    assert len(manifest["kernels"]) == 17
    third = gate.judge("-n", "2")
    assert third.ret == 0
    third.stdout.fnmatch_lines(
        [
            "*pass 1 *cache-mode/release-setting*",
            "*pass 1 *release/precision-file-valid*",
            "*pass 1 (1 not applicable)*release/cached-is-fresh*",
            "*bert-base-layer, new cache: 17 of 17 kernels served",
            "*pass 1 *release/cards-get-one-kernel*",
            "*pass 1 *release/manifest*",
            "not applicable: * rules: *release/every-card-has-a-cache*",
        ]
    )


def test_only_the_release_is_judged_unless_more_is_named(gate: Gate) -> None:
    gate.pytester.makepyfile(test_mine="def test_mine(): pass")

    def collected(*arguments: str) -> set[str]:
        result = gate.judge("--collect-only", "-q", *arguments)
        return {line.partition("::")[0] for line in result.outlines if "::" in line}

    suite = "pytest_ascendcache/conformance"
    checks = {f"{suite}/release/test_release.py", f"{suite}/release/test_model.py"}
    assert collected() == checks
    assert collected(".") == {*checks, "test_mine.py"}
    assert {*checks, f"{suite}/cache_mode/test_aging.py"} <= collected("--ascend-cache")
    assert "test_mine.py" not in collected("--ascend-cache")


def test_a_release_under_enable_warns_and_fails_under_strict(gate: Gate) -> None:
    gate.simplify(("cache_mode=force", "cache_mode=enable"))
    rule = "--ascend-rule=cache-mode/release-setting"
    advised = gate.judge(rule)
    assert advised.ret == 0
    assert advised.parseoutcomes() == {"warned": 1, "deselected": 18}
    advised.stdout.fnmatch_lines(
        ["Release * keeps 0 rules; 1 recommended only and not followed (cache-mode/release-sett*"]
    )
    result = gate.judge(rule, "--ascend-strict")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*cause 1: cache-mode/release-setting*",
            "why *--op_compiler_cache_mode=enable; expected: disable, or force *",
            "next *Mend the release, then run this again.",
            "repeat *pytest --ascend-strict --ascend-release=*release.toml *test_cache_mode*",
        ]
    )
    (repeat,) = [each for each in result.outlines if each.startswith("repeat ")]
    command = shlex.split(repeat.removeprefix("repeat"))
    again = gate.pytester.runpytest_subprocess(*command[command.index("pytest") + 1 :])
    assert again.parseoutcomes() == {"failed": 1}


def test_recommendations_warn_and_fail_under_strict(gate: Gate) -> None:
    gate.simplify(("--op_precision_mode=bert.ini", "--op_select_implmode=high_precision"))
    arguments = (
        "--ascend-rule=release/precision-file-kept",
        "--ascend-rule=release/implmode-option-off",
    )
    assert gate.judge(*arguments).parseoutcomes() == {"warned": 2, "deselected": 17}
    strict = gate.judge("--ascend-strict", *arguments)
    assert strict.parseoutcomes() == {"failed": 2, "deselected": 17}


OTHER_CIRCUMSTANCES: list[tuple[str, object, str]] = [
    ("version", "8.0", "it is of the toolchain version '8.0', and *"),
    ("soc", "Ascend310P3", "it is of the SoC 'Ascend310P3', and 'Ascend910B1' is judged*"),
    ("options", "x", "it was made with other options*"),
    ("schema", 2, "* is not of schema 1; write it anew with --ascend-manifest-update."),
]


def test_a_manifest_of_other_circumstances_decides_nothing_and_is_kept(gate: Gate) -> None:
    gate.simplify()
    rule = "--ascend-rule=release/manifest"
    gate.judge(rule, "--ascend-manifest-update")
    path = gate.file.parent / "kernels.json"
    written = path.read_text()
    for field, value, message in OTHER_CIRCUMSTANCES:
        manifest = json.loads(written)
        holder = manifest["toolchain"] if field == "version" else manifest
        holder[field] = value
        path.write_text(json.dumps(manifest))
        result = gate.judge(rule)
        assert result.parseoutcomes() == {"undecided": 1, "deselected": 18}, field
        result.stdout.fnmatch_lines([f"why *{message}"])
        assert json.loads(path.read_text()) == manifest
    former = {k: v for k, v in json.loads(written).items() if k not in ("inputs", "settings")}
    path.write_text(json.dumps(former))
    result = gate.judge(rule)
    assert result.parseoutcomes() == {"undecided": 1, "deselected": 18}
    result.stdout.fnmatch_lines(["why *records the kernels and not what they were made from*"])


def test_a_manifest_that_cannot_be_written_is_an_error(gate: Gate) -> None:
    gate.simplify(('"kernels.json"', '"nowhere/kernels.json"'))
    result = gate.judge("--ascend-manifest-update")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *kernels.json *: the directory *nowhere does not exist*"])


def test_no_manifest_is_written_of_kernels_that_differ_from_start_to_start(gate: Gate) -> None:
    gate.simplify()
    gate.pytester.makeconftest(
        """
        import sys
        from pytest_ascendcache.toolchains import atc_toolchain

        def pytest_ascendcache_toolchain(name):
            return atc_toolchain("./atc", 60.0) if name == "restless" else None
        """
    )
    program = gate.pytester.path / "atc"
    # Every run of atc compiles with other tiles than the one before.
    bank = gate.pytester.path / "bank"
    bank.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib, sys\n"
        f"bank = pathlib.Path({str(bank)!r})\n"
        "starts = len(list(bank.iterdir()))\n"
        "(bank / str(starts)).mkdir()\n"
        "tiles = {'Exp': {'tile': 2 ** (starts % 4)}}\n"
        "(bank / str(starts) / 'Ascend910B1.json').write_text(json.dumps(tiles))\n"
        "from pytest_ascendcache.reference.atc import run\n"
        "sys.exit(run([*sys.argv[1:], f'--op_bank_path={bank / str(starts)}'], os.environ))\n"
    )
    program.chmod(0o755)
    rule = "--ascend-rule=release/manifest"
    result = gate.judge(rule, "--ascend-toolchain=restless", "--ascend-manifest-update")
    result.stdout.fnmatch_lines(["why *two fresh compiles give different kernels of Exp*"])
    assert not (gate.file.parent / "kernels.json").exists()


def test_what_cannot_be_compiled_is_not_decided(gate: Gate) -> None:
    gate.simplify()
    single = gate.file.parent / "single.json"
    single.write_text(single.read_text().replace('"Exp"', '"NoSuchOperator"'))
    verdicts = gate.verdicts()
    assert verdicts["release/cached-is-fresh"] == "undecided"
    assert verdicts["release/cards-get-one-kernel"] == "undecided"
    assert verdicts["release/settings-agree"] == "pass"


def test_without_a_named_toolchain_only_files_are_judged(gate: Gate) -> None:
    gate.simplify(('toolchain = "reference"', ""))
    result = gate.judge()
    assert result.parseoutcomes() == {"passed": 5, "skipped": 9, "undecided": 5}
    result.stdout.fnmatch_lines(
        [
            "why *no toolchain is named; write toolchain = *",
            "Release bert-base-layer is not ready to ship: 4 rules undecided (*); nothing was *",
        ]
    )
    files = gate.judge("-q", "--ascend-rule=release/debug-off")
    assert files.ret == 0
    files.stdout.fnmatch_lines(
        ["Release bert-base-layer keeps the 1 rule *; nothing was compiled*"]
    )


def test_a_release_without_operators_is_never_green(gate: Gate) -> None:
    gate.simplify(("--singleop=single.json", "--log=info"))
    result = gate.judge()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["why *names no operators*", "Release bert-base-layer is not ready*; nothing was compiled*"]
    )


def test_the_answer_names_what_compiled(gate: Gate) -> None:
    gate.simplify()
    rules = ("--ascend-rule=release/cards-get-one-kernel", "--ascend-report=report.json")
    result = gate.judge(*rules)
    result.stdout.fnmatch_lines(
        [
            "*bert-base-layer: 2 of 2 cards compiled at once",
            "Release * keeps the 1 rule that was judged; compiled with the embedded reference *, "
            "which says nothing about CANN.",
        ]
    )
    report = json.loads((gate.pytester.path / "report.json").read_text())
    assert report["answers"] == [each for each in result.outlines if each.startswith("Release ")]


def test_one_run_compiles_releases_with_one_toolchain(gate: Gate) -> None:
    gate.simplify()
    other = gate.file.with_name("other.toml")
    other.write_text(gate.file.read_text().replace('"reference"', '"atc"'))
    refused = gate.judge(f"--ascend-release={other}")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*names the toolchain 'reference' and *names 'atc'; judge them*"])


def test_a_toolchain_without_tables_does_not_judge_the_precision_file(gate: Gate) -> None:
    gate.simplify()
    verdicts = gate.verdicts(f"--ascend-atc={ATC}")
    assert verdicts["release/precision-file-valid"] == "not applicable"
    assert verdicts["release/cached-is-fresh"] == "pass"


def test_tables_of_the_operator_package_the_release_names_go_first(gate: Gate) -> None:
    tables = gate.file.parent / "opp/built-in/op_impl/ai_core/tbe/impl_mode"
    tables.mkdir(parents=True)
    for name in ("high_precision", "high_performance"):
        (tables / f"{name}.ini").write_text(f"Exp={name}\n")
        (tables / f"{name}_for_all.ini").write_text(f"Exp={name}\n")
    (tables / "all_ops_impl_mode.ini").write_text("Exp=high_precision,high_performance\n")
    gate.simplify(("[environment]", '[environment]\nASCEND_OPP_PATH = "opp"'))
    result = gate.judge("--ascend-rule=release/precision-file-valid")
    result.stdout.fnmatch_lines(["why *line *: no mode is supported for 'AvgPoolV2'; expected: *"])
    (tables / "high_precision.ini").unlink()
    result = gate.judge("--ascend-rule=release/precision-file-valid")
    result.stdout.fnmatch_lines(["why *the implementation mode table 'high_precision' is missing"])


def test_caches_of_a_release_are_audited_and_compiled_from(gate: Gate) -> None:
    gate.simplify(("cards = 2", 'caches = ["缓存"]'))
    compiled = gate.pytester.run(
        *(ATC, f"--singleop={gate.file.parent / 'single.json'}", "--output=out"),
        *("--soc_version=Ascend910B1", "--op_compiler_cache_mode=enable"),
        *(f"--op_compiler_cache_dir={gate.file.parent / '缓存'}",),
        f"--op_precision_mode={gate.file.parent / 'bert.ini'}",
    )
    assert compiled.ret == 0
    result = gate.judge("--ascend-rule=audit/digests", "--ascend-rule=release/cached-is-fresh")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*bert-base-layer, 缓存: 1 of 1 kernels served"])
    (kernel,) = (gate.file.parent / "缓存").rglob("*.o")
    kernel.write_bytes(kernel.read_bytes()[:-1] + b"!")
    before = _files(gate.file.parent / "缓存")
    broken = gate.judge("--ascend-report=report.json")
    report = json.loads((gate.pytester.path / "report.json").read_text())
    verdicts = {rule["id"]: rule["verdict"] for rule in report["rules"]}
    assert verdicts["audit/digests"] == "fail"
    broken.stdout.fnmatch_lines(
        ["Release * 2 rules broken (release/cached-is-fresh, audit/digests)*"]
    )
    broken.stdout.no_fnmatch_line("request *")  # the last of many compiles is nobody's request
    assert verdicts["release/cached-is-fresh"] == "fail"  # it reuses no entry: nothing is served
    told = (gate.pytester.path / "report.json").read_text()
    assert "it has 1 of 1 names, and their files are not taken" in told
    assert _files(gate.file.parent / "缓存") == before


def test_releases_of_one_name_are_told_apart(gate: Gate) -> None:
    gate.simplify()
    other = gate.file.with_name("other.toml")
    shutil.copy(gate.file, other)
    rule = ("--ascend-rule=release/debug-off", "-v")
    result = gate.judge(f"--ascend-release={other}", *rule)
    result.stdout.fnmatch_lines(
        ["*[[]bert-base-layer-1] PASSED*", "*[[]bert-base-layer-2] PASSED*"]
    )
    twice = gate.judge(f"--ascend-release={gate.file}", *rule)
    assert twice.parseoutcomes() == {"passed": 1, "deselected": 18}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ascend-release=bert"], "*bert cannot be read (Is a directory); *"),
        (["--ascend-release=bad.toml"], "*bad.toml: the key 'chaches' is unknown; did you mean *"),
        (["--ascend-manifest-update"], "*needs a release; name its file with --ascend-release."),
        (
            ["--ascend-release=plain.toml", "--ascend-manifest-update"],
            '*plain.toml names no manifest; add manifest = "kernels.json".',
        ),
        (
            [
                "--ascend-release=bert/release.toml",
                "--ascend-release=bert/again.toml",
                "--ascend-manifest-update",
            ],
            "*manifest *kernels.json of *release.toml and *again.toml are one file; name two.",
        ),
        (["--ascend-release=nowhere.toml"], "*'caches': */nowhere holds no known cache; name a *"),
        (
            ["--ascend-release=lost.toml"],
            "*lost.toml: ASCEND_OPP_PATH: there is no directory /gone/opp; name the operator *",
        ),
        (
            ["--ascend-release=inside.toml", "--ascend-manifest-update"],
            "*kernels.json of * would be written in *kernel_cache, which is audited and not *",
        ),
    ],
)
def test_bad_input_is_one_sentence(gate: Gate, arguments: list[str], message: str) -> None:
    shutil.copy(gate.file, gate.file.with_name("again.toml"))
    (gate.pytester.path / "bad.toml").write_text("soc = 'A'\nchaches = 'x'\n")
    (gate.pytester.path / "plain.toml").write_text("soc = 'A'\n")
    (gate.pytester.path / "nowhere.toml").write_text("soc = 'A'\ncaches = 'nowhere'\n")
    (gate.pytester.path / "lost.toml").write_text(
        "soc = 'A'\ntoolchain = 'reference'\n[environment]\nASCEND_OPP_PATH = '/gone/opp'\n"
    )
    entry = gate.pytester.path / f"kernel_cache/A/te_exp_{'0' * 64}.json"
    entry.parent.mkdir(parents=True)
    entry.touch()
    (gate.pytester.path / "inside.toml").write_text(
        "soc = 'A'\ncaches = 'kernel_cache'\nmanifest = 'kernel_cache/kernels.json'\n"
    )
    result = gate.pytester.runpytest_subprocess(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize("name", ["bert.ini", "kernels.json", "bert_base_encoder_layer.json"])
@pytest.mark.parametrize("option", ["--ascend-report", "--ascend-html"])
def test_what_a_release_names_is_not_replaced(gate: Gate, option: str, name: str) -> None:
    place = gate.file.parent / ("" if name != "bert_base_encoder_layer.json" else "..") / name
    before = place.read_bytes() if place.exists() else None
    asked = (f"--ascend-release={gate.file}", f"{option}={place}")
    result = gate.pytester.runpytest_subprocess(*asked)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *would replace the file that *release.toml reads; *"])
    assert (place.read_bytes() if place.exists() else None) == before


COMMAND = (
    *("atc", "--model=it's.onnx", "--framework", "5", "--soc_version=Ascend910B1"),
    *("--singleop=single.json", "--op_compiler_cache_mode=force", "--op_debug_level=0"),
)


def test_init_writes_a_release_that_can_be_judged(gate: Gate) -> None:
    gate.simplify()
    shutil.copy(gate.file.parent / "single.json", gate.pytester.path)
    (gate.pytester.path / "it's.onnx").touch()
    result = gate.pytester.run(INIT, "--", "TUNE_BANK_PATH=bank", *COMMAND)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["release.toml is written.*", "*pytest --ascend-release=release.toml*"]
    )
    written = read_release(gate.pytester.path / "release.toml", {})
    assert written.name == "it's"
    assert written.options["model"] == "it's.onnx"
    assert written.environment["TUNE_BANK_PATH"] == "bank"
    assert [each.type for each in written.operators] == ["Exp"]
    rules = ("--ascend-rule=release/debug-off", "--ascend-rule=release/precision-file-kept")
    verdicts = Gate(gate.pytester, gate.pytester.path / "release.toml").verdicts(*rules)
    assert verdicts["release/debug-off"] == "pass"
    assert verdicts["release/precision-file-kept"] == "warn"


def test_init_takes_the_command_line_as_one_text(pytester: pytest.Pytester) -> None:
    (pytester.path / "it's.onnx").touch()
    assert pytester.run(INIT, "-o", "other.toml", shlex.join(COMMAND[:5])).ret == 0
    written = read_release(pytester.path / "other.toml", {})
    assert written.options["framework"] == "5"
    assert written.soc == "Ascend910B1"


def test_init_writes_down_the_toolchain_it_finds(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = pytester.path / "toolkit/bin"
    programs.mkdir(parents=True)
    nowhere = pytester.run(INIT, "-o", "nowhere.toml")
    nowhere.stdout.fnmatch_lines(
        ["* --ascend-release=nowhere.toml --ascend-toolchain=atc", "No atc was found, *"]
    )
    (programs / "atc").symlink_to(ATC)
    soc = "--soc_version=Ascend910B1"
    assert pytester.run(INIT, "-o", "named.toml", "--", "toolkit/bin/atc", soc).ret == 0
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(programs.parent))
    assert pytester.run(INIT, "-o", "home.toml", "--", "atc", soc).ret == 0
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    assert pytester.run(INIT, "-o", "path.toml", "--", "atc", soc).ret == 0
    named = {
        name: read_release(pytester.path / f"{name}.toml", {}).toolchain
        for name in ("named", "home", "path")
    }
    place = str(programs / "atc")
    assert named == {"named": place, "home": place, "path": "atc"}


def test_init_without_a_command_line_explains_every_key(pytester: pytest.Pytester) -> None:
    assert pytester.run(INIT).ret == 0
    text = (pytester.path / "release.toml").read_text()
    keys = ("name", "soc", "cards", "atc", "operators", "precision_file", "knowledge_base")
    for key in (*keys, "caches", "manifest"):
        assert f"\n{key} = " in text or f"\n# {key} = " in text
    (pytester.path / "release.toml").write_text(text.replace("# soc", "soc"))
    assert read_release(pytester.path / "release.toml", {}).soc == "Ascend910B1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "release.toml exists and is left as it is; give another name with -o."),
        (["-o", "some/where.toml"], "-o some/where.toml is not in this directory; *"),
        (["-o", "new.toml", "atc", "model.onnx"], "'model.onnx' is no option; write --key=value."),
        (
            ["-o", "new.toml", "atc", "--modle=x.onnx"],
            "atc has no option --modle; did you mean --model?",
        ),
        (["-o", "new.toml", "atc --log='x"], "No closing quotation"),
        (["-o", "new.toml", "atc", b"--model=\xff"], "the command line is not UTF-8; *"),
        (["-o", "x" * 300 + ".toml"], "*cannot be written (File name too long)."),
    ],
)
def test_init_writes_nothing_over_anything(
    pytester: pytest.Pytester, arguments: list[str | bytes], message: str
) -> None:
    (pytester.path / "release.toml").write_text("mine")
    before = sorted(each.name for each in pytester.path.iterdir())
    result = pytester.run(INIT, *arguments)  # type: ignore[arg-type]  # bytes are arguments too
    assert result.ret == 2
    result.stderr.fnmatch_lines([f"ascendcache-release-init: {message}"])
    (pytester.path / "stdout").unlink()
    (pytester.path / "stderr").unlink()
    assert sorted(each.name for each in pytester.path.iterdir()) == before
    assert (pytester.path / "release.toml").read_text() == "mine"


def test_init_speaks_chinese(tmp_path: Path) -> None:
    argv = [str(INIT), "--", "atc", "--modle=x"]
    environment = {**os.environ, "LANG": "zh_CN.UTF-8", "LC_ALL": "", "LC_MESSAGES": ""}
    ended = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "ascendcache-release-init: atc 没有参数 --modle，是否为 --model？\n",
    )
