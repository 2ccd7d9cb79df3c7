"""The client of static kernels: the document's script, errors, and files left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_ascendcache.contract.static_kernel import (
    ROOT,
    first_cards,
    is_refused_with_profiler,
    local_world_size,
    union,
)
from pytest_ascendcache.observation import meeting_place
from pytest_ascendcache.reference.policies import Policies
from pytest_ascendcache.reference.static_kernel import client as torchair
from pytest_ascendcache.reference.static_kernel.client.config import Profiling
from pytest_ascendcache.reference.static_kernel.client.session import Session

SQUARE = Path(__file__).parents[2] / "fixtures" / "networks" / "square.json"
COMMAND = (sys.executable, "-m", "pytest_ascendcache.reference.static_kernel.client.command")
SCRIPT = """
from pytest_ascendcache.reference.static_kernel import client as torchair
config = torchair.CompilerConfig()
config.mode = "reduce-overhead"
config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
config.experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir = {build!r}
npu_backend = torchair.get_npu_backend(compiler_config=config)
opt_model = torchair.compile({model!r}, backend=npu_backend)
print(opt_model()["output"].tolist(), flush=True)
{then}
"""


@pytest.fixture
def opp(tmp_path, monkeypatch):
    path = tmp_path / "opp"
    path.mkdir()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(path))
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    return path


@pytest.fixture
def build(tmp_path):
    path = tmp_path / "build"
    path.mkdir()
    return path


def configured(build=None, **options):
    config = torchair.CompilerConfig()
    config.mode = options.pop("mode", "reduce-overhead")
    config.soc_version = options.pop("soc_version", "Ascend910B1")
    aclgraph = config.experimental_config.aclgraph
    aclgraph._aclnn_static_shape_kernel = True
    aclgraph._aclnn_static_shape_kernel_build_dir = None if build is None else str(build)
    for name, value in options.items():
        setattr(aclgraph, name, value)
    return config


def run(config, tmp_path, profiling=None):
    from pytest_ascendcache.operators.network import read_network

    session = Session(Policies(), os.environ, tmp_path)
    try:
        return session.run(read_network(SQUARE), config, profiling or Profiling())
    finally:
        session.close()


def script(tmp_path, build, then=""):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(build=build and str(build), model=str(SQUARE), then=then))
    return [sys.executable, str(path)]


def command(*arguments, **environment):
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_the_documents_script(tmp_path, opp, build):
    then = f"import os; print(sorted(os.listdir({str(opp / 'static_kernel/ai_core')!r})))"
    ended = subprocess.run(
        script(tmp_path, build, then), capture_output=True, text=True, timeout=120, check=True
    )
    outputs, installed = ended.stdout.splitlines()
    assert outputs == "[1.0, 16.0, 81.0]"
    (package,) = build.rglob("*.run")
    assert package.stem in installed
    assert list(opp.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_the_default_directory_is_the_scripts(tmp_path):
    subprocess.run(script(tmp_path, None), check=True, timeout=120, capture_output=True)
    assert (tmp_path / ROOT).is_dir()


def test_a_script_that_is_killed_leaves_what_the_next_one_cleans(tmp_path, opp, build):
    killed = script(tmp_path, build, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    ended = subprocess.run(killed, timeout=120, capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert any((opp / "static_kernel/ai_core").iterdir())
    run(configured(build), tmp_path)
    assert list(opp.iterdir()) == []


def test_a_script_that_is_told_to_end_uninstalls(tmp_path, opp, build):
    terminated = script(tmp_path, build, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    ended = subprocess.run(terminated, timeout=120, capture_output=True, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    assert list(opp.iterdir()) == []


def test_a_handler_of_the_users_is_left_alone(tmp_path, opp, build):
    then = """
    import os
    os.kill(os.getpid(), signal.SIGTERM)
    """
    text = SCRIPT.format(build=str(build), model=str(SQUARE), then=textwrap.dedent(then))
    path = tmp_path / "script.py"
    path.write_text(
        "import signal\nsignal.signal(signal.SIGTERM, lambda *_: print('mine'))\n" + text
    )
    ended = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout.splitlines()[-1] == "mine"
    assert list(opp.iterdir()) == []


def test_options_are_checked_when_they_are_set():
    aclgraph = torchair.CompilerConfig().experimental_config.aclgraph
    with pytest.raises(AttributeError, match=r"no option '_aclnn_static_kernel'; there are _aclnn"):
        aclgraph._aclnn_static_kernel = True
    with pytest.raises(TypeError, match="= 1: that is a int; give a bool"):
        aclgraph._aclnn_static_shape_kernel = 1
    with pytest.raises(TypeError, match="give a str or None"):
        aclgraph._aclnn_static_shape_kernel_build_dir = Path("here")


@pytest.mark.parametrize("mode", ["max-autotune", "fast"])
def test_a_backend_says_at_once_which_mode_it_needs(mode):
    with pytest.raises(torchair.StaticKernelError, match=f"mode is '{mode}'.*reduce-overhead"):
        torchair.get_npu_backend(compiler_config=configured(mode=mode))


BAD_DIRECTORIES = {
    "a\0b": "a null byte",
    "nowhere": "does not exist",
    "x/../y": r"contains '\.\.'",
    "file": "is not a directory",
    "link": "is a symbolic link",
    "link/inner": "is a symbolic link",
}


@pytest.mark.parametrize(("name", "reason"), BAD_DIRECTORIES.items(), ids=repr)
@pytest.mark.usefixtures("opp")
def test_bad_build_directories(tmp_path, name, reason):
    (tmp_path / "file").touch()
    (tmp_path / "real/inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(torchair.StaticKernelError, match=f"_build_dir is .*{reason}") as raised:
        run(configured(f"{tmp_path}/{name}"), tmp_path)
    assert "name an existing directory" in str(raised.value)
    assert sorted(tmp_path.rglob("*")) == before


REFUSED = {
    "product": ({"soc_version": "Ascend310P3"}, {}, "soc_version is 'Ascend310P3'.*A2 and A3"),
    "tree": ({"output_tree": "newest"}, {}, "output_tree is 'newest'; set it to document or later"),
    "compiler": ({"op_compiler": "no-such-command"}, {}, "op_compiler is 'no-such-command'"),
    "opp-unset": ({}, {"ASCEND_OPP_PATH": ""}, "ASCEND_OPP_PATH is not set; set it"),
    "opp-missing": ({}, {"ASCEND_OPP_PATH": "/nowhere"}, "'/nowhere', which is not a directory"),
    "rank": ({}, {"WORLD_SIZE": "2", "RANK": "2"}, "RANK is '2'; set it to a number of 0 to 1"),
    "world": ({}, {"WORLD_SIZE": "many"}, "WORLD_SIZE is 'many'; set it to a number"),
    "port": ({}, {"MASTER_PORT": "0"}, "MASTER_PORT is '0'"),
}


@pytest.mark.parametrize(("options", "environment", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_done_is_refused_before_anything_is_made(
    tmp_path, opp, build, monkeypatch, options, environment, message
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(torchair.StaticKernelError, match=message):
        run(configured(build, **options), tmp_path)
    assert list(build.iterdir()) == list(opp.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_a_profiler_from_the_first_step_on_is_refused(tmp_path, build):
    with pytest.raises(torchair.StaticKernelError, match="set skip_first to 1 or more"):
        run(configured(build), tmp_path, Profiling(record_op_args=True))
    assert list(build.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_a_profiler_within_another_does_not_end_that(build, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    backend = torchair.get_npu_backend(compiler_config=configured(build))
    recorded = torchair.profile(record_op_args=True)
    refused = pytest.raises(torchair.StaticKernelError, match="set skip_first to 1 or more")
    with recorded, torchair.profile(), refused:
        torchair.compile(SQUARE, backend=backend)()
    assert list(build.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_each_chip_has_static_kernels_of_its_own(tmp_path, build):
    from pytest_ascendcache.operators.network import read_network

    session, chips = Session(Policies(), os.environ, tmp_path), ("Ascend910B1", "Ascend910_9391")
    for chip in (*chips, chips[0]):
        session.run(read_network(SQUARE), configured(build, soc_version=chip), Profiling())
    assert len(list(build.rglob("*.run"))) == len(chips)
    session.close()


def test_a_call_that_failed_is_tried_again(tmp_path, opp, build):
    """The first op_compiler fails. It leaves only the recorded operators behind."""
    from pytest_ascendcache.operators.network import read_network

    session = Session(Policies(), os.environ, tmp_path)
    with pytest.raises(torchair.StaticKernelError, match="op_compiler ended with 1"):
        session.run(read_network(SQUARE), configured(build, op_compiler="false"), Profiling())
    assert list(opp.iterdir()) == []
    outputs = session.run(read_network(SQUARE), configured(build), Profiling())
    assert outputs["output"].tolist() == [1.0, 16.0, 81.0]
    assert len(list(build.rglob("*.run"))) == 1
    session.close()
    assert list(opp.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_the_command_goes_on_after_a_network_it_cannot_read(tmp_path, build):
    missing = tmp_path / "missing.json"
    ended = command(
        missing, SQUARE, "--mode=reduce-overhead", "--static-shape-kernel", "--build-dir", build
    )
    assert ended.returncode == 1
    error, outputs = ended.stdout.splitlines()
    assert error.startswith("[ERROR]")
    assert str(missing) in error
    assert outputs == "output:  [ 1. 16. 81.]"


def test_an_operator_that_cannot_be_compiled_is_named(tmp_path, opp, build):
    network = tmp_path / "network.json"
    network.write_text(SQUARE.read_text().replace('"Square"', '"NoSuchOperator"'))
    ended = command(
        network, "--mode=reduce-overhead", "--static-shape-kernel", "--build-dir", build
    )
    assert ended.returncode == 1
    assert "NoSuchOperator" in ended.stdout
    assert list(build.rglob("*.run")) == list(opp.iterdir()) == []


@pytest.mark.usefixtures("opp")
def test_cards_that_cannot_meet_say_where(tmp_path, build, monkeypatch):
    with meeting_place(2) as place:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        monkeypatch.setenv("MASTER_ADDR", "192.0.2.1")
        monkeypatch.setenv("MASTER_PORT", str(place.port))
        with pytest.raises(torchair.CardsError, match=r"192\.0\.2\.1:\d+ \(MASTER_ADDR"):
            run(configured(build), tmp_path)


@pytest.mark.usefixtures("opp")
def test_a_card_that_comes_alone_names_the_missing_one(tmp_path, build, monkeypatch):
    with meeting_place(2) as place:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
        monkeypatch.setenv("MASTER_PORT", str(place.port))
        monkeypatch.setenv("ASCENDCACHE_TRAIN_SECOND", "0.002")
        with pytest.raises(torchair.CardsError, match=r"waited 180 s for rank\[1\]"):
            run(configured(build), tmp_path)
    assert list(build.iterdir()) == []


def cards(place, size, *changes):
    """Run a command for each card with its own arguments and variables. Returns the results."""
    common = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size), "MASTER_PORT": str(place)}
    started = [
        subprocess.Popen(
            [*COMMAND, *map(str, arguments), "--mode=reduce-overhead", "--static-shape-kernel"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **common, "RANK": str(rank), **variables},
        )
        for rank, (arguments, variables) in enumerate(changes)
    ]
    return [(each.communicate(timeout=120)[0], each.returncode) for each in started]


WELL = ((SQUARE,), {})
ENDING_EARLY = {
    "rank 0 has a local size of its own": ((SQUARE,), {"LOCAL_WORLD_SIZE": "2"}, 0),
    "rank 0 has no network": (("missing.json",), {}, 0),
    "rank 1 has no network": (("missing.json",), {}, 1),
    "rank 1 has no rank": ((SQUARE,), {"RANK": "one"}, 1),
}


@pytest.mark.usefixtures("opp")
@pytest.mark.parametrize("case", ENDING_EARLY)
def test_a_card_that_ends_before_it_meets_the_others_ends_them_at_once(case):
    *change, rank = ENDING_EARLY[case]
    started = [WELL, WELL, WELL]
    started[rank] = tuple(change)
    with meeting_place(3) as place:
        ended = cards(place.port, 3, *started)
    assert [status for _, status in ended] == [1, 1, 1]
    assert not any("waited" in output for output, _ in ended)
    named = {"LOCAL_WORLD_SIZE": "LOCAL_WORLD_SIZE", "RANK": "RANK is 'one'"}
    reason = next((named[name] for name in change[1]), "missing.json")
    assert all(reason in output for output, _ in ended), ended


LOCAL_SIZES = {
    (None, 1): 1,
    ("", 1): 1,
    ("nonsense", 1): 1,
    (None, 4): None,
    ("", 4): None,
    ("0", 4): None,
    ("-1", 4): None,
    ("2.0", 4): None,
    ("abc", 4): None,
    ("٤", 4): None,
    ("3", 4): None,
    ("8", 4): None,
    ("1", 4): 1,
    ("2", 4): 2,
    ("4", 4): 4,
}


@pytest.mark.parametrize(("text", "world"), LOCAL_SIZES)
def test_which_local_world_sizes_fit(text, world):
    assert local_world_size(text, world) == LOCAL_SIZES[text, world]


def test_the_first_cards_of_nodes():
    assert first_cards(8, 8) == {0}
    assert first_cards(8, 2) == {0, 2, 4, 6}


def test_the_profiler_table():
    table = {(record, skip) for record in (True, False) for skip in (0, 1, 2)}
    assert {each for each in table if is_refused_with_profiler(*each)} == {(True, 0)}


def test_the_union_of_packages_has_all_entries_of_equal_keys():
    first, second = {("Abs", "a"): {"binPath": "1"}}, {("Abs", "a"): {"binPath": "2"}}
    assert union([first, second]) == {("Abs", "a"): [{"binPath": "1"}, {"binPath": "2"}]}
    assert union([first, {("Neg", "n"): {}}]) == {
        ("Abs", "a"): [*first.values()],
        ("Neg", "n"): [{}],
    }
    assert union([]) == {}
