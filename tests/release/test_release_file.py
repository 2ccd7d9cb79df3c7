"""Release files, command lines, precision files and manifests: reading and refusing them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from pytest_ascendcache.conformance.kit.release_compiles import Served
from pytest_ascendcache.conformance.release.test_release import useless
from pytest_ascendcache.contract import ImplModeTables
from pytest_ascendcache.contract.editions import named
from pytest_ascendcache.operators import OperatorSpec, TensorDesc, write_single_op
from pytest_ascendcache.qualification.scenes.caches import cann_entry, edit, graphs, rank_kernel
from pytest_ascendcache.release.command import CommandError, parse_command
from pytest_ascendcache.release.configuration import (
    cache_mode_problems,
    contradictions,
    debug_problems,
    own_cache,
)
from pytest_ascendcache.release.environment import environment_problems
from pytest_ascendcache.release.file import Release, ReleaseFileError, read_release
from pytest_ascendcache.release.init import main as init
from pytest_ascendcache.release.job import job_problems, read_job
from pytest_ascendcache.release.kernels import (
    compared_caches,
    copy_cache,
    outdated_kernels,
    rank_problems,
    unusable_caches,
)
from pytest_ascendcache.release.manifest import (
    KernelDigest,
    Manifest,
    ManifestError,
    distinct_operators,
    options_digest,
    read_manifest,
    update_manifest,
    write_manifest,
)
from pytest_ascendcache.release.precision import (
    kept_file_problems,
    precision_file_problems,
    uncompared_file,
    unknown_nodes,
    unknown_types,
)
from pytest_ascendcache.release.problem import story
from pytest_ascendcache.release.recorded import recorded_inputs

HALF = TensorDesc.of("float16", 8, 16)
EXP = OperatorSpec("Exp", (HALF,), (HALF,), name="layer_exp")
SQRT = OperatorSpec("Sqrt", (HALF,), (HALF,), name="layer_sqrt")


def _read(directory: Path, text: str, **variables: str) -> Release:
    path = directory / "release.toml"
    path.write_text(text, encoding="utf-8")
    return read_release(path, variables)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("atc --soc_version=A --op_debug_level=0", {"soc_version": "A", "op_debug_level": "0"}),
        ("--soc_version A", {"soc_version": "A"}),
        ("/opt/atc -soc_version=A", {"soc_version": "A"}),
        ("atc --input_shape='x:1,3;y:2' \\\n  --soc_version=\"A\"", {"input_shape": "x:1,3;y:2"}),
        ("atc --op_name_map=a=b", {"op_name_map": "a=b"}),
        ("atc --aicore_num -1", {"aicore_num": "-1"}),
        ("atc --op_debug_config=", {"op_debug_config": ""}),
        ("atc --log=info --log=debug", {"log": "debug"}),
        ("atc --soc_version=A  # for the new card", {"soc_version": "A"}),
        ("# convert\natc --soc_version=A \\\n  --log=info > log.txt 2>&1", {"log": "info"}),
        ("atc --soc_version=A 2>&1 | tee atc.log", {"soc_version": "A"}),
        ("atc --soc_version=A &", {"soc_version": "A"}),
        ("atc --op_name_map='a#b' --log=info", {"op_name_map": "a#b"}),
        ("atc --op-debug-level=1", {"op_debug_level": "1"}),
        ("atc --op_compiler_cache_dir=$HOME/c", {"op_compiler_cache_dir": "/home/me/c"}),
        ("X=1 Y=$X/2 atc --debug_dir=${Y}", {"debug_dir": "1/2"}),
        ("atc --precision_mode=force_fp16 --op_bank_update=true", {"op_bank_update": "true"}),
        ("", {}),
    ],
)
def test_a_command_line_is_read(text: str, options: dict[str, str]) -> None:
    read = parse_command(text, {"HOME": "/home/me"}).options
    assert {key: read[key] for key in options} == options


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("atc --soc_version", "--soc_version has no value; write --soc_version=<value>"),
        ("atc --soc_version --log=info", "--soc_version has no value"),
        ("atc model.onnx", "'model.onnx' is no option; write --key=value"),
        ("atc --log=info && rm x", "'&&' is the shell's"),
        ("atc --model='x", "no command line: no closing quotation"),
        ("atc --model=$NOWHERE", "$NOWHERE is not set; set it in [environment]"),
    ],
)
def test_a_bad_command_line_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        parse_command(text, {})
    assert message in str(refused.value)
    assert str(refused.value).endswith((".", "?"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam = 'x'", "the key 'nam' is unknown; did you mean 'name'?"),
        ("cache = 'x'", "did you mean 'caches'?"),
        ("zzz = 1", "the key 'zzz' is unknown; the keys are name, toolchain"),
        ("atc = 'atc --op_compiler_cache_mod=x'", "did you mean --op_compiler_cache_mode?"),
        ("atc = 'atc --op_precison_mode=x'", "did you mean --op_precision_mode?"),
        ("atc = 'atc --modle=x.onnx'", "atc has no option --modle; did you mean --model?"),
        ("atc = 'atc --fusion_switch_fil=x'", "did you mean --fusion_switch_file?"),
        (
            "atc = 'atc --nosuch=1'",
            'leave it out, or, if your atc has it, write other_options = ["',
        ),
        ("soc = 'A'\n[options]\nnosuch = 1", "atc has no option --nosuch; leave it out"),
        ("other_options = 'x'", "'other_options' is 'x'; write a list of texts"),
        ("atc = 'atc --model=m.onnx'", "--model=m.onnx: there is no file"),
        ("atc = 'atc --model=release.tml'", "release.tml; did you mean release.toml?"),
        ("atc = 'atc --fusion_switch_file=f.cfg'", "f.cfg; paths count from the release file."),
        ("soc = 'A'\ntoolchain = ''", "'toolchain' is ''; write a text"),
        (
            "soc = 'A'\ncards = 1000000",
            "'cards' is 1000000; write how many devices it runs on, 65536",
        ),
        ("soc = ", "is not TOML"),
        ("name = 'x'", 'no SoC is named; write soc = "Ascend910B1"'),
        ("soc = 1", "'soc' is 1; write a text"),
        ("soc = 'A'\natc = 'atc --soc_version=B'", "'soc' is 'A', but the command says"),
        ("soc = 'A'\ncards = 0", "'cards' is 0; write how many devices"),
        ("soc = 'A'\ncards = true", "'cards' is True"),
        ("soc = 'A'\natc = 1", "'atc' is 1; write the command line as a text"),
        ("soc = 'A'\noptions = 1", "'options' is 1; begin a table: [options]"),
        ("soc = 'A'\n[options]\nop_debug_level = true", "'options.op_debug_level' is True"),
        ("soc = 'A'\n[options]\nop_debug_levl = 0", "did you mean --op_debug_level?"),
        ("soc = 'A'\natc = 'atc --log=a'\n[options]\nlog = 'b'", "option log is 'a' in 'atc' and"),
        ("soc = 'A'\natc = 'X=1 atc'\n[environment]\nX = 2", "variable X is '1' in 'atc' and '2'"),
        ("soc = 'A'\ncaches = ['']", "'caches' is ['']; write a path, or a list of paths"),
        ("soc = 'A'\nmanifest = ['a', 'b']", "a release has one manifest"),
        ("soc = 'A'\noperators = 'none.json'", "'operators': Path ["),
        ("soc = 'A'\n[[operators]]\nopp = 'Exp'", "operators[0].op: the operator type is ''"),
        ("soc = 'A'\noperators = [{op = 'Exp'}, 'a.json']", "operators[1]: 'a.json' is a string"),
        ("soc = 'A'\nprecision_file = ['a', 'b']", "a release has one precision file"),
        ('soc = "A"\ncaches = ["a\\u0000b"]', "write a path, or a list of paths"),
        ("x = " + "[" * 3000, "is not TOML that can be read: it is too deep"),
        ("soc = 'A'\n[environment]\n'A=B' = '1'", "no program can be started with it"),
        ("soc = '../../etc'", "the SoC is '../../etc'; write one such as Ascend910B1"),
        ("atc = 'atc --op_compiler_cache_mode=forc'", "none of its values; did you mean force?"),
        ("atc = 'atc --op_debug_level=7'", "none of its values; write 0, 1, 2, 3, 4"),
        ("atc = 'atc --customize_dtypes=dt.cfg'", "--customize_dtypes=dt.cfg: there is no file"),
    ],
)
def test_a_bad_release_file_is_refused_in_one_sentence(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ReleaseFileError) as refused:
        _read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "release.toml"))
    assert message in str(refused.value)


def test_a_release_file_that_is_not_there_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(ReleaseFileError, match="ascendcache-release-init writes one"):
        read_release(tmp_path / "release.toml", {})


def test_paths_count_from_the_release_file(tmp_path: Path) -> None:
    write_single_op(tmp_path / "ops.json", [EXP])
    (tmp_path / "m.ini").touch()
    (tmp_path / "opp").mkdir()
    release = _read(
        tmp_path,
        "atc = 'atc --soc_version=A --singleop=ops.json --op_precision_mode=m.ini"
        " --mdl_bank_path=bank'\ncaches = '../cache'\nmanifest = 'k.json'\n"
        "[environment]\nASCEND_OPP_PATH = 'opp'\nASCEND_CACHE_PATH = 'c'\n",
    )
    assert release.operators == (EXP,)
    assert release.caches == (tmp_path.parent / "cache",)
    assert release.manifest == tmp_path / "k.json"
    assert release.precision_file == tmp_path / "m.ini"
    assert release.knowledge_base == (tmp_path / "bank",)
    assert release.kernel_environment == {"ASCEND_OPP_PATH": str(tmp_path / "opp")}
    assert release.kernel_options == {
        "op_precision_mode": str(tmp_path / "m.ini"),
        "mdl_bank_path": str(tmp_path / "bank"),
    }


def test_an_option_of_a_newer_atc_is_taken_where_it_is_named(tmp_path: Path) -> None:
    text = "other_options = ['--new-one']\natc = 'atc --soc_version=A --new_one=1'"
    assert _read(tmp_path, text).options["new_one"] == "1"


@pytest.mark.parametrize(
    ("text", "toolchain"),
    [("", ""), ("toolchain = 'atc'", "atc"), ("toolchain = 'bin/atc'", "{here}/bin/atc")],
)
def test_a_release_names_its_toolchain(tmp_path: Path, text: str, toolchain: str) -> None:
    read = _read(tmp_path, f"soc = 'A'\n{text}")
    assert read.toolchain == toolchain.format(here=tmp_path)


def test_variables_are_replaced_in_tables_too(tmp_path: Path) -> None:
    release = _read(
        tmp_path,
        "soc = 'A'\n[options]\n--debug-dir = '$HOME/debug'\n"
        "[environment]\nASCEND_CACHE_PATH = '${HOME}/cache'\n",
        HOME="/home/me",
    )
    assert release.options == {"debug_dir": "/home/me/debug"}
    assert release.environment == {"ASCEND_CACHE_PATH": "/home/me/cache"}


def _release(options: dict[str, str], environment: dict[str, str] | None = None) -> Release:
    return Release(Path("/r/release.toml"), "r", "A", options, environment or {})


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({}, 0),
        ({"op_compiler_cache_mode": "disable"}, 0),
        ({"op_compiler_cache_mode": "force"}, 0),
        ({"op_compiler_cache_mode": "enable"}, 1),
        ({"op_compiler_cache_mode": "ENABLE"}, 1),
        ({"op_compiler_cache_mode": ""}, 1),
    ],
)
def test_cache_modes_of_a_release(options: dict[str, str], problems: int) -> None:
    assert len(cache_mode_problems(_release(options))) == problems


@pytest.mark.parametrize(
    ("options", "environment", "problems"),
    [
        ({}, {}, 0),
        ({"op_debug_level": "0", "op_debug_config": ""}, {"NPU_COLLECT_PATH": ""}, 0),
        ({"op_debug_level": "3"}, {}, 1),
        ({"op_debug_level": "1", "op_debug_config": "x.cfg"}, {}, 2),
        ({}, {"ASCEND_OP_COMPILE_SAVE_KERNEL_META": "1"}, 1),
        ({}, {"ASCEND_OP_COMPILE_SAVE_KERNEL_META": "0"}, 0),
    ],
)
def test_debug_switches(
    options: dict[str, str], environment: dict[str, str], problems: int
) -> None:
    assert len(debug_problems(_release(options, environment))) == problems


@pytest.mark.parametrize(
    ("options", "environment", "text"),
    [
        ({}, {}, ""),
        ({"op_compiler_cache_dir": "c"}, {"ASCEND_CACHE_PATH": "/r/./c"}, ""),
        ({"op_compiler_cache_dir": "c"}, {"ASCEND_CACHE_PATH": "d"}, "ASCEND_CACHE_PATH=d"),
        ({"op_bank_path": "c"}, {"TUNE_BANK_PATH": "d"}, "TUNE_BANK_PATH=d"),
        ({}, {"ASCEND_CACHE_PATH": "/a+b"}, "contains '+'"),
        ({}, {"ASCEND_CACHE_PATH": "/数据/cache-1"}, ""),
        ({}, {"ASCEND_MAX_OP_CACHE_SIZE": "500", "ASCEND_REMAIN_CACHE_SIZE_RATIO": "50"}, ""),
        ({}, {"ASCEND_MAX_OP_CACHE_SIZE": "-1"}, ""),
        ({}, {"ASCEND_MAX_OP_CACHE_SIZE": "0"}, "ASCEND_MAX_OP_CACHE_SIZE=0 is no value"),
        ({}, {"ASCEND_REMAIN_CACHE_SIZE_RATIO": "50%"}, "50% is no value for it, so 50 is used"),
        ({}, {"REMAIN_CACHE_SIZE_RATIO": "50"}, "which is no longer read"),
    ],
)
def test_what_contradicts(options: dict[str, str], environment: dict[str, str], text: str) -> None:
    problems = story(contradictions(_release(options, environment)))
    assert text in problems
    assert bool(problems) is bool(text)


def test_an_edition_without_the_variable_does_not_compare_it() -> None:
    release = _release({"op_compiler_cache_dir": "c"}, {"ASCEND_CACHE_PATH": "/a+b"})
    assert [each.found for each in contradictions(release, named("7.0"))] == [
        "ASCEND_CACHE_PATH is set, which CANN 7.0 does not read yet"
    ]


@pytest.mark.parametrize(
    ("documented", "vendor", "environment", "message"),
    [
        (("200", "50"), None, {}, ""),
        (("200", "50"), ("200", "50"), {"ASCEND_MAX_OP_CACHE_SIZE": "200"}, ""),
        (("200", "50"), None, {"ASCEND_REMAIN_CACHE_SIZE_RATIO": "80"}, "says 50, but"),
        (("200", "abc"), None, {"ASCEND_MAX_OP_CACHE_SIZE": "300"}, ""),
        (None, ("-1", "50"), {"ASCEND_MAX_OP_CACHE_SIZE": "500"}, "says -1, but"),
    ],
)
def test_ini_files_beside_the_environment(
    tmp_path: Path,
    documented: tuple[str, str] | None,
    vendor: tuple[str, str] | None,
    environment: dict[str, str],
    message: str,
) -> None:
    below = tmp_path / "cache/kernel_cache"
    below.mkdir(parents=True)
    for directory, values in ((below.parent, documented), (below, vendor)):
        if values:
            (directory / "op_cache.ini").write_text(
                "[op_compiler_cache]\n# limits\nmax_op_cache_size={}\nremain_cache_size_ratio={}\n"
                "adk_version=1\n".format(*values)
            )
    path = tmp_path / "release.toml"
    release = Release(path, "r", "A", {}, environment, caches=(below.parent,))
    problems = story(contradictions(release))
    assert message in problems
    assert bool(problems) is bool(message)


TABLES = ImplModeTables.read(
    {
        "all_ops_impl_mode": "Exp=high_performance,high_precision\nSqrt=high_precision,keep_fp16",
        "high_precision": "Exp=high_precision\nRotaryMulGrad=high_precision",
        "high_performance": "Exp=high_performance",
        "high_precision_for_all": "Exp=high_precision",
        "high_performance_for_all": "Exp=high_performance",
    }
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ""),
        ("# comment\n\nExp=high_precision\r\n[ByNodeName]\nlayer_sqrt = keep_fp16\n", ""),
        ("[ByNodeName]\nlayer_exp=high_precision\n[ByOpType]\nSqrt=high_precision", ""),
        ("RotaryMulGrad=high_precision\n", ""),
        ("RotaryMulGrad=high_performance\n", "no mode is supported for 'RotaryMulGrad'"),
        ("Sqrt=high_performance", "line 1: 'high_performance' is not supported for Sqrt"),
        ("Exp=high_precison", "'high_precison' is not supported for Exp"),
        ("exp=high_precision", "perhaps Exp"),
        ("\ufeffExp=high_precision", "line 1 begins with a byte order mark"),
        ("Exp=high_precision\nExp=high_performance", "and the first counts"),
        ("Exp=high_precision\nExp=high_precision", ""),
        ("Exp=", "line 1 is 'Exp='"),
        ("Exp:high_precision", "line 1 is 'Exp:high_precision'"),
        ("[byoptype]\n", "line 1 is '[byoptype]'"),
        (" # indented\n", "line 1 is '# indented'"),
        ("[ByNodeName]\nlayer_exq=high_precision", "perhaps layer_exp"),
        ("[ByNodeName]\nlayer_sqrt=high_performance", "is not supported for Sqrt"),
    ],
)
def test_lines_of_a_precision_file(text: str, message: str) -> None:
    release = Release(Path("/r/release.toml"), "r", "A", {}, operators=(EXP, SQRT))
    problems = story(precision_file_problems(text, release, TABLES))
    assert message in problems
    assert bool(problems) is bool(message)


_ONNX = b"\x12\x0bSoftmaxProb\x1a\x12layer0/att/Softmax\x22\x07Softmax"


@pytest.mark.parametrize(
    ("framework", "content", "name", "found"),
    [
        ("5", _ONNX, "layer0/att/Softmax", True),
        ("5", _ONNX, "layer0/att/Softma", False),
        ("5", _ONNX, "ayer0/att/Softmax", False),
        ("5", _ONNX, "SoftmaxProb", False),  # a tensor
        ("5", _ONNX, "Softmax", False),  # a type
        ("5", _ONNX, "Softmax_12", True),  # as atc numbers a node without a name
        ("5", _ONNX, "Gelu_12", False),
        ("5", b"\x1a\xac\x02" + b"n" * 300, "n" * 300, True),
        ("5", b"\x1a\x06\xe5\xb1\x82/e", "层/e", False),
        ("5", b"\x1a\x05\xe5\xb1\x82/e", "层/e", True),
        ("3", b"\x0a\x03L_x\x12\x04L_yz", "L_x", True),
        ("3", b"\x0a\x03L_x\x12\x04L_yz", "L_yz", False),
        ("1", b"..\x03L_x..", "L_x", True),  # MindIR: any field
        ("0", b'layer { name: "L_x" }', "L_x", True),  # Caffe: text
        ("0", b"layer { name: 'layer_x' }", "layer_x", True),
        ("0", b'layer { name: "layer_x1" }', "layer_x", False),
        ("5", b"", "L_x", False),
    ],
)
@pytest.mark.parametrize("beside", [(), (SQRT,)], ids=["alone", "beside-operators"])
def test_names_of_a_precision_file_are_looked_for_in_the_model(
    tmp_path: Path,
    framework: str,
    content: bytes,
    name: str,
    found: bool,
    beside: tuple[OperatorSpec, ...],
) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(content)
    options = {"model": str(model), "framework": framework}
    release = Release(tmp_path / "release.toml", "r", "A", options, operators=beside)
    text = f"[ByNodeName]\n{name}=high_precision\n"
    assert unknown_nodes(text, release) == ([] if found else [name])
    assert story(precision_file_problems(text, release, TABLES)) == ""
    message = story(precision_file_problems(text.replace("ion", "oin"), release, TABLES))
    assert "'high_precisoin' is not supported for any type" in message


def test_a_name_may_begin_in_one_part_of_a_large_model_and_end_in_the_next(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    options = {"model": str(model), "framework": "5"}
    release = Release(tmp_path / "release.toml", "r", "A", options)
    with model.open("wb") as file:
        file.truncate((1 << 24) - 5)
        file.seek(0, os.SEEK_END)
        file.write(b"\x1a\x09layer/exp")
    text = "[ByNodeName]\nlayer/exp=high_precision\nlayer/ex=high_precision\n"
    assert unknown_nodes(text, release) == ["layer/ex"]


def test_a_type_below_the_names_is_told(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(_ONNX)
    options = {"model": str(model), "framework": "5"}
    release = Release(tmp_path / "release.toml", "r", "A", options)
    text = "[ByNodeName]\nExp=high_precision"
    message = story(precision_file_problems(text, release, TABLES))
    assert "line 2: 'Exp' is a type, and the line is below [ByNodeName]" in message
    model.write_bytes(b"\x1a\x03Exp")
    assert story(precision_file_problems(text, release, TABLES)) == ""


def test_a_knowledge_base_may_be_linked(tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "kernel_cache" / "A"
    bank, elsewhere = tmp_path / "bank", tmp_path / "elsewhere"
    for each in (cache, bank, elsewhere):
        each.mkdir(parents=True)
    (bank / "old.json").write_text("{}")
    os.utime(bank / "old.json", (1000, 1000))
    for name in (f"te_exp_{'0' * 64}.json", f"te_exp_{'0' * 64}.o"):
        (cache / name).write_text("{}")
        os.utime(cache / name, (2000, 2000))
    release = Release(
        tmp_path / "r.toml", "r", "A", {}, knowledge_base=(bank,), caches=(tmp_path / "cache",)
    )
    assert outdated_kernels(release) == []
    (elsewhere / "round").symlink_to(elsewhere)
    (elsewhere / "new.json").write_text("{}")
    os.utime(elsewhere / "new.json", (3000, 3000))
    (bank / "nowhere.json").symlink_to(tmp_path / "gone")
    assert outdated_kernels(release) == []
    (bank / "new.json").symlink_to(elsewhere / "new.json")
    assert "new.json" in story(outdated_kernels(release))
    (bank / "new.json").unlink()
    (bank / "folder").symlink_to(elsewhere)
    assert "new.json" in story(outdated_kernels(release))


def test_all_faults_of_a_command_are_named_at_once(tmp_path: Path) -> None:
    line = "--op_precision_mode=m.ini --modle=x --op_select_implmode=high_preformance --weight=w"
    with pytest.raises(ReleaseFileError) as refused:
        _read(tmp_path, f"atc = 'atc --soc_version=A {line}'")
    text = str(refused.value)
    assert len(text.splitlines()) == 4
    for part in (
        "did you mean --model?",
        "--op_select_implmode=high_preformance is none of its values; did you mean",
        "--op_precision_mode=m.ini: there is no file",
        "--weight=w: there is no file",
    ):
        assert part in text


def test_a_file_in_utf_16_is_named_so(tmp_path: Path) -> None:
    (tmp_path / "m.ini").write_text("SoftmaxV2=high_precision\n", encoding="utf-16")
    with pytest.raises(ReleaseFileError, match=r"m\.ini is text in UTF-16; write it in UTF-8"):
        _read(tmp_path, "atc = 'atc --soc_version=A --op_precision_mode=m.ini'")


@pytest.mark.parametrize(
    ("variables", "cards", "told"),
    [
        ({"ACL_OP_COMPILER_CACHE_MODE": "forced"}, 1, "takes it for enable"),
        ({"ACL_OP_COMPILER_CACHE_DIR": "/tmp/npu_cache"}, 1, "every user may write there"),
        ({"MS_COMPILER_CACHE_PATH": "cache"}, 1, "is a relative path"),
        ({"HCCL_CONNECT_TIMEOUT": "60"}, 1, "seconds from 120 to 7200"),
        ({"LOCAL_WORLD_SIZE": "3"}, 8, "there are 8 cards"),
        ({"LOCAL_WORLD_SIZE": "0"}, 1, "a natural number"),
        ({"RANK_ID": "0"}, 8, "they share one directory"),
        ({"RANK_ID": "../x"}, 1, "into a path as it is"),
        ({"ASCEND_CACHE_PAHT": "/data"}, 1, "ASCEND_CACHE_PATH"),
        ({"HCCL_CONNECT_TIMEOUT": "600", "LOCAL_WORLD_SIZE": "8", "RANK_ID": "3"}, 1, ""),
        ({"ACL_OP_COMPILER_CACHE_MODE": "enable"}, 8, ""),
        ({"ACL_OP_COMPILER_CACHE_DIR": "/data/cache", "PATH": "/usr/bin"}, 8, ""),
    ],
)
def test_variables_of_the_whole_stack_are_judged(
    variables: dict[str, str], cards: int, told: str
) -> None:
    found = story(environment_problems(variables, cards))
    assert told in found
    assert bool(found) is bool(told)


def test_a_launch_script_is_judged_by_its_lines(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "#!/bin/bash\nexport HCCL_CONNECT_TIMEOUT=60  # soon\n"
        "for i in {0..7}; do\n  export RANK_ID=$i\n  LOCAL_WORLD_SIZE=3 python train.py &\ndone\n"
    )
    job = read_job(script)
    assert job.cards == 8
    assert [line for line, _ in job_problems(job)] == [2, 5]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("for((i=0; i<${N}; i++))\ndo\n  export RANK_ID=$i\n  python a.py &\ndone", []),
        ("for i in 0 1 2; do RANK_ID=$i python a.py & done", []),
        ("RANK_ID=0 python a.py &\nRANK_ID=1 python a.py &\npython b.py", []),
        ("RANK_ID=1 python a.py &\nRANK_ID=1 python a.py &", ["RANK_ID=1 for 2 of 2"]),
        (
            "for i in 0 1; do\n  export RANK_ID=0 MS_COMPILER_CACHE_PATH=/c/$i\n"
            "  python a.py &\ndone",
            [],
        ),
        (
            "RANK_ID=0 HCCL_CONNECT_TIMEOUT=600 python a.py &\nRANK_ID=1 python a.py &\n"
            "RANK_ID=2 python a.py",
            ["HCCL_CONNECT_TIMEOUT is 600 for process 0, and unset for others"],
        ),
        ("RANK_ID=0 python a.py &\nRANK_ID=x python a.py &", ["RANK_ID=x"]),
        ("export HCCL_CONNECT_TIMEOUT=${T:-60} RANK_SIZE=8 RANK_ID=${RANK:-0}\npython a.py", []),
        ("T=60\nexport HCCL_CONNECT_TIMEOUT=${T:-600}\npython a.py", ["HCCL_CONNECT_TIMEOUT=60"]),
        ("for i in 0 1; do RANK_ID=0 python a.py & done", ["RANK_ID=0 for 2 of 2"]),
        ("for i in {0..60000000}; do RANK_ID=$i python a.py & done", ["more than 4096 turns"]),
        (
            "for n in {0..5000}; do\nfor i in {0..5000}; do\nexport RANK_ID=$n$i\ndone\ndone",
            ["more than 4096 turns"],
        ),
        ("for i in {1..100000}; do sleep 1; done\nRANK_ID=1 python a.py", []),
        (
            "export RANK_SIZE=8\ni=0\nwhile [ $i -lt 8 ]; do\n  export RANK_ID=$i\n"
            "  python a.py &\n  i=$((i+1))\ndone",
            [],
        ),
        ("export HCCL_CONNECT_TIMEOUT=${T:-600}\npython a.py", []),
        ("for i in {0..60000000}; do\nfor j in {0..4096}; do\n:\ndone\ndone", []),
        ("for((i=0;i<=1;i++)); do RANK_ID=0 python a.py & done", ["RANK_ID=0 for 2 of 2"]),
        ("for i in $(seq 0 2 2); do\nRANK_ID=0 python a.py &\ndone", ["RANK_ID=0 for 2 of 2"]),
        ("for i in `seq 2`; do RANK_ID=$i python a.py & done", []),
        ("run() {\n  export RANK_ID=$1\n  python a.py &\n}\nrun 0\nrun 1", []),
        ("run() {\n  RANK_ID=$1 python a.py &\n}\nrun 0\nrun 0", ["RANK_ID=0 for 2 of 2"]),
        ("function run { RANK_ID=0 python a.py & }\nrun; run", ["RANK_ID=0 for 2 of 2"]),
        ("run() { run; }\nrun", []),
        ("run() python a.py\nrun", []),
        ("run() if true; then RANK_ID=0 python a.py & fi\nrun; run", ["RANK_ID=0 for 2 of 2"]),
        ("cd a && RANK_ID=0 python a &\ncd b && RANK_ID=0 python b &", []),
        ("cd a && RANK_ID=0 python a &\ncd a && RANK_ID=0 python b &", ["RANK_ID=0 for 2 of 2"]),
        ("RANK_ID=0 \\\n  python a.py &\nRANK_ID=0 python a.py", ["RANK_ID=0 for 2 of 2"]),
        ("export RANK_ID=0 RANK_SIZE=1\npython train.py\npython eval.py", []),
        ("a() { for i in 0 1; do RANK_ID=$i python $1 & done; wait; }\na a.py; a b.py", []),
        (
            "CARDS=(0 1)\nexport RANK_SIZE=${#CARDS[@]}\nfor c in ${CARDS[@]}; do\n"
            "  RANK_ID=$c python a.py &\n  pids+=($!)\ndone\nwait -n ${pids[@]}",
            [],
        ),
        ("cat > a <<E\nRANK_ID=0 python a.py &\nE\nRANK_ID=0 python b.py &", []),
        ("for i in 0 1; do (cd r$i; RANK_ID=0 exec python a.py) & done", []),
        ("for i in {0..3}; do RANK_ID=$((i / 2)) python a.py & done", ["those of 1 more numbers"]),
        ("for i in 0 1; do if [ $i -ge 0 ]; then RANK_ID=0 python a & fi; done", ["for 2 of 2"]),
        ("export RANK_SIZE=2\nfor i in 1 2; do RANK_ID=$i python a.py & done", ["RANK_SIZE is 2"]),
        ("HCCL_CONNECT_TIMEOUT=1800\npython a.py", ["no process that the script starts has it"]),
        ("for ((i = 0; i < $1; ++i)); do RANK_ID=$i python a.py & done", []),
        ("python -c 'import a'\nexport HCCL_CONNECT_TIMEOUT=1800", []),
        ("T=1; export RANK_SIZE=2\r\nRANK_ID=0 python a.py", ["ends in CR LF"]),
        (
            "export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2\nfor i in {0..3}; do RANK=$i python a & done",
            ["LOCAL_WORLD_SIZE=2, and 4 processes of one job"],
        ),
        (
            "for i in 0 1; do LOCAL_WORLD_SIZE=1 WORLD_SIZE=1 MASTER_PORT=1$i python a & done",
            [],
        ),
        ("if [ -f a ]; then RANK_ID=0 python a &\nelse RANK_ID=0 python b &\nfi", []),
        ("while read -r r; do RANK_ID=$r python a & done <<'E'\n0\n1\nE", []),
        ("while read r h; do RANK_ID=$r python a & done <<-E\n\t2 a\n\t2 b\n\tE", ["2 for 2 of 2"]),
        ("while IFS=, read h r; do RANK_ID=$r python a & done <<E\na,$N\nb,3\nE", ["RANK_ID=3"]),
        ("seq 2 | while read r; do RANK_ID=7 python a & done", ["RANK_ID=7 for 2 of 2"]),
        ("while read r; do RANK_ID=0 python a & done < <(printf '%s\\n' 0 1)", ["for 2 of 2"]),
        ("while read r; do RANK_ID=0 python a & done <<< 0", []),
        (
            "read r <<< 2\nexport RANK_SIZE=2\nRANK_ID=$r python a",
            ["RANK_ID=2, and RANK_SIZE is 2"],
        ),
        ("while read r; do ssh $r mkdir c; RANK_ID=$r python a & done <<E\n0\n0\nE", []),
        ("seq 0 7 | xargs -P 8 -I{} env RANK_ID={} python a.py", []),
        ("seq 0 7 | xargs -P8 -I @ env RANK_ID=1 python a.py @", ["RANK_ID=1 for 8 of 8"]),
        ("export RANK_ID=0\nseq 0 7 | xargs -I{} python a.py {}", []),
        ("echo 0 1 | xargs -n 1 -P 0 sh -c 'RANK_ID=0 python a.py $0'", ["RANK_ID=0 for 2 of 2"]),
        ("cat <<E | xargs -P 2 -i sh -c 'RANK_ID={} python a.py'\n1\n1\nE", ["1 for 2 of 2"]),
        ("cat hosts | xargs -P 2 -I{} env RANK_ID={} python a.py", []),
        ("exec > log 2>&1\nfor i in 0 1; do RANK_ID=0 python a & done", ["RANK_ID=0 for 2 of 2"]),
        ("export RANK_ID=0\ncat files | xargs -n 1 python convert.py", []),
        (
            "export WORLD_SIZE=2 LOCAL_WORLD_SIZE=1\n"
            "for i in 0 1; do torchrun --nnodes=2 --node_rank=$i a.py & done",
            [],
        ),
        ("export RANK_SIZE=2\nsrun -n 2 bash -c 'RANK_ID=$SLURM_PROCID python a.py'", []),
        ("srun -n 2 bash -c 'RANK_ID=0 python a.py'", ["RANK_ID=0 for all of 2"]),
        ("export RANK_ID=0\nsrun --ntasks=2 python a.py -n 9", ["RANK_ID=0 for all of 2"]),
        ("mpirun -np 2 bash -c 'RANK_ID=0 exec python a.py'", ["RANK_ID=0 for all of 2"]),
        (
            "export HCCL_CONNECT_TIMEOUT=600\nsrun --export=ALL,RANK_ID=0 -n 2 python a.py",
            ["RANK_ID=0 for all of 2"],
        ),
        (
            "export HCCL_CONNECT_TIMEOUT=600\nsrun --export=A python a.py &\npython b.py",
            ["HCCL_CONNECT_TIMEOUT is 600 for process 1, and unset for others"],
        ),
        (
            "#SBATCH --export=NONE\nexport MS_COMPILER_CACHE_PATH=/c\nsrun python a.py &\n"
            "srun python b.py",
            ["--export=NONE takes MS_COMPILER_CACHE_PATH=/c from the processes"],
        ),
        (
            "for i in 0 1; do export RANK_ID=$i; export -n RANK_ID; python a.py & done",
            ["export -n takes RANK_ID=0|1 from the processes that the script starts"],
        ),
        (
            "declare -x RANK_ID=0\ndeclare +x RANK_ID=1\npython a & python b",
            ["+x takes RANK_ID=0|1"],
        ),
        ("RANK_ID=0\ndeclare -n R=RANK_ID\nexport RANK_ID\npython a.py", []),
        ("export RANK_ID=0\nunset RANK_ID\npython a.py", ["unset takes RANK_ID=0 from"]),
        ("export RANK_ID=0\npython a.py\nunset RANK_ID\npython b.py", []),
        ("export RANK_ID=3 D=$RANK_ID\nunset RANK_ID\npython a.py --rank $D", []),
        ("export RANK_ID=0\nN=$(python n.py)\nunset RANK_ID\npython a.py", []),
        ("export RANK_ID=0\nsource prepare.sh\nunset RANK_ID\npython a.py", []),
        ("export RANK_ID=0\nexec -c python a.py", ["exec -c takes RANK_ID=0 from"]),
        (
            "source env.sh\nexport HCCL_CONNECT_TIMEOUT=600\n"
            "for i in {0..3}; do export RANK_ID=$i; env -i A=1 python a.py & done",
            ["env -i takes HCCL_CONNECT_TIMEOUT=600, RANK_ID=0..3 from the processes"],
        ),
        ("for i in 0 1; do export RANK_ID=$i; env -i RANK_ID=$i python a.py & done", []),
        ("export RANK_ID=0\nenv --unset=RANK_ID python a.py", ["env -u RANK_ID takes RANK_ID=0"]),
        (
            "for i in {0..7}; do\n(export RANK_ID=$i; echo $i)\npython a.py &\ndone",
            ["RANK_ID=0..7 is set in a subshell that ends before it starts a process"],
        ),
        ("seq 2 | while read r; do export RANK_ID=$r; done\npython a", ["RANK_ID=1|2 is set in a"]),
    ],
)
def test_each_process_of_a_script_has_its_own_settings(
    script: str, told: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"N=3\n{script}\n")
    assert not read_job(path).unfollowed
    found = [problem.found for _, problem in job_problems(read_job(path))]
    assert len(found) == len(told), found
    assert all(each in one for each, one in zip(told, found, strict=True))


@pytest.mark.parametrize(
    "launcher",
    [
        *("numactl -N 0", "timeout 9", "setsid", "exec", "nice -n 5", "stdbuf -oL", "time"),
        *("env -u X", "conda run", "$PYTHON", "./run_one.sh", "new-launcher --flag"),
        "bash -c 'python a.py'",
    ],
)
@pytest.mark.parametrize(("rank", "told"), [("$i", False), ("7", True)])
def test_a_rank_counts_for_whatever_is_started(
    launcher: str, rank: str, told: bool, tmp_path: Path
) -> None:
    path = tmp_path / "run.sh"
    for given in (f"RANK_ID={rank} ", f"export RANK_ID={rank}; "):
        path.write_text(f"for i in 0 1; do {given}{launcher} python train.py & done\n")
        job = read_job(path)
        assert not job.unfollowed
        assert ["RANK_ID=7 for 2 of 2" in each.found for _, each in job_problems(job)] == [
            True
        ] * told


def test_what_only_a_run_would_tell_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_text("export HCCL_CONNECT_TIMEOUT=${T:-60}\npython a.py\n")
    assert init(["--job", str(path)]) == 0
    told = "run.sh:1: HCCL_CONNECT_TIMEOUT=${T:-60} is not judged: only a run would tell its value"
    assert told in capsys.readouterr().out
    for spelling in ("--ascend-language", "--language", "--lang"):
        init([f"{spelling}=zh", "--job", str(path)])
        assert "运行时才知道其取值" in capsys.readouterr().out


def test_what_srun_alone_tells_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.sh"
    path.write_text("srun bash -c 'RANK_ID=$SLURM_PROCID python train.py'\n")
    assert init(["--job", str(path)]) == 0
    told = capsys.readouterr().out
    assert "RANK_ID=$SLURM_PROCID is not judged: only a run would tell its value" in told
    assert "1 setting for processes whose number only a run would tell: 0 faults" in told


def test_settings_count_wherever_they_are_given_and_none_is_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.sh"
    path.write_text("for i in 0 1; do env RANK_ID=$i DEVICE_ID=$i python train.py & done\n")
    assert init(["--job", str(path)]) == 0
    assert "2 settings for 2 processes: 0 faults" in capsys.readouterr().out
    path.write_text("for i in a b; do atc --model=$i.onnx --op_compiler_cache_mode=force & done\n")
    assert init(["--job", str(path)]) == 1
    assert "0 settings for 2 processes: nothing of it is judged" in capsys.readouterr().out


def test_operators_may_be_written_in_the_release_file(tmp_path: Path) -> None:
    tensor = '[{format = "ND", shape = [8], type = "float16"}]'
    lines = ["[[operators]]", 'op = "Exp"', f"input_desc = {tensor}", f"output_desc = {tensor}"]
    written = _read(tmp_path, "\n".join(["soc = 'A'", *lines, ""]))
    assert [each.type for each in written.operators] == ["Exp"]
    assert written.operator_files == ()


def test_equal_operators_are_one_kernel_unless_a_name_has_a_mode(tmp_path: Path) -> None:
    twice = (EXP, EXP.named("other/exp"), SQRT)
    plain = Release(tmp_path / "release.toml", "r", "A", {}, operators=twice)
    assert [each.name for each in distinct_operators(plain).values()] == ["layer_exp", "layer_sqrt"]
    file = tmp_path / "m.ini"
    file.write_text("[ByNodeName]\nother/exp=high_precision\n")
    named = Release(plain.path, "r", "A", {}, operators=twice, precision_file=file)
    assert [each.name for each in distinct_operators(named).values()] == [
        *("layer_exp", "other/exp", "layer_sqrt")
    ]
    odd = Release(plain.path, "r", "A", {}, operators=(EXP.named("a/b"),))
    assert [each.name for each in distinct_operators(odd).values()] == [""]


def test_the_digest_of_options_is_of_contents(tmp_path: Path) -> None:
    def digest(
        directory: str, mode: str, tile: int, *, options: str = "", comment: str = ""
    ) -> str:
        place = tmp_path / directory
        (place / "bank").mkdir(parents=True, exist_ok=True)
        (place / "m.ini").write_text(f"{comment}\nExp={mode}\n")
        (place / "bank/A.json").write_text(str(tile))
        command = "atc --soc_version=A --op_precision_mode=m.ini --op_bank_path=bank"
        return options_digest(_read(place, f"atc = '{command} {options}'"))

    first = digest("one", "high_precision", 4)
    assert digest("two", "high_precision", 4, comment="# approved") == first
    assert digest("one", "high_precision", 4, options="--log=debug --output=o") == first
    assert digest("two", "high_performance", 4) != first
    assert digest("two", "high_precision", 8) != first
    assert digest("two", "high_precision", 4, options="--deterministic=1") != first


MANIFEST = Manifest("atc", "8.1", "A", "0" * 64, {"Exp-1": KernelDigest("Exp()", "f" * 64, 9)})


def test_a_manifest_is_written_whole_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    write_manifest(path, MANIFEST)
    assert read_manifest(path) == MANIFEST
    assert [each.name for each in tmp_path.iterdir()] == ["kernels.json"]


def test_a_manifest_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.mkdir()
    with pytest.raises(ManifestError, match="is no manifest and is left as it is"):
        write_manifest(path, MANIFEST)
    assert [each.name for each in tmp_path.iterdir()] == ["kernels.json"]
    with pytest.raises(ManifestError, match="does not exist; create it or name another"):
        write_manifest(tmp_path / "nowhere/kernels.json", MANIFEST)


def test_what_is_no_manifest_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    path.write_text("soc = 'A'\n")
    with pytest.raises(ManifestError, match=r"release\.toml is no manifest and is left as it is"):
        write_manifest(path, MANIFEST)
    assert path.read_text() == "soc = 'A'\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no manifest"),
        ("{", "is not JSON"),
        ("[]", "is not of schema 1"),
        ('{"schema": 2}', "is not of schema 1"),
        ('{"schema": 1}', "is damaged: 'toolchain' is missing or of another type; take it"),
        (
            '{"schema": 1, "toolchain": {}, "soc": "A", "options": "", "kernels": {}}',
            "'toolchain.name' is missing",
        ),
        (
            '{"schema": 1, "toolchain": {"name": "", "version": ""}, "soc": "A", "options": "", '
            '"kernels": {"a": {"size": 1}}}',
            "the kernel 'a' has not just operator, sha256, size",
        ),
    ],
)
def test_a_bad_manifest_is_refused(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "kernels.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ManifestError, match=str(path)) as refused:
        read_manifest(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (MANIFEST, ""),
        (Manifest("atc", "8.2", "A", "0" * 64, {}), "toolchain version '8.1', and '8.2' is judged"),
        (Manifest("reference", "8.1", "A", "0" * 64, {}), "toolchain 'atc'"),
        (Manifest("atc", "8.1", "B", "0" * 64, {}), "SoC 'A'"),
        (Manifest("atc", "8.1", "A", "1" * 64, {}), "other options"),
    ],
)
def test_manifests_of_other_circumstances_are_not_compared(now: Manifest, message: str) -> None:
    assert message in MANIFEST.unlike(now)
    assert bool(MANIFEST.unlike(now)) is bool(message)


def test_how_kernels_differ_from_the_manifest() -> None:
    exp = MANIFEST.kernels["Exp-1"]
    assert MANIFEST.problems({"Exp-1": exp}) == []
    other = KernelDigest("Exp()", "e" * 64, 9)
    assert "sha256 eeee" in story(MANIFEST.problems({"Exp-1": other}))
    assert "no operator of the release is Exp-1" in story(MANIFEST.problems({}))
    assert "Sqrt() (Sqrt-2) is compiled" in story(
        MANIFEST.problems({"Exp-1": exp, "Sqrt-2": KernelDigest("Sqrt()", "", 0)})
    )
    many = {str(number): exp for number in range(20)}
    assert "and 13 more" in story(MANIFEST.problems(many))


def test_the_manifest_file_is_for_people_too(tmp_path: Path) -> None:
    write_manifest(tmp_path / "k.json", MANIFEST)
    content = json.loads((tmp_path / "k.json").read_text())
    assert content["toolchain"] == {"name": "atc", "version": "8.1"}
    assert content["kernels"] == {"Exp-1": {"operator": "Exp()", "sha256": "f" * 64, "size": 9}}


def test_types_that_small_tables_do_not_have_are_told_apart_from_misspelt_ones() -> None:
    text = "BatchMultiClassNonMaxSuppression=norm_class\nExp=high_precision\n"
    text += "Sqrtt=high_precision\nSQRT=high_precision\n"
    assert unknown_types(text, TABLES) == ["BatchMultiClassNonMaxSuppression"]


def test_settings_that_are_not_followed_are_named(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("export RANK_ID=0\n[ -f x ] && export HCCL_CONNECT_TIMEOUT=60\npython a.py\n")
    assert [*read_job(script).unfollowed] == [2]
    script.write_text("once() {\n  export RANK_ID=1\n}\nsource ./env.sh\nRANK_ID=0 python a.py\n")
    job = read_job(script)
    assert ([*job.unfollowed], job.sourced) == ([2], {4: "./env.sh"})
    for text, reason in (
        ("for i in 0 1; do RANK_ID=$i sudo python a.py & done", "which of its settings sudo hands"),
        ("case $1 in a) export RANK_ID=0;; esac\npython a.py", "whether it counts depends on $1"),
        ("while read h; do RANK_ID=0 python a.py & done", "how often its loop runs"),
        ("cat hosts | xargs -P 2 -I{} env RANK_ID=0 python a.py", "how often its loop runs"),
        ("seq 2 | xargs -0 env RANK_ID=0 python a.py", "what xargs makes of -0 is not known"),
        ("export RANK_ID=0\nsrun python a.py", "how many processes have RANK_ID=0 is not known"),
        ("RANK_ID=0 python a.py\nif true; then", "the grammar is not followed"),
    ):
        script.write_text(text)
        assert [why for why in read_job(script).unfollowed.values() if why.startswith(reason)]


def test_the_precision_file_that_the_command_names_has_the_lines_of_the_kept_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "model.ini").write_text("Exp=high_precision\n")
    text = "soc = 'A'\nprecision_file = 'model.ini'\natc = 'atc --op_precision_mode=old/model.ini'"
    release = _read(tmp_path, text)
    assert kept_file_problems(release) == []
    assert release.precision_file == tmp_path / "model.ini"
    assert "old/model.ini is not here, and was not compared" in uncompared_file(release)
    (tmp_path / "old/model.ini").write_text("Exp=high_performance\n")
    release = _read(tmp_path, text)
    assert release.kernel_options["op_precision_mode"] == str(tmp_path / "old/model.ini")
    assert release.precision_file == tmp_path / "old/model.ini"
    assert uncompared_file(release) == ""
    (problem,) = kept_file_problems(release)
    assert "old/model.ini has other lines than" in problem.found


def test_a_file_of_any_option_is_placed_and_recorded(tmp_path: Path) -> None:
    (tmp_path / "rel.cfg").write_text("a")
    release = _read(tmp_path, "soc = 'A'\natc = 'atc --model_relation_config=rel.cfg'")
    option = "model_relation_config"
    assert release.conversion_options[option] == str(tmp_path / "rel.cfg")
    before = recorded_inputs(release)[f"--{option}"]
    (tmp_path / "rel.cfg").write_text("b")
    assert recorded_inputs(release)[f"--{option}"] != before


@pytest.mark.parametrize(
    "place",
    ["0/kernel_cache/Ascend910B1", "kernel_cache/kernel_cache/Ascend910B1", "Ascend910B1"],
)
def test_a_cache_is_compared_wherever_it_lies_below_a_shipped_directory(
    place: str, tmp_path: Path
) -> None:
    cann_entry(tmp_path / "cards" / place, 1)
    cann_entry(tmp_path / "cards" / place / "deeper", 2)
    release = _read(tmp_path, "soc = 'Ascend910B1'\ncaches = 'cards'")
    (found,) = compared_caches(release)
    assert copy_cache(release, found, tmp_path / "copy")
    assert list((tmp_path / "copy/kernel_cache/Ascend910B1").glob("*.o"))
    assert unusable_caches(release) == []


def test_objects_of_a_shipped_cache_may_be_links(tmp_path: Path) -> None:
    object_path = cann_entry(tmp_path / "cache/kernel_cache/Ascend910B1", 1).object
    object_path.symlink_to(object_path.rename(tmp_path / "store"))
    release = _read(tmp_path, "soc = 'Ascend910B1'\ncaches = 'cache'")
    assert copy_cache(release, tmp_path / "cache", tmp_path / "copy")
    copied = tmp_path / "copy/kernel_cache/Ascend910B1" / object_path.name
    assert copied.read_bytes() == object_path.read_bytes()
    assert not copied.is_symlink()


@pytest.mark.parametrize("name", ["ascend910b1", "Ascend910B1.old"])
def test_a_directory_that_is_spelled_otherwise_serves_nothing(name: str, tmp_path: Path) -> None:
    cann_entry(tmp_path / "cache/kernel_cache" / name, 1)
    release = _read(tmp_path, "soc = 'Ascend910B1'\ncaches = 'cache'")
    assert compared_caches(release) == []
    (problem,) = unusable_caches(release)
    assert f"has kernels of {name} only" in problem.found


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("kernel_cache", None),
        (
            "",
            "c has its kernels in Ascend910B1, and they are looked for in kernel_cache/Ascend910B1",
        ),
        ("kernel_cache/kernel_cache", "c has its kernels in kernel_cache/kernel_cache/Ascend910B1"),
    ],
)
def test_kernels_lie_where_the_commands_own_directory_is_searched(
    place: str, found: str | None, tmp_path: Path
) -> None:
    cann_entry(tmp_path / "c" / place / "Ascend910B1", 1)
    command = "atc --op_compiler_cache_mode=enable --op_compiler_cache_dir=c"
    problems = unusable_caches(
        _read(tmp_path, f"soc = 'Ascend910B1'\natc = '{command}'\ncaches = 'c'")
    )
    assert [found in each.found for each in problems if found] == [True] * (found is not None)
    assert len(problems) == (found is not None)


def test_the_cache_of_the_command_itself_is_to_be_judged(tmp_path: Path) -> None:
    cann_entry(tmp_path / "c/kernel_cache/Ascend910B1", 1)
    command = "atc --op_compiler_cache_mode={} --op_compiler_cache_dir=c"
    text = f"soc = 'Ascend910B1'\natc = '{command}'\n"
    assert own_cache(_read(tmp_path, text.format("enable"))) is not None
    assert own_cache(_read(tmp_path, text.format("force"))) is None
    assert own_cache(_read(tmp_path, text.format("enable") + "caches = 'c'")) is None


def test_cards_with_graphs_are_no_cards_without_a_cache_and_chips_are_compared(
    tmp_path: Path,
) -> None:
    graphs(tmp_path / "cache")
    text = "soc = 'Ascend910B1'\ncards = 2\ncaches = 'cache'"
    assert rank_problems(_read(tmp_path, text)) == []
    for rank in (0, 1):
        rank_kernel(tmp_path / f"cache/rank_{rank}/kernel_meta", "mul", 0)
    (problem,) = rank_problems(_read(tmp_path, text))
    assert "rank_1: has kernels whose names end in _0, for card 0" in problem.found
    shutil.rmtree(tmp_path / "cache/rank_1/kernel_meta")
    kernel = rank_kernel(tmp_path / "cache/rank_0/kernel_meta", "add", 0)
    edit(kernel.metadata.with_suffix(".info"), lambda fields: fields.update(soc="Ascend310P3"))
    (problem,) = rank_problems(_read(tmp_path, text))
    assert "has kernels for Ascend310P3" in problem.found


def test_a_damaged_manifest_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "kernels.json"
    path.write_text('{"schema": 1, "kernels": {}}')
    update_manifest(path, MANIFEST, kernels=MANIFEST.kernels)
    assert read_manifest(path).kernels == MANIFEST.kernels


def test_a_shipped_cache_of_other_chips_only_serves_nothing(tmp_path: Path) -> None:
    (tmp_path / "cache/kernel_cache/Ascend310P3").mkdir(parents=True)
    release = _read(tmp_path, "soc = 'Ascend910B1'\ncaches = 'cache'")
    (problem,) = unusable_caches(release)
    assert "has kernels of Ascend310P3 only, and the release is for Ascend910B1" in problem.found
    (tmp_path / "cache/kernel_cache/Ascend910B1").mkdir()
    assert unusable_caches(release) == []


@pytest.mark.parametrize(
    ("names", "named", "told"),
    [
        ([], 0, "serves no kernel of the release: it has no entry"),
        (["te_add_1.json"], 1, "it has 1 of 3 names, and their files are not taken"),
        (["te_mul_1.json"], 0, "its kernels are of something else"),
    ],
)
def test_why_a_shipped_cache_serves_nothing(
    names: list[str], named: int, told: str, tmp_path: Path
) -> None:
    directory = tmp_path / "cache/kernel_cache/A"
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    release = _read(tmp_path, "soc = 'A'\ncaches = 'cache'")
    used = tmp_path / "used/kernel_cache"
    used.mkdir(parents=True)
    for place, version in ((directory.parent, "7.6"), (used, "8.0")):
        (place / "version.info").write_text(f"adk_version=7\nops_version={version}\n")
    (problem,) = useless(release, tmp_path / "cache", Served(0, 3), "kernel", named, used.parent)
    assert told in problem.found
    versions = "it was filled with ops_version=7.6, and the release compiles with ops_version=8.0"
    assert (versions in problem.found) is bool(named)
