"""Compiling generated operators in few runs, and finding out which two of them are mixed up.

The oracle is a fresh kernel. Operators that differ in one field are compiled fresh in different
runs, so that a key that leaves the field out cannot have one of them answer for the other there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.combinations.differences import between, differences
from pytest_ascendcache.combinations.generated import generate, groups
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.implementations import FAST_ULP, PRECISE_ULP
from pytest_ascendcache.contract import CacheMode, ImplModeTables
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASSES = {"pairwise": 1, "triples": 4, "full": 16}
"""``--ascend-matrix`` -> how often each type has its turn; about 240 operators a turn."""

_GROUPS = 5
_REFUSALS = 24
"""Runs spent at most on finding operators that the toolchain does not compile at all."""

_SHRUNK = 3
FLOAT32_ULP = 64.0
"""What float32 kernels stay within. Unit: ulp of float32."""


def _is_rare(operator: OperatorSpec) -> bool:
    """Whether a toolchain that compiles its type may refuse it all the same: a scalar, or an
    input that is not connected."""
    return any(not each.shape for each in operator.inputs)


Fresh = Mapping[OperatorSpec, Run]
"""Operators the toolchain compiles -> the run that compiled each without a cache."""


_narrowed: set[str] = set()


def narrow(types: Iterable[str]) -> None:
    """Have this process generate operators of these types alone; of all where there are none.

    ``ci/qualify`` does, for a defect that a record says is noticed with them.
    """
    _narrowed.clear()
    _narrowed.update(types)


def generated(matrix: str, near: bool = True) -> tuple[OperatorSpec, ...]:
    """The operators of a run with this ``--ascend-matrix``, with their neighbours or without."""
    every = generate(PASSES[matrix], seeded(), near=near)
    return tuple(each for each in every if not _narrowed or each.type in _narrowed)


def shuffled(operators: Iterable[OperatorSpec], seed: int) -> list[OperatorSpec]:
    """Another order of operators, the same for one seed."""
    order = list(operators)
    random.Random(seed).shuffle(order)
    return order


class FamilyRuns:
    """Runs of one check over generated operators."""

    def __init__(self, cache: CacheUnderTest) -> None:
        self.cache = cache
        self._refused = 0

    def fresh(self, operators: Sequence[OperatorSpec], **options: Any) -> Fresh:
        """Compile operators without a cache, neighbours in different runs.

        What the toolchain refuses is left out, and noted.

        Raises:
            NotDecidable: where it refuses more than half.
        """
        found: dict[OperatorSpec, Run] = {}
        for group in groups(operators, min(_GROUPS, len(operators))):
            found.update(self._compiled(group, options))
        if 2 * len(found) < len(operators):
            raise NotDecidable(
                f"the toolchain compiles {len(found)} of {len(operators)} generated operators"
            )
        if len(found) < len(operators):
            missing = sorted({each.type for each in operators if each not in found})
            self.cache.evidence.notes.append(
                f"{len(operators) - len(found)} generated operators are not compiled at all "
                f"({', '.join(missing)})"
            )
        return {each: found[each] for each in operators if each in found}

    def _compiled(
        self, operators: Sequence[OperatorSpec], options: Mapping[str, Any]
    ) -> dict[OperatorSpec, Run]:
        unused = self.cache.sandbox / "unused"
        run = self.cache.unwatched(
            self.cache.request(*operators, mode=CacheMode.DISABLE, cache_dir=unused, **options)
        )
        if run.succeeded:
            return dict.fromkeys(operators, run)
        self._refused += 1
        if self._refused > _REFUSALS:
            raise NotDecidable(f"too many generated operators are refused: {run.output[-200:]}")
        if len(operators) == 1:
            return {}
        rare = sorted(operators, key=_is_rare)
        plain = len(rare) - sum(map(_is_rare, rare))
        half = plain if 0 < plain < len(rare) else len(rare) // 2
        return {
            **self._compiled(rare[:half], options),
            **self._compiled(rare[half:], options),
        }

    def wrong(self, run: Run, fresh: Fresh) -> list[OperatorSpec]:
        """Operators of a run that were delivered something else than their fresh kernel.

        Raises:
            NotDecidable: where a second fresh compile of one gives another kernel too.
        """
        digests = {each: sha256(fresh[each].kernel(each)) for each in run.operators}
        wrong = [each for each in run.operators if run.unmarked_sha256(each) != digests[each]]
        options = run.result.request.options
        for each in wrong[:_SHRUNK]:
            if self._alone(each, precision_file=options.precision_file) != digests[each]:
                raise NotDecidable(f"{each}: two fresh compiles give different kernels")
        return wrong

    def _alone(self, operator: OperatorSpec, **options: Any) -> str:
        run = self._compiled([operator], options).get(operator)
        return "" if run is None else sha256(run.kernel(operator))

    def explain(self, wrong: Sequence[OperatorSpec], served: Run) -> list[str]:
        """For the first few wrong operators: the other one of its entry, as alike as it gets while
        the two are still mixed up, and the fields they differ in."""
        lines = []
        for each in wrong[:_SHRUNK]:
            partner = self._partner(each, served)
            if partner is None:
                lines.append(f"{each} is delivered a kernel that is not its own")
                continue
            partner = self._shrunk(each, partner)
            fields = "; ".join(differences(partner, each))
            lines.append(f"{each} is served the kernel of {partner}: they differ in {fields}")
        if len(wrong) > _SHRUNK:
            lines.append(f"and {len(wrong) - _SHRUNK} more operators")
        return lines

    def _partner(self, operator: OperatorSpec, served: Run) -> OperatorSpec | None:
        """An operator that, compiled first, has its kernel served for this one."""
        stems = served.served_from(operator)
        same = [e for e in served.operators if e != operator and served.served_from(e) & stems]
        return next((each for each in same if self._mixed_up(each, operator)), None)

    def _mixed_up(self, first: OperatorSpec, then: OperatorSpec) -> bool:
        """Whether, in an empty cache, the second is not delivered its fresh kernel after the
        first was stored."""
        first, then = first.named("first"), then.named("then")
        cache = self.cache.elsewhere(self.cache.new_output() / "pair")
        cache.marks = False
        try:
            if not cache.attempt(first, mode=CacheMode.ENABLE).succeeded:
                return False
            run = cache.attempt(then, mode=CacheMode.ENABLE)
            return run.succeeded and sha256(run.kernel(then)) != self._alone(then)
        except (ToolchainError, NotDecidable):
            return False

    def _shrunk(self, operator: OperatorSpec, partner: OperatorSpec) -> OperatorSpec:
        """The partner with as many fields of the operator as still have the two mixed up."""
        smaller = True
        while smaller and len(differences(partner, operator)) > 1:
            smaller = False
            for candidate in between(operator, partner):
                if self._mixed_up(candidate, operator):
                    partner, smaller = candidate, True
                    break
        return partner


def wrong_results(
    toolchain: Toolchain, tables: ImplModeTables, delivered: Mapping[OperatorSpec, Run]
) -> list[str]:
    """Operators whose kernel, delivered by a run each, computes something else than float64 does,
    on samples and on edge values: for float16 beyond what the selected mode promises, for float32
    beyond 64 ulp, for anything else at all. Stops after a few."""
    from pytest_ascendcache.operators.semantics import has_semantics

    wrong: list[str] = []
    for operator, run in delivered.items():
        if len(wrong) == _SHRUNK:
            break
        if has_semantics(operator) and (problem := _problem(toolchain, run, tables, operator)):
            wrong.append(f"{operator}{_attributes(operator)}: {problem}")
    return wrong


def _attributes(operator: OperatorSpec) -> str:
    return "".join(f" {each.name}={each.value}" for each in operator.attributes)


def _problem(toolchain: Toolchain, run: Run, tables: ImplModeTables, operator: OperatorSpec) -> str:
    import numpy

    from pytest_ascendcache.operators.semantics import edge_inputs, evaluate, judged_elements

    inputs = edge_inputs(operator, seeded(1))
    try:
        (measured, *_) = toolchain.run_kernel(run.model(operator), operator, inputs)
    except KernelRunError as error:
        return f"its kernel does not run: {error}"
    with numpy.errstate(all="ignore"):
        exact = evaluate(operator, inputs)[0]
    limit = _limit(run, tables, operator)
    errors = numpy.where(judged_elements(operator, inputs, exact), _distance(measured, exact), 0.0)
    if not errors.size or errors.max() <= limit:
        return ""
    worst = int(errors.argmax())
    return (
        f"element {worst} of {errors.size} is {measured.flat[worst]}, float64 gives "
        f"{exact.flat[worst]} ({errors.flat[worst]:g} ulp, at most {limit:g})"
    )


def _limit(run: Run, tables: ImplModeTables, operator: OperatorSpec) -> float:
    dtype = operator.outputs[0].dtype.name
    if dtype != "float16":
        return FLOAT32_ULP if dtype == "float32" else 0.0
    mode = tables.mode(run.result.request.options, operator)
    # Where no mode is selected the implementation takes one by itself.
    fast = tables.has_two(operator) and mode in (HIGH_PERFORMANCE, None)
    return FAST_ULP if fast else PRECISE_ULP


def _distance(measured: NDArray[Any], exact: NDArray[Any]) -> NDArray[Any]:
    import numpy

    from pytest_ascendcache.operators.semantics import ulp_error

    if measured.dtype in (numpy.float16, numpy.float32):
        return ulp_error(measured, exact)
    return numpy.where(measured.astype(numpy.float64) == exact, 0.0, numpy.inf)
