"""The reference's command ascendcache-atc: options, files, errors and exit status.

Most tests call ``atc.run`` in this process; a few start the command as a process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest

from pytest_ascendcache.operators import (
    read_single_op,
    write_single_op,
)
from pytest_ascendcache.reference import atc as atc_command
from pytest_ascendcache.reference import run as run_command
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.om import OmError, OmModel
from tests.reference_sandbox import ABS, ADD, EXP, LOCK, OTHER_SOC, SOC, Done, Sandbox, operator

BERT = Path(__file__).parents[2] / "fixtures/bert_base_encoder_layer.json"


@pytest.fixture
def atc(tmp_path, capsys):
    return Sandbox(tmp_path, capsys)


@contextmanager
def umask(value):
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


# --- the command line -----------------------------------------------------------------------


def test_success_says_so(atc):
    done = atc()
    assert done == Done(0, "ATC run success, welcome to the next use.\n", "")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"op_compiler_cache_mode": "Enable"}, "E10001", ("[Enable]", "--op_compiler_cache_mode")),
        ({"op_compiler_cache_mode": ""}, "E10001", ("[]", "[disable] [enable] [force]")),
        ({"op_compiler_cache_mode": "enable "}, "E10001", ("[enable ]",)),
        ({"op_debug_level": "5"}, "E10001", ("[5]", "--op_debug_level", "[0] [1] [2] [3] [4]")),
        ({"op_debug_level": "-1"}, "E10001", ("[-1]", "--op_debug_level")),
        ({"op_debug_level": "01"}, "E10001", ("[01]", "--op_debug_level")),
        ({"op_debug_level": ""}, "E10001", ("[]", "--op_debug_level")),
        ({"soc_version": "Ascend910Z"}, "E10001", ("[Ascend910Z]", "--soc_version", SOC)),
        ({"soc_version": "ascend910b1"}, "E10001", ("[ascend910b1]", "--soc_version")),
        ({"soc_version": "../Ascend910B1"}, "E10001", ("[../Ascend910B1]", "--soc_version")),
        ({"log": "loud"}, "E10010", ("[loud]", "--log", "[null]")),
        ({"singleop": None}, "E10054", ("[--singleop]",)),
        ({"output": None}, "E10054", ("[--output]",)),
        ({"soc_version": None}, "E10054", ("[--soc_version]",)),
        ({"soc_version": ""}, "E10054", ("[--soc_version]",)),
        ({"no_such_option": "1"}, "E10001", ("--no_such_option=1", "--help")),
        ({"op_compiler_cache": "enable"}, "E10001", ("--op_compiler_cache=enable",)),
        ({"singleop": "/nowhere/x.json"}, "E10023", ("[/nowhere/x.json]", "[--singleop]")),
        ({"singleop": "/"}, "E10023", ("[/]", "[--singleop]")),
        ({"debug_dir": "/nowhere"}, "E40023", ("[/nowhere]", "[--debug_dir]")),
        ({"op_bank_path": "/nowhere"}, "E40023", ("[/nowhere]", "[--op_bank_path]")),
        ({"op_debug_config": "/nowhere"}, "E20101", ("[/nowhere]", "[op_debug_config]")),
        ({"op_debug_config": "/"}, "E20101", ("[/]", "[op_debug_config]")),
        ({"output": "/dev/null"}, "E40023", ("[/dev/null]", "[--output]")),
        ({"output": "/dev/null/x"}, "E40023", ("[/dev/null/x]", "[--output]")),
    ],
)
def test_bad_options(atc, options, code, said):
    atc.refused(code, *said, **options)
    assert not atc.cache.exists()


@pytest.mark.parametrize("words", [["enable"], ["--singleop"], ["-x"]])
def test_words_that_are_no_options(atc, words):
    atc.refused("E10001", "--help", argv=[*atc.argv(), *words])
    assert not atc.cache.exists()


@pytest.mark.parametrize(
    ("text", "code", "phrase"),
    [
        ("", "E10025", "operators.json"),
        ("{", "E10025", "operators.json"),
        ("[{}]", "E10026", "[0].op"),
        ("{}", "E10032", "operators.json"),
        ("[]", "E10032", "no operator"),
        ('[{"op": "Abs", "input_desc": 1}]', "E10032", "input_desc"),
    ],
)
def test_bad_single_op_files(atc, text, code, phrase):
    argv = atc.argv()
    atc.single_op.write_text(text)
    atc.refused(code, phrase, argv=argv)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (operator("NoSuchOperator", name="mine"), ("[mine]", "[NoSuchOperator]")),
        (operator("Abs", dtype="complex64"), ("[abs]", "[Abs]")),
        (operator("Add", name="short"), ("[short]", "[Add]")),
        (operator("Abs", colour=1), ("[abs]", "colour")),
    ],
)
def test_operators_that_cannot_be_compiled(atc, spec, said):
    atc.refused("E40021", *said, operators=(spec,))
    assert atc.entries() == {}


def test_an_output_that_cannot_be_written(atc):
    (atc.output / "abs.om").mkdir(parents=True)
    atc.refused("E40023", "abs.om]", "[--output]")


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version(option, capsys):
    with pytest.raises(SystemExit) as stop:
        atc_command.run([option], {})
    assert stop.value.code == 0
    assert "ascendcache-atc" in capsys.readouterr().out


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit):
        atc_command.run(["--help"], {})
    text = capsys.readouterr().out
    for name in (
        *("singleop", "output", "soc_version", "op_compiler_cache_mode", "op_compiler_cache_dir"),
        *("op_debug_level", "op_debug_config", "debug_dir", "op_bank_path", "log", "version"),
    ):
        assert f"--{name}" in text


def test_the_last_of_two_equal_options_counts(atc):
    assert atc.raw([*atc.argv(), "--op_compiler_cache_mode=disable"]).code == 0
    assert not atc.cache.exists()


@pytest.mark.parametrize("level", ["debug", "info"])
def test_the_log_tells_hits_from_compiles(atc, level):
    assert "compile [te_abs_" in atc(log=level).err
    assert "reuse [te_abs_" in atc(log=level).err
    assert "not used" in atc(log=level, op_compiler_cache_mode="disable").err


# --- .om files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abs", "abs.om"),
        ("A.b-c_9", "A.b-c_9.om"),
        ("n" * 128, "n" * 128 + ".om"),
        ("n" * 200, "n" * 128 + ".om"),
        ("...", "....om"),
        ("scope/abs", None),
        ("..", None),
        (".", None),
        ("", None),
        ("a b", None),
        ("算子", None),
    ],
)
def test_om_names(atc, name, expected):
    atc(ABS.named(name), op_compiler_cache_mode="disable")
    (path,) = atc.output.iterdir()
    if expected is None:
        assert re.fullmatch(r"0_Abs_[A-Za-z0-9_]+\.om", path.name)
    else:
        assert path.name == expected


def test_om_name_of_a_nameless_operator(atc):
    # Facts 6.2: in ATC's enumerations int32 is 3 and ND is 2.
    add = operator("Add", 3, 3, dtype="int32", inputs=2).named("")
    atc(add, op_compiler_cache_mode="disable")
    (path,) = atc.output.iterdir()
    assert path.name == "0_Add_3_2_3_3_3_2_3_3_3_2_3_3.om"


def test_nameless_operators_are_told_apart_by_their_index(atc):
    atc(ABS.named(""), ABS.named(""), EXP, op_compiler_cache_mode="disable")
    names = sorted(path.name for path in atc.output.iterdir())
    assert [name[:5] for name in names] == ["0_Abs", "1_Abs", "exp.o"]


def test_of_two_equal_names_the_later_one_is_delivered(atc):
    atc(ABS.named("same"), EXP.named("same"), op_compiler_cache_mode="disable")
    (path,) = atc.output.iterdir()
    assert OmModel.read(path).operator.type == "Exp"


def test_an_om_carries_the_cached_object_and_its_metadata(atc):
    atc()
    model = OmModel.read(atc.output / "abs.om")
    stem = atc.stem()
    assert model.operator == ABS
    assert (model.soc, model.symbol) == (SOC, f"{stem}__kernel0")
    assert model.object == (atc.soc() / f"{stem}.o").read_bytes()
    assert model.metadata == json.loads((atc.soc() / f"{stem}.json").read_text())


def test_outputs_leave_nothing_beside_them(atc):
    atc(ABS, EXP)
    assert sorted(path.name for path in atc.output.iterdir()) == ["abs.om", "exp.om"]
    assert sorted(path.name for path in atc.home.iterdir()) == []


# --- layout and contents of the cache -------------------------------------------------------


def test_layout(atc):
    atc(ABS, EXP)
    paths = {str(path.relative_to(atc.cache)): path.is_dir() for path in atc.cache.rglob("*")}
    stems = [atc.stem("abs"), atc.stem("exp")]
    assert paths == {
        "op_cache.ini": False,
        "kernel_cache": True,
        "kernel_cache/version.info": False,
        f"kernel_cache/{LOCK}": False,
        f"kernel_cache/{SOC}": True,
        f"kernel_cache/{SOC}/{LOCK}": False,
        **{f"kernel_cache/{SOC}/{stem}{end}": False for stem in stems for end in (".o", ".json")},
    }
    for stem in stems:
        assert re.fullmatch(r"te_(abs|exp)_[0-9a-f]{64}", stem)


@pytest.mark.parametrize(
    ("mask", "directory_mode", "file_mode"),
    [(0o000, 0o750, 0o640), (0o022, 0o750, 0o640), (0o077, 0o700, 0o600)],
)
def test_modes(atc, mask, directory_mode, file_mode):
    with umask(mask):
        atc()
    for path in (atc.cache, *atc.cache.rglob("*")):
        expected = directory_mode if path.is_dir() else file_mode
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_metadata(atc):
    atc(ADD)
    stem = atc.stem("add")
    data = (atc.soc() / f"{stem}.o").read_bytes()
    text = (atc.soc() / f"{stem}.json").read_text()
    assert json.loads(text) == {
        "binFileName": stem,
        "binFileSuffix": ".o",
        "blockDim": 1,
        "coreType": "AiCore",
        "deterministic": "ignore",
        "intercoreSync": 0,
        "kernelName": f"{stem}__kernel0",
        "magic": "RT_DEV_BINARY_MAGIC_ELF",
        "memoryStamping": [],
        "opParaSize": 0,
        "parameters": [0, 0, 0],
        "sha256": hashlib.sha256(data).hexdigest(),
        "workspace": {"num": 0, "size": [], "type": []},
    }
    assert text == json.dumps(json.loads(text), indent=4, sort_keys=True)


def test_an_operator_twice_in_one_run_is_compiled_once(atc):
    log = atc(ABS, ABS.named("again"), op_compiler_cache_mode="disable", log="info").err
    assert log.count("compile [") == 1
    assert atc.kernel("abs") == atc.kernel("again")


@pytest.mark.parametrize("change", [{"blockDim": 2}, {"kernelName": "other"}, {"extra": 1}])
def test_metadata_that_is_not_ours_is_not_served(atc, change):
    atc()
    path = atc.soc() / f"{atc.stem()}.json"
    original = path.read_text()
    path.write_text(json.dumps({**json.loads(original), **change}))
    assert "compile [" in atc(log="info").err
    assert path.read_text() == original
    assert "reuse [" in atc(log="info").err


# --- where the cache is ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "environment", "expected"),
    [
        ("option", "environment", "option"),
        ("option", None, "option"),
        (None, "environment", "environment"),
        (None, " \tenvironment\t ", "environment"),
        (None, None, "home/atc_data"),
        (None, "", "home/atc_data"),
        (None, "  ", "home/atc_data"),
        ("", "", "home/atc_data"),
    ],
)
def test_precedence_of_directories(atc, monkeypatch, option, environment, expected):
    monkeypatch.chdir(atc.root)  # relative directories are relative to the working directory
    environ = {} if environment is None else {"ASCEND_CACHE_PATH": environment}
    atc(environ=environ, op_compiler_cache_dir=option)
    assert [path.parent for path in atc.root.rglob("kernel_cache")] == [atc.root / expected]


def test_without_home_the_root_directory():
    assert DirectoryPolicy().root("", {}) == Path("/atc_data")


@pytest.mark.parametrize("character", [" ", "~", ":", "+", "@", "$", "*", "\n", "\\", ","])
@pytest.mark.parametrize("origin", ["--op_compiler_cache_dir", "ASCEND_CACHE_PATH"])
def test_bad_characters(atc, character, origin):
    path = f"{atc.root}/a中文{character}b"
    settings = {"op_compiler_cache_dir": None, "environ": {"ASCEND_CACHE_PATH": path}}
    if origin.startswith("--"):
        settings = {"op_compiler_cache_dir": path}
    if character == "\n":
        assert atc.raw(atc.argv(op_compiler_cache_dir=path)).code == 255
    else:
        atc.refused("E40023", f"[{path}]", f"[{origin}]", repr(character), **settings)
    assert not list(atc.root.glob("a*"))


def test_good_characters(atc):
    atc.cache = atc.root / "Az09.-_中文é"
    atc()
    assert len(atc.entries()) == 2


def test_the_home_directory_may_have_any_name(atc):
    home = atc.root / "my home $1"
    atc(op_compiler_cache_dir=None, environ={"HOME": str(home)})
    assert (home / "atc_data/kernel_cache").is_dir()


@pytest.mark.parametrize("origin", ["--op_compiler_cache_dir", "ASCEND_CACHE_PATH", "HOME"])
def test_directories_that_cannot_be_created(atc, origin):
    file = atc.root / "file"
    file.touch()
    settings = {
        "--op_compiler_cache_dir": {"op_compiler_cache_dir": file / "c"},
        "ASCEND_CACHE_PATH": {
            "op_compiler_cache_dir": None,
            "environ": {"ASCEND_CACHE_PATH": str(file / "c")},
        },
        "HOME": {"op_compiler_cache_dir": None, "environ": {"HOME": str(file)}},
    }[origin]
    message = atc.refused("E40023", f"[{file}", **settings)
    assert f"[{origin}]" in message or f"${origin}" in message


def test_disable_does_not_look_at_the_directory(atc):
    atc(op_compiler_cache_mode="disable", op_compiler_cache_dir="/dev/null/not $ there")
    assert not atc.cache.exists()


# --- purging --------------------------------------------------------------------------------


def install(root: Path, version: str) -> dict[str, str]:
    opp = root / "opp"
    opp.mkdir(exist_ok=True)
    (opp / "version.info").write_text(f"Name=x\nVersion={version}\n")
    return {"ASCEND_OPP_PATH": str(opp)}


@pytest.mark.parametrize(
    ("mode", "options"),
    [("disable", {}), ("enable", {"op_debug_level": 3}), ("force", {"op_debug_level": 1})],
)
def test_a_run_without_cache_purges_nothing_for_another_version(atc, mode, options):
    environ = install(atc.root, "1.0")
    atc(environ=environ)
    before = atc.entries()
    install(atc.root, "2.0")
    options = {"debug_dir": atc.home, **options}
    atc(environ=environ, op_compiler_cache_mode=mode, **options)
    assert atc.entries() == before


def test_a_missing_version_file_is_a_version_like_any(atc):
    (atc.root / "opp").mkdir()
    environ = {"ASCEND_OPP_PATH": str(atc.root / "opp")}
    atc(environ=environ)
    before = atc.entries()
    atc(environ=environ)
    assert atc.entries() == before


def test_force_removes_everything_of_the_soc_but_the_lock(atc):
    atc(ABS)
    atc(ABS, soc_version=OTHER_SOC)
    lock, other = (atc.soc() / LOCK).stat().st_ino, atc.entries(OTHER_SOC)
    (atc.soc() / "te_half.o").touch()
    (atc.soc() / ".x.1.temp").touch()
    (atc.soc() / "sub/deep").mkdir(parents=True)
    (atc.soc() / "sub/deep/file").touch()
    atc(EXP, op_compiler_cache_mode="force")
    stem = atc.stem("exp")
    assert sorted(path.name for path in atc.soc().iterdir()) == [LOCK, f"{stem}.json", f"{stem}.o"]
    assert (atc.soc() / LOCK).stat().st_ino == lock
    assert atc.entries(OTHER_SOC) == other


def test_another_version_leaves_no_old_entry_behind_a_soc_link(atc):
    environ = install(atc.root, "1.0")
    atc(environ=environ, soc_version=OTHER_SOC)
    atc.soc(OTHER_SOC).rename(atc.root / "moved")
    atc.soc(OTHER_SOC).symlink_to(atc.root / "moved")
    install(atc.root, "2.0")
    atc(environ=environ)
    log = atc.raw(atc.argv(soc_version=OTHER_SOC, log="info"), environ).err
    assert "reuse [" not in log


@pytest.mark.parametrize("end", [".o", ".json"])
@pytest.mark.parametrize("thing", ["link", "dangling", "pipe", "directory"])
def test_what_is_no_file_is_not_served_and_replaced(atc, end, thing):
    atc()
    path = atc.soc() / f"{atc.stem()}{end}"
    target = atc.root / "target"
    path.rename(target)
    contents = target.read_bytes()
    if thing == "link":
        path.symlink_to(target)
    elif thing == "dangling":
        path.symlink_to(atc.root / "nowhere")
    elif thing == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert "compile [" in atc(log="info").err
    assert target.read_bytes() == contents
    assert stat.S_ISREG(path.lstat().st_mode)
    assert not (atc.root / "nowhere").exists()
    assert "reuse [" in atc(log="info").err


# --- knowledge base and custom operators ----------------------------------------------------


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("", ""),
        ("[]", "top level"),
        ("{", ""),
        ('{"Abs": 4}', "[Abs]"),
        ('{"Abs": {"tile": 0}}', "0"),
        ('{"Abs": {"tile": 4097}}', "4097"),
        ('{"Abs": {"tile": true}}', "True"),
        ('{"Abs": {"tile": "4"}}', "'4'"),
        ('{"Abs": {"size": 4}}', "size"),
        ("[" * 100_000, ""),
    ],
)
@pytest.mark.parametrize("origin", ["--op_bank_path", "TUNE_BANK_PATH"])
def test_bad_knowledge_bases(atc, text, phrase, origin):
    path = atc.home / f"{SOC}.json"
    path.write_text(text)
    settings = {"op_bank_path": atc.home}
    if origin == "TUNE_BANK_PATH":
        settings = {"environ": {"TUNE_BANK_PATH": str(atc.home)}}
    atc.refused("E40023", f"[{path}]", f"[{origin}]", phrase, **settings)


def test_force_with_a_bad_knowledge_base_removes_nothing(atc):
    atc()
    before = atc.entries()
    atc.refused("E40023", op_bank_path="/nowhere", op_compiler_cache_mode="force")
    assert atc.entries() == before


def test_the_option_beats_the_variable_and_other_socs_have_no_knowledge(atc):
    (atc.home / f"{OTHER_SOC}.json").write_text("not read")
    atc(op_bank_path=atc.home, environ={"TUNE_BANK_PATH": "/nowhere"})


def package(root: Path, source: str | bytes) -> dict[str, str]:
    path = root / "custom/op_impl/ai_core/tbe/impl/mine.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    return {"ASCEND_CUSTOM_OPP_PATH": str(root / "custom")}


@pytest.mark.parametrize(
    ("source", "phrase"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError"),
        ("import no_such_module\n", "no_such_module"),
        (b"\xff\xfe", "UnicodeDecodeError"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
    ],
)
def test_bad_custom_operators(atc, source, phrase):
    environ = package(atc.root, source)
    atc.refused("E40021", "mine.py]", phrase, environ=environ)
    assert not atc.cache.exists()


def test_a_package_without_modules_is_fine(atc):
    atc(environ={"ASCEND_CUSTOM_OPP_PATH": str(atc.root / "nowhere")})


# --- debugging ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("", "empty"),
        ("# only a comment\n", "empty"),
        ("op_debug_config\n", "line 1"),
        ("\n\nop_debug_confg = oom\n", "line 3"),
        ("op_debug_config =\n", "[op_debug_config]"),
        ("op_debug_config = ,\n", "[op_debug_config]"),
        ("op_debug_config = oom\nop_debug_list = \n", "[op_debug_list]"),
        ("op_debug_config = oom, fast\n", "[fast]"),
        ("op_debug_config = OOM\n", "[OOM]"),
        ("junk", "[junk]"),
    ],
)
@pytest.mark.parametrize("mode", ["enable", "force"])
def test_bad_debug_files(atc, text, phrase, mode):
    atc()
    before = atc.entries()
    path = atc.root / "debug.cfg"
    path.write_text(text)
    atc.refused(
        "E20003",
        f"[{path}]",
        "[op_debug_config]",
        phrase,
        operators=(EXP,),
        op_debug_config=path,
        op_compiler_cache_mode=mode,
    )
    assert atc.entries() == before


def test_a_binary_debug_file(atc):
    path = atc.root / "debug.cfg"
    path.write_bytes(b"\xff\xfe")
    atc.refused("E20101", f"[{path}]", "[op_debug_config]", op_debug_config=path)


@pytest.mark.parametrize(
    ("level", "switches", "expected"),
    [
        (0, None, set()),
        (1, None, {".o", ".json", ".cce", "_loc.json"}),
        (2, None, {".o", ".json", ".cce", "_loc.json"}),
        (3, None, {".o", ".json"}),
        (4, None, {".o", ".json", ".cce"}),
        (0, "ccec_g", {".o", ".json"}),
        (0, "dump_cce,dump_loc", {".o", ".json", ".cce", "_loc.json"}),
        (3, "dump_cce", {".o", ".json", ".cce"}),
    ],
)
def test_what_debugging_keeps(atc, level, switches, expected):
    config = None
    if switches:
        config = atc.root / "debug.cfg"
        config.write_text(f"\ufeffop_debug_config={switches}\n")
    atc(op_debug_level=level, op_debug_config=config, debug_dir=atc.home)
    kept = list(atc.home.rglob("*.*"))
    assert {path.parent for path in kept} <= {atc.home / "kernel_meta"}
    assert {re.sub(r"^te_abs_[0-9a-f]{64}", "", path.name) for path in kept} == expected
    assert atc.cache.exists() is not bool(expected)
    if expected:
        (metadata,) = [path for path in kept if re.fullmatch(r"te_abs_\w{64}\.json", path.name)]
        fields = json.loads(metadata.read_text())
        data = metadata.with_suffix(".o").read_bytes()
        assert fields["sha256"] == hashlib.sha256(data).hexdigest()
        assert data == atc.kernel()


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        ("option", "variable", "option"),
        (None, "variable", "variable"),
        (None, None, "here"),
        (None, "", "here"),
    ],
)
def test_where_debugging_keeps_it(atc, monkeypatch, option, variable, expected):
    for name in ("option", "variable", "here"):
        (atc.root / name).mkdir()
    monkeypatch.chdir(atc.root / "here")
    environ = {"ASCEND_WORK_PATH": str(atc.root / variable) if variable else ""}
    atc(op_debug_level=3, debug_dir=option and atc.root / option, environ=environ)
    parents = [path.parent.name for path in atc.root.rglob("kernel_meta")]
    assert parents == [expected]


def test_a_work_path_that_cannot_be_used_is_named(atc):
    environ = {"ASCEND_WORK_PATH": "/dev/null"}
    atc.refused("E40023", "[/dev/null", "ASCEND_WORK_PATH", op_debug_level=3, environ=environ)


# --- a network, and real processes ----------------------------------------------------------


def test_a_bert_layer_is_reused_whole(atc):
    atc(*read_single_op(BERT))
    before = atc.entries()
    delivered = {path.name: path.read_bytes() for path in atc.output.iterdir()}
    assert len(delivered) == len(read_single_op(BERT))
    assert len(before) % 2 == 0
    log = atc(*read_single_op(BERT), log="info").err
    assert "compile [" not in log
    assert atc.entries() == before
    assert delivered == {path.name: path.read_bytes() for path in atc.output.iterdir()}


def command(module, *arguments, **options):
    """Run one of the reference's commands as a process."""
    done = subprocess.run(
        [sys.executable, "-m", f"pytest_ascendcache.reference.{module}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_story_compile_reuse_and_run(atc):
    environ = {"HOME": str(atc.home), "PATH": os.environ["PATH"]}
    argv = atc.argv(ADD, op_compiler_cache_dir=None)
    assert command("atc", *argv, env=environ) == Done(
        0, "ATC run success, welcome to the next use.\n", ""
    )
    atc.cache = atc.home / "atc_data"
    before, model = atc.entries(), (atc.output / "add.om").read_bytes()
    assert "reuse [" in atc(ADD, log="info").err  # reuses the other process's entry
    assert atc.entries() == before
    assert (atc.output / "add.om").read_bytes() == model

    left, right = numpy.float32([1, 2, 3, -4]), numpy.float32([0.5, -2, 1e-3, 4])
    numpy.savez(atc.root / "in.npz", **{"0": left, "1": right})
    done = command("run", atc.output / "add.om", atc.root / "in.npz", atc.root / "out.npz")
    assert done == Done(0, "", "")
    with numpy.load(atc.root / "out.npz") as archive:
        assert archive.files == ["0"]
        assert archive["0"].tolist() == (left + right).tolist()


@pytest.mark.parametrize(
    ("words", "code", "phrase"),
    [
        (["--help"], 0, "usage: ascendcache-atc"),
        (["--op_compiler_cache_mode=on"], 255, "E10054"),
        (["--no_such_option"], 255, "--no_such_option"),
    ],
)
def test_exit_status_of_the_process(words, code, phrase):
    done = command("atc", *words)
    assert done.code == code
    assert phrase in done.out + done.err


def test_a_custom_operator_changes_with_its_source(atc):
    source = (
        "from pytest_ascendcache.reference.kernels.elementwise import elementwise\n\n\n"
        '@elementwise("MyProbe")\ndef probe(_, x):\n    return x {} x\n'
    )
    environ = {"PATH": os.environ["PATH"], **package(atc.root, source.format("+"))}
    argv = atc.argv(operator("MyProbe"))
    assert command("atc", *argv, env=environ).code == 0
    old = atc.kernel("myprobe")
    shutil.rmtree(atc.root / "custom")
    package(atc.root, source.format("*"))
    assert command("atc", *argv, "--op_compiler_cache_mode=force", env=environ).code == 0
    assert atc.kernel("myprobe") != old
    assert not list(atc.root.rglob("__pycache__"))


# --- ascendcache-run ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """An ``.om`` of Abs(float32[4])."""
    directory = tmp_path_factory.mktemp("model")
    write_single_op(directory / "operators.json", (ABS,))
    argv = [f"--singleop={directory}/operators.json", f"--output={directory}"]
    assert atc_command.run([*argv, f"--soc_version={SOC}"], {}) == 0
    return directory / "abs.om"


GOOD = numpy.float32([1, -2, 3, -4])


@pytest.mark.parametrize(
    ("arrays", "phrase"),
    [
        ({"0": numpy.float32([1, 2, 3])}, "input 0 is float32[3]; the kernel takes float32[4]"),
        ({"0": numpy.float32([[1, 2, 3, 4]])}, "float32[1, 4]"),
        ({"0": numpy.float64([1, 2, 3, 4])}, "float64[4]"),
        ({"0": GOOD.astype(">f4")}, "float32"),
        ({"1": GOOD}, "0"),
        ({}, "0"),
    ],
)
def test_wrong_inputs(model, tmp_path, capsys, arrays, phrase):
    numpy.savez(tmp_path / "in.npz", **arrays)
    arguments = [str(model), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    assert run_command.run(arguments, {}) == 255
    out, err = capsys.readouterr()
    assert out.startswith("ascendcache-run: ")
    assert phrase in out
    assert err == ""
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("contents", [b"", b"text", b"PK\x03\x04", b"\x93NUMPY\x01\x00"], ids=repr)
def test_unreadable_inputs(model, tmp_path, contents):
    (tmp_path / "in.npz").write_bytes(contents)
    done = command("run", model, tmp_path / "in.npz", tmp_path / "out.npz")
    assert done.code == 255, done.err
    assert done.out.startswith("ascendcache-run: ")
    assert done.err == ""


def test_missing_files(model, tmp_path, capsys):
    missing = str(tmp_path / "missing")
    for arguments in ([str(model), missing, missing], [missing, str(model), missing]):
        assert run_command.run(arguments, {}) == 255
        out, err = capsys.readouterr()
        assert out.startswith("ascendcache-run: ")
        assert missing in out
        assert err == ""


def damaged(data: bytes, how: str) -> bytes:
    at = data.index(b"\x7fELF")
    if how == "flipped kernel":
        return data[: at + 70] + bytes([data[at + 70] ^ 1]) + data[at + 71 :]
    return {
        "empty": b"",
        "text": b"text",
        "half": data[: len(data) // 2],
        "no tail": data[:-1],
        "digest": data.replace(b'"sha256": "', b'"sha256": "_', 1)[:-1],
    }[how]


@pytest.mark.parametrize("how", ["empty", "text", "half", "no tail", "digest", "flipped kernel"])
def test_damaged_models(model, tmp_path, capsys, how):
    path = tmp_path / "damaged.om"
    path.write_bytes(damaged(model.read_bytes(), how))
    numpy.savez(tmp_path / "in.npz", **{"0": GOOD})
    arguments = [str(path), str(tmp_path / "in.npz"), str(tmp_path / "out.npz")]
    assert run_command.run(arguments, {}) == 255
    out, err = capsys.readouterr()
    assert f"[{path}]" in out
    assert err == ""


def rewritten(model: Path, path: Path, **members: bytes) -> Path:
    """Copy a container with changed members and a matching digest."""
    with zipfile.ZipFile(model) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    held.update({name.replace("_", "."): data for name, data in members.items()})
    if "kernel_o" in members:
        manifest = json.loads(held["manifest.json"])
        manifest["sha256"] = hashlib.sha256(held["kernel.o"]).hexdigest()
        held["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "manifest",
    [b"", b"[]", b"{}", b"null", b'{"version": 1}', b'{"version": 2}', b"[" * 100_000],
    ids=lambda text: text[:20].decode(),
)
def test_bad_manifests(model, tmp_path, manifest):
    path = rewritten(model, tmp_path / "x.om", manifest_json=manifest)
    with pytest.raises(OmError, match=re.escape(f"[{path}]")):
        OmModel.read(path)


def test_a_flipped_byte_of_a_model_is_noticed_or_harmless(model, tmp_path):
    """Every seventh byte: headers, names and digests are longer than that."""
    data = model.read_bytes()
    good = OmModel.read(model)
    kernel = range(data.index(good.object) + 8, data.index(good.object) + len(good.object))
    path, noticed = tmp_path / "x.om", []
    for index in sorted(set(range(0, len(data), 7)) - set(kernel)):
        path.write_bytes(data[:index] + bytes([data[index] ^ 0x09]) + data[index + 1 :])
        try:
            served = OmModel.read(path).object
        except OmError as error:
            noticed.append(str(error))
        else:
            assert served == good.object
    assert len(noticed) > 100
    assert all(f"[{path}]" in each for each in noticed)


def test_a_kernel_that_is_no_object_ends_the_process_without_outputs(model, tmp_path):
    path = rewritten(model, tmp_path / "x.om", kernel_o=b"no object at all")
    numpy.savez(tmp_path / "in.npz", **{"0": GOOD})
    assert command("run", path, tmp_path / "in.npz", tmp_path / "out.npz").code != 0
    assert not (tmp_path / "out.npz").exists()
