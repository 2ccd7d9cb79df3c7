"""Document K, never one of a kind: many operators, packages with one key, orders and names."""

from __future__ import annotations

from itertools import permutations

import pytest

from pytest_ascendcache.combinations.generated import FAMILIES, generate
from pytest_ascendcache.conformance.kit.packages import differences, operator
from pytest_ascendcache.conformance.kit.vocabulary import rule
from pytest_ascendcache.contract.static_kernel import union
from pytest_ascendcache.observation import StaticKernelsUnderTest

TYPES = ("SoftmaxV2", "MatMulV2", "BatchMatMul", "TransposeD", "Flatten", "LayerNorm", "Exp")
"""Types with flags, lists, negative and float attributes."""


@rule("static-kernel/one-binary-per-shape")
def test_generated_operators_have_binaries_of_their_own(kernels: StaticKernelsUnderTest) -> None:
    """Operators that differ in one field each, in one package: as many keys as operators."""
    families = tuple(each for each in FAMILIES if each.type in TYPES)
    operators = generate(seed=1, families=families)
    kernels.install(kernels.package(*operators))
    index = kernels.installed.index()
    keys = {(kind, key.replace("/d=1,", "/d=0,")) for kind, key in index}
    per_type = {
        kind: (
            sum(1 for each, _ in keys if each == kind),
            sum(1 for each in operators if each.type == kind),
        )
        for kind in TYPES
    }
    wrong = {kind: counts for kind, counts in per_type.items() if counts[0] != counts[1]}
    assert wrong == {}, "type: (kernels in the index, operators)"
    assert [each for entry in index.values() for each in kernels.installed.problems(entry)] == []


@rule("static-kernel/one-binary-per-shape")
def test_files_of_one_name_in_two_folders_are_two(kernels: StaticKernelsUnderTest) -> None:
    folder = kernels.directory("dumps")
    for name, each in (("b", operator("Abs", 4, 8)), ("a", operator("Abs", 4, 8, dtype="float16"))):
        (file,) = kernels.dump(each).iterdir()
        (folder / name).mkdir()
        (folder / name / "Abs_0.json").write_bytes(file.read_bytes())
    compiled = kernels.compile(folder=folder)
    if not compiled.packages:
        pytest.skip("op_compiler does not look into folders of the one it is given")
    kernels.install(*compiled.packages)
    plain = [key for _, key in kernels.installed.index() if "/d=0," in key]
    assert len(plain) == 2, f"of two files Abs_0.json {len(plain)} are compiled"


@rule("static-kernel/install-idempotent")
@pytest.mark.parametrize("order", list(permutations(range(3)))[::2], ids=str)
def test_of_three_packages_with_one_key_the_last_counts(
    kernels: StaticKernelsUnderTest, order: tuple[int, ...]
) -> None:
    """In orders that are not those of their names; when one goes, the one before it counts."""
    shared = operator("Abs", 2, 2)
    names = ("pk", "pk2", "a.kernel")
    packages = [
        kernels.package(shared, operator(kind), name=name)
        for name, kind in zip(names, ("Exp", "Neg", "Relu"), strict=True)
    ]
    installed = [packages[number] for number in order]
    alone = {package: kernels.alone(package) for package in packages}
    kernels.install(*installed)
    while installed:
        wrong = differences(kernels.installed.index(), union(alone[each] for each in installed))
        assert wrong == [], f"installed in this order: {[each.stem for each in installed]}"
        gone = installed.pop()
        result = kernels.attempt(kernels.removal(gone.stem))
        assert result.succeeded, f"uninstalling {gone.stem} {result.ending}"
    assert kernels.installed.index() == {}


@rule("static-kernel/install-idempotent")
def test_another_package_of_the_same_name_is_not_there_already(
    kernels: StaticKernelsUnderTest,
) -> None:
    """It takes the other's place, or is refused; it is not reported as installed and left out."""
    first = kernels.package(operator("Abs"), name="pk")
    other = kernels.package(operator("Neg"), name="pk")
    kernels.install(first)
    result = kernels.attempt(kernels.installation(other))
    wanted = kernels.alone(other if result.succeeded else first)
    assert differences(kernels.installed.index(), wanted) == [], (
        f"the second install {result.ending}"
    )
