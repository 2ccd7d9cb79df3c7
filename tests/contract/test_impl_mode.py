"""Implementation modes: the two readings of document I agree; errors of the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_ascendcache.contract import (
    CacheMode,
    CompileOptions,
    ImplModeTables,
    PrecisionFile,
    SelectMode,
)
from pytest_ascendcache.operators import OperatorSpec, TensorDesc, write_single_op
from pytest_ascendcache.reference import atc
from pytest_ascendcache.reference.errors import AtcError
from pytest_ascendcache.reference.impl_mode import (
    BUILT_IN,
    TABLES,
    ImplementationPolicy,
    ImplModeTable,
)
from pytest_ascendcache.reference.kernels import Implementation, implementations, operator_types
from pytest_ascendcache.reference.om import OmModel
from pytest_ascendcache.reference.options import OptionPolicy

PRECISE, FAST = "high_precision", "high_performance"
TEXTS = {path.stem: path.read_text() for path in BUILT_IN.glob("*.ini")}


def operator(kind: str, name: str = "", dtype: str = "float16") -> OperatorSpec:
    tensor = TensorDesc.of(dtype, 4)
    return OperatorSpec(kind, (tensor,), (tensor,), name=name or kind.lower())


EXP, SQRT, TANH = operator("Exp"), operator("Sqrt"), operator("Tanh")


# --- the tables --------------------------------------------------------------------------------


def test_the_installation_has_the_five_tables():
    assert set(TEXTS) == {"all_ops_impl_mode", *(mode.value for mode in SelectMode)}


def test_the_tables_name_only_operators_the_compiler_has():
    for text in TEXTS.values():
        assert {line.partition("=")[0] for line in text.splitlines()} <= set(operator_types())


@pytest.mark.parametrize("kind", operator_types())
def test_both_modes_are_offered_where_there_are_two_implementations(kind):
    offered = ImplementationPolicy().offered({}).get(kind, frozenset())
    both = len(implementations(operator(kind))) == 2
    assert both is (offered >= {each.value for each in Implementation})


@pytest.mark.parametrize(
    ("mode", "exp", "tanh", "conv"),
    [
        ("high_performance", FAST, PRECISE, None),
        ("high_precision", PRECISE, PRECISE, None),
        ("high_performance_for_all", FAST, FAST, "enable_hi_float_32_execution"),
        ("high_precision_for_all", PRECISE, PRECISE, "enable_float_32_execution"),
    ],
)
def test_what_the_tables_say(mode, exp, tanh, conv):
    table = ImplementationPolicy().built_in(mode, {}).by_type
    assert (table["Exp"], table["Tanh"], table.get("Conv2D")) == (exp, tanh, conv)


# --- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "by_type", "by_name"),
    [
        ("", {}, {}),
        ("Exp=high_precision", {"Exp": PRECISE}, {}),
        ("Exp = high_precision \r\n\r\n", {"Exp": PRECISE}, {}),
        ("\ufeffExp=high_precision\n", {"Exp": PRECISE}, {}),
        ("# Exp=high_performance\nExp=high_precision\n", {"Exp": PRECISE}, {}),
        ("Exp=high_precision\nExp=high_performance\n", {"Exp": PRECISE}, {}),
        ("[ByNodeName]\nexp=high_precision\n", {}, {"exp": PRECISE}),
        (
            "[ByNodeName]\nn=high_precision\n[ByOpType]\nExp=high_performance\n",
            {"Exp": FAST},
            {"n": PRECISE},
        ),
        ("Conv2D=keep_fp16\n", {"Conv2D": "keep_fp16"}, {}),
    ],
)
def test_a_precision_file_is_read(tmp_path, text, by_type, by_name):
    path = tmp_path / "network.ini"
    path.write_bytes(text.encode())
    assert ImplementationPolicy().precision_file(str(path)) == ImplModeTable(by_type, by_name)


@pytest.mark.parametrize(
    ("content", "phrase"),
    [
        (b"Exp=high_precision\nSqrt\n", "line 2 is [Sqrt]; write"),
        (b"[ByType]\nExp=high_precision\n", "line 1 is [[ByType]]; write"),
        (b"=high_precision\n", "line 1 is [=high_precision]; write"),
        (b"Exp=\n", "line 1 is [Exp=]; write"),
        (b"Exp=precise\n", "line 1 gives [Exp] the mode [precise]; use one of high_performance"),
        (b"Exp=high_precision Sqrt=high_performance\n", "[high_precision Sqrt=high_performance]"),
        (b"Exp=high_precision,high_performance\n", "[high_precision,high_performance]"),
    ],
)
def test_a_bad_line_is_one_sentence(tmp_path, content, phrase):
    path = tmp_path / "network.ini"
    path.write_bytes(content)
    with pytest.raises(AtcError) as raised:
        ImplementationPolicy().precision_file(str(path))
    assert raised.value.code == "E20003"
    assert phrase in str(raised.value)
    assert f"[{path}] for parameter [op_precision_mode]" in str(raised.value)
    assert str(raised.value).endswith(".")


def test_a_file_may_be_missing_table_by_table(tmp_path):
    """Each table below ASCEND_OPP_PATH replaces one built-in table. The others stay in effect."""
    directory = tmp_path / TABLES
    directory.mkdir(parents=True)
    (directory / "high_precision.ini").write_text("Tanh=high_performance")
    environ, policy = {"ASCEND_OPP_PATH": str(tmp_path)}, ImplementationPolicy()
    assert policy.built_in("high_precision", environ).by_type == {"Tanh": FAST}
    assert policy.built_in("high_performance", environ) == policy.built_in("high_performance", {})
    (directory / "all_ops_impl_mode.ini").write_text("Exp=high_precision\nOdd=optional\n")
    assert policy.offered(environ) == {
        "Exp": frozenset({PRECISE}),
        "Odd": frozenset({"optional"}),
    }


# --- resolution, in both readings --------------------------------------------------------------

SELECTIONS = [
    ({}, {"Exp": FAST, "Tanh": PRECISE, "Mul": None}),
    ({"select": "high_performance"}, {"Exp": FAST, "Tanh": PRECISE, "Mul": None}),
    ({"select": "high_precision"}, {"Exp": PRECISE, "Tanh": PRECISE}),
    ({"select": "high_performance_for_all"}, {"Exp": FAST, "Tanh": FAST, "Conv2D": "*"}),
    ({"select": "high_precision_for_all"}, {"Exp": PRECISE, "Tanh": PRECISE}),
    ({"select": "high_performance", "types": ("Tanh",)}, {"Exp": None, "Tanh": FAST}),
    ({"select": "high_precision", "types": ("Exp", "Mul")}, {"Exp": PRECISE, "Mul": None}),
    ({"select": "high_performance_for_all", "types": ("Exp",)}, {"Exp": FAST, "Tanh": FAST}),
    ({"file": "Exp=high_precision"}, {"Exp": PRECISE, "Sqrt": None}),
    ({"file": "", "select": "high_precision"}, {"Exp": None, "Sqrt": None}),
    (
        {"file": "Exp=high_precision", "select": "high_performance", "types": ("Exp", "Sqrt")},
        {"Exp": PRECISE, "Sqrt": None},
    ),
    (
        {"file": "[ByNodeName]\nexp=high_precision\n[ByOpType]\nExp=high_performance"},
        {"Exp": PRECISE},
    ),
    ({"file": "Exp=super_performance\nMish=super_performance"}, {"Exp": None, "Mish": "*"}),
    ({"file": "Mul=high_performance"}, {"Mul": None}),
]


@pytest.mark.parametrize(("given", "modes"), SELECTIONS)
def test_which_mode_an_operator_is_given(tmp_path, given, modes):
    argv = ["--singleop=x", "--output=y", "--soc_version=z"]
    file = given.get("file")
    if "select" in given:
        argv.append(f"--op_select_implmode={given['select']}")
    if "types" in given:
        argv.append(f"--optypelist_for_implmode={','.join(given['types'])}")
    if file is not None:
        (tmp_path / "network.ini").write_text(file)
        argv.append(f"--op_precision_mode={tmp_path / 'network.ini'}")
    policy = ImplementationPolicy()
    selected = policy.select(OptionPolicy().parse(argv), {})
    options = CompileOptions(
        select_implmode=SelectMode(given["select"]) if "select" in given else None,
        implmode_types=given.get("types"),
        precision_file=None if file is None else PrecisionFile(file),
    )
    tables = ImplModeTables.read(TEXTS)
    for kind, expected in modes.items():
        here, there = policy.mode(operator(kind), selected), tables.mode(options, operator(kind))
        assert here == there
        assert here not in (None, PRECISE, FAST) if expected == "*" else here == expected


def test_a_mode_the_compiler_does_not_implement_is_not_applied(tmp_path):
    (tmp_path / "network.ini").write_text("Mish=super_performance\nExp=high_performance")
    policy = ImplementationPolicy()
    argv = ["--singleop=x", "--output=y", "--soc_version=z"]
    argv.append(f"--op_precision_mode={tmp_path / 'network.ini'}")
    selected = policy.select(OptionPolicy().parse(argv), {})
    assert policy.choose(operator("Mish"), [PRECISE, FAST], selected) == PRECISE
    assert policy.choose(EXP, [PRECISE, FAST], selected) == FAST
    assert policy.choose(EXP, [PRECISE], selected) == PRECISE


# --- the contract only --------------------------------------------------------------------------


def test_when_two_sets_of_options_select_one_kernel():
    tables = ImplModeTables.read(TEXTS)
    none, precise = CompileOptions(), CompileOptions(select_implmode=SelectMode.HIGH_PRECISION)
    listed = precise.but(implmode_types=("Sqrt",))
    assert tables.same_kernel(none, precise, EXP) is False
    assert tables.same_kernel(none, precise, TANH) is True
    assert tables.same_kernel(none, precise, operator("Exp", dtype="float32")) is True
    assert tables.same_kernel(none, precise, operator("Abs")) is True
    assert tables.same_kernel(none, listed, EXP) is None
    assert tables.same_kernel(listed, listed.but(implmode_types=("Abs",)), EXP) is True


@pytest.mark.parametrize(
    ("kind", "other", "is_open", "same"),
    [
        ("Exp", {"types": ("Sqrt",)}, True, None),  # its own table may still decide
        ("Exp", {"types": ("Exp",)}, False, False),
        ("Tanh", {"types": ("Sqrt",)}, True, True),  # both plain tables say the same of it
        ("Tanh", {"types": ("Tanh",)}, False, False),
        ("Mul", {"types": ("Mul",)}, False, True),
        ("Exp", {"file": "Sqrt=high_precision"}, True, None),
        ("Exp", {"file": "Exp=high_precision"}, False, True),
        ("Tanh", {"file": "Tanh=super_performance"}, True, True),  # not offered: as if not named
        ("Abs", {"file": "Sqrt=high_precision"}, False, True),
    ],
)
def test_what_options_do_with_operators_that_they_do_not_name_is_open(kind, other, is_open, same):
    tables, file = ImplModeTables.read(TEXTS), other.get("file")
    named = {
        "implmode_types": other.get("types"),
        "precision_file": None if file is None else PrecisionFile(file),
    }
    one, two = (
        CompileOptions(select_implmode=SelectMode(each), **named) for each in (PRECISE, FAST)
    )
    assert tables.is_open(one, operator(kind)) is is_open
    assert tables.same_kernel(one, two, operator(kind)) is same


def test_cache_mode_and_debugging_do_not_choose_an_entry():
    chosen = CompileOptions(soc="Ascend310P3", select_implmode=SelectMode.HIGH_PRECISION)
    assert chosen.but(cache_mode=CacheMode.FORCE, debug_level=1).entry_choice == chosen
    assert chosen.but(implmode_types=("Exp",)).entry_choice != chosen


def test_a_line_of_a_precision_file_is_changed_in_place():
    file = PrecisionFile("# x\r\nExp = high_precision\r\nSqrt=high_precision")
    assert file.but("Exp", FAST).content == "# x\r\nExp = high_performance\r\nSqrt=high_precision"
    assert file.but("Sqrt", FAST).content.endswith("\r\nSqrt=high_performance")
    assert file.but("Tanh", FAST).content == f"Tanh={FAST}\n{file.content}"


def test_a_missing_table_is_named():
    with pytest.raises(KeyError, match="high_precision_for_all"):
        ImplModeTables.read({k: v for k, v in TEXTS.items() if k != "high_precision_for_all"})


# --- through the command ------------------------------------------------------------------------


@pytest.fixture
def command(tmp_path, capsys):
    """Runs the command on float16 Exp, Sqrt and Tanh under force. Returns its output."""
    write_single_op(tmp_path / "operators.json", (EXP, SQRT, TANH))

    def run(code: int, *options: str, mode: str = "force", environ: dict[str, str] | None = None):
        argv = [
            f"--singleop={tmp_path / 'operators.json'}",
            f"--output={tmp_path / 'out'}",
            "--soc_version=Ascend910B1",
            f"--op_compiler_cache_mode={mode}",
            f"--op_compiler_cache_dir={tmp_path / 'cache'}",
            *options,
        ]
        capsys.readouterr()
        assert atc.run(argv, {"HOME": str(tmp_path), **(environ or {})}) == code
        return capsys.readouterr().out.splitlines()

    return run


def entries(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in root.rglob("te_*")}


def test_only_operators_that_change_their_mode_get_another_entry(command, tmp_path):
    command(0, mode="enable")
    first = entries(tmp_path)
    command(0, "--op_select_implmode=high_performance", mode="enable")
    assert entries(tmp_path) == first
    command(0, "--op_select_implmode=high_precision", mode="enable")
    added = set(entries(tmp_path)) - set(first)
    assert sorted(name.split("_")[1] for name in added) == ["exp", "exp", "sqrt", "sqrt"]


def test_tables_of_the_installation_are_used(command, tmp_path):
    command(0)
    before = OmModel.read(tmp_path / "out/exp.om").object
    directory = tmp_path / "opp" / TABLES
    directory.mkdir(parents=True)
    environ = {"ASCEND_OPP_PATH": str(tmp_path / "opp")}
    (directory / "all_ops_impl_mode.ini").write_text("Exp=high_precision")
    command(0, environ=environ)
    assert OmModel.read(tmp_path / "out/exp.om").object != before
    (directory / "high_performance.ini").write_text("Exp")
    assert "[Exp]; write" in command(255, environ=environ)[1]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (
            ["--op_select_implmode=fast"],
            "E10001",
            "Value [fast] for parameter [--op_select_implmode] is invalid. It must be one of "
            "[high_performance] [high_performance_for_all] [high_precision] "
            "[high_precision_for_all].",
        ),
        (
            ["--optypelist_for_implmode=Exp"],
            "E10001",
            "Parameters --op_select_implmode and --optypelist_for_implmode must be set at the "
            "same time.",
        ),
        (
            ["--op_precision_mode=/nowhere/network.ini"],
            "E10001",
            "Value [/nowhere/network.ini] for parameter [--op_precision_mode] is invalid. The "
            "file cannot be read (No such file or directory); name an ini file.",
        ),
        (["--op_precision_mode=/"], "E10001", "(Is a directory)"),
        (["--op_precision_mode={binary}"], "E10001", "(it is not UTF-8 text)"),
        (["--op_precision_mode={broken}"], "E20003", "line 1 is [Exp high_precision]; write"),
    ],
)
def test_a_bad_request_changes_nothing(command, tmp_path, options, code, said):
    files = {"binary": b"\xff\xfe\x00", "broken": b"Exp high_precision\n"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    command(0)
    before = entries(tmp_path)
    paths = {name: tmp_path / name for name in files}
    lines = command(255, *(option.format(**paths) for option in options))
    assert len(lines) == 2
    assert lines[1].startswith(f"{code}: ")
    assert said in lines[1]
    assert entries(tmp_path) == before
