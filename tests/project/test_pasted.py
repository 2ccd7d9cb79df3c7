"""Blocks of pages run as they are printed, in an environment made from our wheel."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.project.lean import ROOT, Lean, build_wheel
from tests.project.pasting import Code, Command, Pasted, paste, read_page

CANN = "needs CANN"
MINDSPORE = "needs MindSpore's wheel: ci/nightly runs ci/verify-mindspore"
TORCHAIR = "needs torch_npu: ci/verify-torchair runs it"
NODES = "needs root and FUSE: ci/nodes runs it"
GE = "needs a checkout of CANN's ge: ci/verify-cann runs it"
OWN = "an example about files of the reader's own"
NETWORK = "needs a network: ci/nightly installs as README says"
JOB = "a command of this checkout, which ci and ci/nightly run themselves"


@dataclass(frozen=True)
class Stage:
    """What a page is pasted into.

    ``inputs`` are files and directories of this repository, by their places in the empty directory;
    with ``checkout`` it is a copy of the repository, without the package unless with ``sources``.
    ``elsewhere`` names commands, by their beginnings, that are not run here, each with the reason.
    ``fails`` are commands that end with another exit status than 0. ``extras`` of the wheel are
    what the page installs.
    """

    inputs: tuple[tuple[str, str], ...] = ()
    checkout: bool = False
    sources: bool = False
    elsewhere: tuple[tuple[str, str], ...] = ()
    fails: tuple[tuple[str, int], ...] = ()
    extras: tuple[str, ...] = ()
    nightly: bool = False


_ATC = (
    ("source /usr/local/Ascend", CANN),
    ("pytest --ascend-cache --ascend-toolchain=atc", CANN),
    ("pytest --ascend-toolchain=torchair", TORCHAIR),
)
_CI = (("ci/", JOB), ("git clone", NETWORK), ("python -m pip", NETWORK))
_AUDIT = (
    ("pytest --ascend-audit=/", OWN),
    ("ascendcache-audit /", OWN),
    ("less plan.sh", OWN),
    ("sh plan.sh", OWN),
)
_NODES = (("pytest --ascend-nodes", NODES),)
_MINDSPORE = (("ci/", MINDSPORE), ("pytest --ascend-cache", MINDSPORE))
_GATE = (("ascendcache-release-init", CANN), ("pytest --ascend-release", CANN))
_README = (*_CI, ("pytest --ascend-doctor", NETWORK), ("pytest --ascend-atc=/usr", CANN), _AUDIT[0])
_SOURCES = (
    *(("git clone", NETWORK), ("pytest --ascend-toolchain=cann-cache", GE)),
    *(("ascendcache-compare beta.json", GE), ("CXXFLAGS", GE), (". ", GE), ("atc ", GE)),
)
_REPORTS = (
    ("pytest --ascend-cache --ascend-baseline", OWN),
    ("ascendcache-compare atc-8.2.json", OWN),
)
OPERATORS = (("fixtures/mixed_dtypes.json", "operators.json"),)
SQUARE = ("fixtures/networks/square.json", "square.json")
NETWORK_FILE = ("docs/example/models/regression.json", "regression.json")
STAGES = {
    "README.md": Stage(checkout=True, elsewhere=(*_README, *_GATE)),
    "README.zh.md": Stage(checkout=True, elsewhere=(*_README, *_GATE)),
    "docs/adding-a-rule.md": Stage(checkout=True, sources=True, elsewhere=(("ci/", JOB),)),
    "docs/atc.md": Stage(elsewhere=(*_ATC, ("python -m pip", NETWORK))),
    "docs/audit.md": Stage(elsewhere=_AUDIT),
    "docs/cann-source.md": Stage(elsewhere=_SOURCES),
    "docs/guide.md": Stage(inputs=(NETWORK_FILE,)),
    "docs/mindspore.md": Stage(elsewhere=_MINDSPORE),
    "docs/own-toolchain.md": Stage(
        checkout=True, elsewhere=(("pytest", "needs ccache: test_own_toolchain runs the example"),)
    ),
    "docs/reference-toolchain.md": Stage(checkout=True, extras=("onnx",)),
    "docs/release-gate.md": Stage(elsewhere=_GATE),
    "docs/release-variants.md": Stage(
        inputs=(("fixtures/release", "."), ("fixtures/onnx_models.py", "../onnx_models.py")),
        extras=("onnx",),
        fails=(("pytest --ascend-release=swapped-kernel.toml", 1),),
        nightly=True,
    ),
    "docs/reports.md": Stage(elsewhere=_REPORTS, nightly=True),
    "docs/shared-storage.md": Stage(elsewhere=_NODES),
    "docs/static-kernel-client.md": Stage(
        checkout=True,
        elsewhere=(("LOCAL_WORLD_SIZE=3 ...", OWN), ("pytest --ascend-cache", CANN)),
    ),
    "docs/static-kernel.md": Stage(
        checkout=True,
        elsewhere=(
            ("ascendcache-op-compiler -p dump -v Ascend910B1$", OWN),
            ("./other.run", OWN),
        ),
    ),
    "docs/why.md": Stage(inputs=(*OPERATORS, SQUARE)),
    "docs/with-torchair.md": Stage(
        elsewhere=(
            *(("ls /usr/local", CANN), ("export ASCEND", CANN), ("ln -s", TORCHAIR)),
            ("torchrun", TORCHAIR),
        )
    ),
    "docs/zh/atc.md": Stage(elsewhere=_ATC),
    "docs/zh/audit.md": Stage(elsewhere=(_AUDIT[0], *_AUDIT[2:])),
    "docs/zh/cann-source.md": Stage(elsewhere=_SOURCES),
    "docs/zh/guide.md": Stage(checkout=True, nightly=True),
    "docs/zh/mindspore.md": Stage(elsewhere=_MINDSPORE),
    "docs/zh/release-gate.md": Stage(elsewhere=_GATE),
    "docs/zh/reports.md": Stage(elsewhere=_REPORTS[1:], nightly=True),
    "docs/zh/shared-storage.md": Stage(elsewhere=_NODES),
    "docs/zh/static-kernel.md": Stage(
        checkout=True, elsewhere=(("ascendcache-op-compiler -p dump -v Ascend910B1$", OWN),)
    ),
    "docs/zh/why.md": Stage(inputs=(*OPERATORS, SQUARE), nightly=True),
}
PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in (
        *(ROOT / name for name in ("README.md", "README.zh.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs/zh").glob("*.md")),
    )
    if read_page(page).commands
]


def test_every_page_with_commands_has_a_stage() -> None:
    assert [*STAGES] == PAGES


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_here_is_on_the_page(page: str) -> None:
    texts = [each.text for each in read_page(ROOT / page).commands]
    for beginning, reason in (*STAGES[page].elsewhere, *STAGES[page].fails):
        assert reason
        assert any(_is(each, beginning) for each in texts), f"{page} has no '{beginning}'"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.nightly if stage.nightly else ())
        for page, stage in STAGES.items()
    ],
)
def test_a_page_can_be_pasted(page: str, wheel: Path, tmp_path: Path) -> None:
    stage, blocks = STAGES[page], read_page(ROOT / page).blocks
    ours = [each for each in blocks if isinstance(each, Code) or _runs_here(each, stage)]
    if not any(isinstance(each, Command) for each in ours):
        pytest.skip("; ".join(dict.fromkeys(reason for _, reason in stage.elsewhere)))
    place = tmp_path / "place"
    _prepare(stage, place)
    (tmp_path / "lean").mkdir()
    (tmp_path / "home").mkdir()
    lean = Lean(wheel, tmp_path / "lean", *stage.extras)
    for pasted in paste(ours, place, lean.environment(tmp_path / "home")):
        assert pasted.returncode == _expected(pasted, stage), _told(pasted)
        assert pasted.missing() == [], _told(pasted)


def _runs_here(command: Command, stage: Stage) -> bool:
    return not any(_is(command.text, beginning) for beginning, _ in stage.elsewhere)


def _is(text: str, beginning: str) -> bool:
    """Whether a command begins so; with ``$`` at its end it is the whole command."""
    return text == beginning[:-1] if beginning.endswith("$") else text.startswith(beginning)


def _expected(pasted: Pasted, stage: Stage) -> int:
    statuses = (code for text, code in stage.fails if pasted.command.text.startswith(text))
    return next(statuses, 0)


def _told(pasted: Pasted) -> str:
    return f"$ {pasted.command.text}\n{pasted.output}\nexit status {pasted.returncode}"


def _prepare(stage: Stage, place: Path) -> None:
    place.mkdir()
    if stage.checkout:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        for name in filter(None, listed.stdout.split("\0")):
            # The package itself comes from the wheel.
            if (stage.sources or not name.startswith("pytest_ascendcache/")) and (
                ROOT / name
            ).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, place / name)
    for source, name in stage.inputs:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place / name, dirs_exist_ok=True)
        else:
            shutil.copy(ROOT / source, place / name)
