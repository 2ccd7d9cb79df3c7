"""Document K with many of a kind: operators, packages that share keys, install orders, names."""

from __future__ import annotations

import os
import shutil
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import pytest

from pytest_ascendcache.combinations.generated import FAMILIES, generate
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.neighbours import operator_of
from pytest_ascendcache.conformance.kit.packages import (
    PLACES,
    agrees,
    are_installed,
    differences,
    leaky,
    misnamed,
    operator,
    told_apart,
)
from pytest_ascendcache.conformance.kit.states import ANOTHER, give
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.facts import Delivery, Place
from pytest_ascendcache.contract.static_kernel import union
from pytest_ascendcache.observation import StaticKernelsUnderTest, state_of
from pytest_ascendcache.observation.static_processes import Compiled
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.toolchains import ToolchainError

TYPES = (
    *("SoftmaxV2", "MatMulV2", "BatchMatMul", "TransposeD", "Flatten", "LayerNorm", "Exp"),
    "Bucketize",
)
"""Types with flags, lists, long lists, negative and float attributes."""


@rule("static-kernel/one-binary-per-shape")
def test_generated_operators_have_binaries_of_their_own(kernels: StaticKernelsUnderTest) -> None:
    """One package of operators that differ in one field each. The key of each states its type and
    its tensors' types, formats and extents, and no other operator has it."""
    families = tuple(each for each in FAMILIES if each.type in TYPES)
    operators = told_apart(generate(seed=seeded(1), families=families))
    kernels.install(kernels.package(*operators))
    index = kernels.installed.index()
    wrong = misnamed(index, operators)
    assert not wrong, kernels.evidence.found(wrong[0], wrong[0].detail)
    assert [each for entry in index.values() for each in kernels.installed.problems(entry)] == []


_EXTENTS = (0, 1, 2, 3, 16, 255, 256, 65536, 2**31 - 1, 2**31)
BOUNDARIES = [
    *(operator("Abs", extent) for extent in _EXTENTS),
    *(operator("Abs", *[1] * ranks, 16) for ranks in range(8)),
    *(operator("Abs", 16, *[1] * ranks) for ranks in range(1, 8)),
    operator_of("Abs", ()),
    *(
        operator_of("Abs", (2, 16, 4, 4), format=format, dtype=dtype)
        for format in ("ND", "NCHW", "NHWC")
        for dtype in ("float16", "float32", "int32")
    ),
    *(
        operator_of("ConcatD", *[(2, 3)] * (count - 1), (2, last), outs=((2, total),), concat_dim=1)
        for count in (2, 3, 12)
        for last in (3, 4)
        for total in [3 * (count - 1) + last]
    ),
]
"""Extents at the ends of their range, extents of 1 on either side, no extents, formats, and long
lists of tensors that differ in their last one."""


@rule("static-kernel/one-binary-per-shape")
def test_boundaries_of_keys_are_told_apart(kernels: StaticKernelsUnderTest) -> None:
    """An operator that op_compiler refuses alone is left out."""
    refused = [
        each
        for each in BOUNDARIES
        if max(each.inputs[0].shape, default=1) > 65536 or 0 in each.inputs[0].shape
        if not kernels.compile(each).packages
    ]
    operators = told_apart(each for each in BOUNDARIES if each not in refused)
    try:
        package = kernels.package(*operators)
    except ToolchainError:
        operators = [each for each in operators if kernels.compile(each).packages]
        package = kernels.package(*operators)
    kernels.install(package)
    index = kernels.installed.index()
    wrong = misnamed(index, operators)
    assert not wrong, kernels.evidence.found(wrong[0], wrong[0].detail)
    assert [each for entry in index.values() for each in kernels.installed.problems(entry)] == []


@rule("static-kernel/one-binary-per-shape")
def test_files_of_one_name_in_two_folders_are_two(kernels: StaticKernelsUnderTest) -> None:
    files = {
        "b/Abs_0.json": operator("Abs", 4, 8),
        "a/Abs_0.json": operator("Abs", 4, 8, dtype="float16"),
    }
    _install_from_folders(kernels, files)
    plain = [key for _, key in kernels.installed.index() if "/d=0," in key]
    assert len(plain) == 2, f"of two files Abs_0.json {len(plain)} are compiled"


def _install_from_folders(
    kernels: StaticKernelsUnderTest, files: Mapping[str, OperatorSpec]
) -> None:
    """Compile the operators in folders of one directory, and install them. A missing package is
    a fault unless op_compiler does not compile a single file in a folder either."""
    compiled = _compile_from_folders(kernels, files)
    if not compiled.packages:
        alone = dict([next(iter(files.items()))])
        if not _compile_from_folders(kernels, alone).packages:
            pytest.skip("op_compiler does not look into folders of the one it is given")
    assert compiled.packages, f"there is no package: op_compiler {compiled.result.ending}"
    kernels.install(*compiled.packages)


def _compile_from_folders(
    kernels: StaticKernelsUnderTest, files: Mapping[str, OperatorSpec]
) -> Compiled:
    folder = kernels.directory("dumps")
    for name, each in files.items():
        (file,) = kernels.dump(each).iterdir()
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(file.read_bytes())
    return kernels.compile(folder=folder)


@rule("static-kernel/one-binary-per-shape")
def test_files_that_are_named_like_others_with_a_number_are_their_own(
    kernels: StaticKernelsUnderTest,
) -> None:
    """A compiler may number equal names, and then meet a name that ends in such a number."""
    operators = [leaky(slope / 16) for slope in range(len(NUMBERED))]
    places = (f"{place}/{name}.json" for place, name in enumerate(NUMBERED))
    _install_from_folders(kernels, dict(zip(places, operators, strict=True)))
    index = kernels.installed.index()
    wrong = misnamed(index, operators)
    assert not wrong, kernels.evidence.found(wrong[0], wrong[0].detail)
    assert [each for entry in index.values() for each in kernels.installed.problems(entry)] == []
    files = Counter(str(entry["binPath"]) for (_, key), entry in index.items() if "/d=0," in key)
    shared = [path for path, count in files.items() if count > 1]
    assert shared == [], "several operators have one file"


def _uninstall(kernels: StaticKernelsUnderTest, name: str) -> None:
    result = kernels.attempt(kernels.removal(name))
    assert result.succeeded, f"uninstalling {name} {result.ending}"


NUMBERED = (
    *("leaky", "leaky", "leaky_1", "leaky", "leaky_2"),
    *("leaky_1", "leaky-1", "leaky_0", "leaky"),
)
"""Names of files, each in its own folder."""


@rule("static-kernel/install-idempotent")
@pytest.mark.parametrize("order", list(permutations(range(3)))[::2], ids=str)
def test_a_key_of_three_packages_stays_until_the_last_one_goes(
    kernels: StaticKernelsUnderTest, order: tuple[int, ...]
) -> None:
    """In orders other than that of names. Which of them provides the kernel is the installer's
    choice."""
    shared = operator("Abs", 2, 2)
    names = ("pk", "pk2", "a.kernel")
    packages = [
        kernels.package(shared, operator(kind), name=name)
        for name, kind in zip(names, ("Exp", "Neg", "Relu"), strict=True)
    ]
    installed = [packages[number] for number in order]
    kernels.install(*installed)
    while installed:
        names_in_order = [each.stem for each in installed]
        agrees(kernels, installed, f"installed in this order: {names_in_order}")
        gone = installed.pop()
        _uninstall(kernels, gone.stem)
    assert kernels.installed.index() == {}


MANY = ("pk", "a.kernel", "pk1", "pk10", "b_2", "pk9")
"""Packages in install order, which is no order of names, numbers or lengths, nor a reverse one."""


@rule("static-kernel/install-idempotent")
def test_many_packages_keep_the_keys_that_any_two_share(
    kernels: StaticKernelsUnderTest,
) -> None:
    """While they are installed, when the first and one in the middle go, and when the latter comes
    back."""
    pairs = {pair: operator("Abs", 2, 2 + n) for n, pair in enumerate(combinations(MANY, 2))}
    packages = {
        name: kernels.package(*(each for pair, each in pairs.items() if name in pair), name=name)
        for name in MANY
    }
    installed: list[str] = []

    def keep(doing: str) -> None:
        wanted = [packages[each] for each in installed]
        agrees(kernels, wanted, f"{doing}: installed in this order are {installed}")

    for name in (*MANY, MANY[2]):
        if name in installed:
            for gone in (name, MANY[0]):
                _uninstall(kernels, gone)
                installed.remove(gone)
                keep(f"{gone} is uninstalled")
        kernels.install(packages[name])
        installed.append(name)
        keep(f"{name} is installed")


@rule("static-kernel/install-idempotent")
def test_another_package_of_the_same_name_is_not_there_already(
    kernels: StaticKernelsUnderTest,
) -> None:
    """It replaces the other or is refused, but must not be reported as installed and left out. Then
    the older one comes back, over the newer one."""
    older, newer = (kernels.package(leaky(slope), name="pk") for slope in (0.5, 0.25))
    kernels.install(older)
    there = older
    for package in (newer, older, newer):
        result = kernels.attempt(kernels.installation(package))
        there = package if result.succeeded else there
        agrees(kernels, [there], f"the install over the other one {result.ending}")


@rule("static-kernel/install-idempotent")
def test_an_install_over_damaged_files_does_not_leave_them(kernels: StaticKernelsUnderTest) -> None:
    """A byte of a kernel is flipped, in each of its files. The next install heals it or fails."""
    package = kernels.package(operator("Abs"), name="pk")
    kernels.install(package)
    entry = next(iter(kernels.installed.index().values()))
    kernel = kernels.installed.kernel(entry)
    for path in (kernel, kernel.with_suffix(".json")):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        result = kernels.attempt(kernels.installation(package))
        if result.succeeded:
            agrees(kernels, [package], f"after {path.suffix} was damaged the install succeeds")


TEAM = 65534
"""A group that a process of root does not have."""
READERS = {"the group": stat.S_IRGRP, "other users": stat.S_IROTH}


@rule("static-kernel/install-idempotent")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o002], ids=oct)
def test_who_may_read_the_kernels_may_find_them(
    kernels: StaticKernelsUnderTest, umask: int
) -> None:
    """A user who cannot read the index runs without static kernels, and is not told. Whether other
    users may read the kernels is the installer's choice. The operator package is a team's, whose
    group all files in it inherit."""
    with suppress(OSError):  # only root can give it to another group, which not all containers have
        os.chown(kernels.opp, -1, TEAM)
    kernels.opp.chmod(0o2775)
    stays, goes = (kernels.package(operator(kind), name=kind) for kind in ("Abs", "Exp"))
    for request in (*map(kernels.installation, (stays, goes)), kernels.removal(goes.stem)):
        result = kernels.attempt(replace(request, umask=umask))
        assert result.succeeded, f"with umask {umask:03o}: it {result.ending}"
        root = kernels.installed.ai_core
        objects = {kernels.installed.kernel(each) for each in kernels.installed.index().values()}
        needed = {*kernels.installed.index_files, *root.glob("config.ini")}
        needed |= {each.with_suffix(".json") for each in objects}
        teams = {each.stat().st_gid for each in objects}
        for who, reads in READERS.items():
            if all(_opens(each, root, reads, teams) for each in objects):
                closed = [str(each) for each in needed if not _opens(each, root, reads, teams)]
                assert closed == [], kernels.evidence.found(
                    Delivery.NOTHING, f"{who} may read the kernels, but not {min(closed)}"
                )


@rule("static-kernel/install-idempotent")
def test_a_second_user_installs_and_uninstalls_wholly_or_not_at_all(
    kernels: StaticKernelsUnderTest,
) -> None:
    """A package of another user is there, who shares the operator package with the group. Whether
    the second user may add a package, or take that one away, is the installer's choice."""
    kernels.opp.chmod(0o2775)
    first, second = (kernels.package(operator(kind), name=kind) for kind in ("Abs", "Exp"))
    installing = kernels.attempt(replace(kernels.installation(first), umask=0o002))
    assert installing.succeeded, f"the first install {installing.ending}"
    for path in (kernels.opp, *kernels.opp.rglob("*")):
        give(path, ANOTHER)
    done = {(): [first], (second,): [first, second], (second, first): [second]}
    there: tuple[Path, ...] = ()
    for package, doing in ((second, kernels.installation(second)), (first, kernels.removal("Abs"))):
        before = state_of(kernels.opp)
        result = kernels.attempt(replace(doing, umask=0o002, unprivileged=True))
        where = f"the {doing.program.value} of a second user, {package.stem}, {result.ending}"
        if not result.succeeded:
            after = state_of(kernels.opp)
            changed = min((each for each, _ in before.items() ^ after.items()), default="")
            assert not changed, kernels.evidence.found(
                Place.TOUCHED, f"{where}, and {changed} is changed"
            )
            return
        there = (*there, package)
        are_installed(kernels, done[there], where)


def _opens(path: Path, root: Path, reads: int, teams: set[int]) -> bool:
    """Whether other users, or members of ``teams``, may read a file below ``root`` by this bit."""
    for each in (path, *path.parents):
        state, bit = each.stat(), reads if each == path else reads >> 2
        if reads == stat.S_IRGRP and state.st_gid not in teams:
            bit >>= 3  # to them, the file is another user's
        if not state.st_mode & bit:
            return False
        if each == root:
            break
    return True


OTHER_CHIP = "Ascend310P3"


@rule("static-kernel/install-idempotent")
def test_each_chip_has_an_index_of_its_own(kernels: StaticKernelsUnderTest) -> None:
    """Two chips' packages share a key. No chip gets the other's kernel, also after an uninstall."""
    shared = operator("Abs", 2, 2)
    own = kernels.package(shared, operator("Exp"), name="own")
    try:
        other = kernels.package(shared, operator("Neg"), name="other", soc=OTHER_CHIP)
    except ToolchainError as error:
        pytest.skip(f"no package can be compiled for {OTHER_CHIP}: {error}")
    installed = [own, other]
    kernels.install(*installed)
    assert len(kernels.installed.chips) == 2, f"there are indexes of {kernels.installed.chips}"
    while installed:
        _chips_keep_apart(kernels, installed)
        gone = installed.pop(0)
        _uninstall(kernels, gone.stem)
    assert kernels.installed.index() == {}


def _chips_keep_apart(kernels: StaticKernelsUnderTest, installed: Sequence[Path]) -> None:
    """Each chip's index has all kernels of one package and no others, or none at all."""
    seen = []
    for chip in kernels.installed.chips:
        index = kernels.installed.index(chip)
        packages = {str(entry["binPath"]).partition("/")[0] for entry in index.values()}
        assert len(packages) <= 1, kernels.evidence.found(
            Delivery.ANOTHER, f"the index of {chip} has kernels of {sorted(packages)}"
        )
        here = [each for each in installed if each.stem in packages]
        agrees(kernels, here, f"the index of {chip}", chip)
        seen += here
    assert sorted(seen) == sorted(installed)


def _constant(place: int) -> OperatorSpec:
    """A sum of integers, one of which is a constant."""
    tensors = [TensorDesc.of("int32", 2), TensorDesc.of("int32", 2)]
    tensors[place] = replace(tensors[place], is_const=True, const_value=(3, 5))
    return OperatorSpec("Add", tuple(tensors), (TensorDesc.of("int32", 2),))


@rule("static-kernel/install-idempotent")
def test_values_that_any_package_depends_on_are_looked_at(kernels: StaticKernelsUnderTest) -> None:
    """The index names the inputs whose values select kernels of a type: those of all packages, not
    only of the first or the last. A kernel whose key has no values is right for all of them."""
    names = ("first", "second")
    kernels.install(*(kernels.package(_constant(n), name=each) for n, each in enumerate(names)))
    if not any(",[" in key for _, key in kernels.installed.index()):
        pytest.skip("no key of a kernel has the values of its constants")
    for places in ({0, 1}, {1}):
        named = kernels.installed.value_depends().get("Add", frozenset())
        lacking = sorted(places - named)
        assert not lacking, kernels.evidence.found(
            Delivery.ANOTHER,
            f"the index does not say that kernels of Add depend on the values of inputs {lacking}, "
            "so a kernel for one value runs for every other",
        )
        assert named == places
        if places == {0, 1}:
            _uninstall(kernels, "first")


@rule("static-kernel/install-idempotent")
def test_packages_install_below_a_directory_of_any_name(kernels: StaticKernelsUnderTest) -> None:
    """Uninstalling removes every file of the package, and nothing else."""
    package = kernels.package(operator("Abs"), name="pk")
    alone, wrong, parent = kernels.alone(package), [], kernels.opp
    for name, place in PLACES.items():
        kernels.opp = parent / place
        kernels.opp.mkdir()
        result = kernels.attempt(kernels.installation(package))
        if not result.succeeded or differences(kernels.installed.index(), union([alone])):
            wrong.append(f"{name}: below [{place}] installing {result.ending}")
            continue
        result = kernels.attempt(kernels.removal("pk"))
        if not result.succeeded or kernels.installed.packages:
            wrong.append(f"{name}: below [{place}] uninstalling {result.ending}")
    assert wrong == []
    assert sorted(each.name for each in parent.iterdir()) == sorted(PLACES.values())


@rule("static-kernel/install-idempotent")
def test_packages_install_from_a_directory_of_any_name(kernels: StaticKernelsUnderTest) -> None:
    """Users name the directory in which packages are built, and copy packages anywhere."""
    package = kernels.package(operator("Abs"), name="pk")
    copy = kernels.directory("copies").joinpath(*PLACES.values(), package.name)
    copy.parent.mkdir(parents=True)
    shutil.copy2(package, copy)
    result = kernels.attempt(kernels.installation(copy))
    assert result.succeeded, f"from [{copy.parent}] installing {result.ending}"
    agrees(kernels, [package], f"installed from [{copy.parent}]")
