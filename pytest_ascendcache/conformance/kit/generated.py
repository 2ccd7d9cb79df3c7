"""Compiling generated operators in few runs, and finding pairs whose entries are mixed up.

The oracle is a fresh kernel. Operators that differ in one field are compiled fresh in different
runs, so that even a key without that field cannot confuse them there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.combinations.differences import between, differences
from pytest_ascendcache.combinations.generated import generate, groups
from pytest_ascendcache.combinations.seed import seeded
from pytest_ascendcache.conformance.kit.implementations import (
    GROSS_ULP,
    is_surely_less_accurate,
    measure,
)
from pytest_ascendcache.contract import CacheMode
from pytest_ascendcache.contract.facts import Delivery, Fact, Numbers
from pytest_ascendcache.contract.options import HIGH_PERFORMANCE, HIGH_PRECISION
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import KernelRunError, Toolchain, ToolchainError

if TYPE_CHECKING:
    from numpy.typing import NDArray

PASSES = {"pairwise": 1, "triples": 4, "full": 16}
"""Matrix -> how often each type is generated; about 240 operators each time."""

_GROUPS = 5
"""Fresh runs over which neighbours are spread."""
_REFUSALS = 24
"""The most runs spent on finding operators that the toolchain does not compile at all."""
_SHRUNK = 3
"""Wrong operators that are explained or reported in full."""
_LIMITS = {"float16": GROSS_ULP, "float32": GROSS_ULP * 2**13}
"""Errors with which a kernel is not its operator's, in ulp of its type. Others have none."""


def _is_rare(operator: OperatorSpec) -> bool:
    """Whether an operator has a scalar or an unconnected input, which some toolchains refuse."""
    return any(not each.shape for each in operator.inputs)


Fresh = Mapping[OperatorSpec, Run]
"""Operators that the toolchain compiles -> the run that compiled each without a cache."""

_narrowed: set[str] = set()


def narrow(types: Iterable[str]) -> None:
    """Limit this process to generated operators of these types, as ``ci/qualify`` does for defects
    that they notice; no types remove the limit."""
    _narrowed.clear()
    _narrowed.update(types)


def generated(matrix: str, near: bool = True) -> tuple[OperatorSpec, ...]:
    """The operators for this ``--ascend-select``; ``near`` adds their neighbours."""
    every = generate(PASSES[matrix], seeded(), near=near)
    return tuple(each for each in every if not _narrowed or each.type in _narrowed)


def starts_anew(cache: CacheUnderTest) -> None:
    """Start each process anew, with a hash seed of its own: forked ones have one in common."""
    if (apart := getattr(cache.toolchain, "apart", None)) is not None:
        cache.toolchain = apart()


def shuffled(operators: Iterable[OperatorSpec], seed: int) -> list[OperatorSpec]:
    """The operators in another order, which the seed determines."""
    order = list(operators)
    random.Random(seed).shuffle(order)
    return order


class FamilyRuns:
    """Runs of one check over generated operators."""

    def __init__(self, cache: CacheUnderTest) -> None:
        self.cache = cache
        self._refused = 0

    def fresh(self, operators: Sequence[OperatorSpec], **options: Any) -> Fresh:
        """Compile operators without a cache, neighbours in different runs. Those that are refused
        are noted for the report. Raises NotDecidable if they are more than half."""
        runs: dict[OperatorSpec, Run] = {}
        for group in groups(operators, min(_GROUPS, len(operators))):
            runs.update(self._compiled(group, options))
        if 2 * len(runs) < len(operators):
            raise NotDecidable(
                f"the toolchain compiles {len(runs)} of {len(operators)} generated operators"
            )
        if len(runs) < len(operators):
            missing = sorted({each.type for each in operators if each not in runs})
            self.cache.evidence.notes.append(
                f"{len(operators) - len(runs)} generated operators are not compiled at all "
                f"({', '.join(missing)})"
            )
        return {each: runs[each] for each in operators if each in runs}

    def _compiled(
        self, operators: Sequence[OperatorSpec], options: Mapping[str, Any]
    ) -> dict[OperatorSpec, Run]:
        """Compile operators in one run; split a run that fails until the culprits are alone."""
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
        return {**self._compiled(rare[:half], options), **self._compiled(rare[half:], options)}

    def wrong(self, run: Run, fresh: Fresh) -> list[OperatorSpec]:
        """Operators of a run whose delivered kernel is not the fresh one, or like it if fresh
        compiles differ. Raises NotDecidable if that cannot be told."""
        digests = {each: sha256(fresh[each].kernel(each)) for each in run.operators}
        wrong = [each for each in run.operators if run.unmarked_sha256(each) != digests[each]]
        file = run.result.request.options.precision_file
        if any(
            self.cache.delivers_fresh(run, each, precision_file=file) for each in wrong[:_SHRUNK]
        ):
            return [*self.cache.unlike_fresh(run)]
        return wrong

    def _alone(self, operator: OperatorSpec) -> str:
        run = self._compiled([operator], {}).get(operator)
        return "" if run is None else sha256(run.kernel(operator))

    def facts(self, wrong: Sequence[OperatorSpec], served: Run) -> list[Fact]:
        """Kernels that are not their operators' own. The first few name the operator with which
        each is mixed up, made as similar as it can be, and the fields in which they differ."""
        facts = []
        for each in wrong[:_SHRUNK]:
            partner = self._partner(each, served)
            if partner is None:
                facts.append(another_kernel(each))
                continue
            partner = self._shrunk(each, partner)
            fields = "; ".join(differences(partner, each))
            detail = f"it is served the kernel of {partner}: they differ in {fields}"
            facts.append(another_kernel(each, detail))
        return facts + [another_kernel(each) for each in wrong[_SHRUNK:]]

    def _partner(self, operator: OperatorSpec, served: Run) -> OperatorSpec | None:
        """Another operator whose kernel is served for this one if it is compiled first."""
        stems = served.served_from(operator)
        same = [e for e in served.operators if e != operator and served.served_from(e) & stems]
        return next((each for each in same if self._mixed_up(each, operator)), None)

    def _mixed_up(self, first: OperatorSpec, then: OperatorSpec) -> bool:
        """Whether the second operator gets a wrong kernel in a cache that holds only the first."""
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
        """The partner with as many of the operator's fields as still leave the two mixed up."""
        smaller = True
        while smaller and len(differences(partner, operator)) > 1:
            smaller = False
            for candidate in between(operator, partner):
                if self._mixed_up(candidate, operator):
                    partner, smaller = candidate, True
                    break
        return partner


def another_kernel(
    operator: OperatorSpec, detail: str = "it is delivered a kernel that is not its own"
) -> Fact:
    """That an operator is delivered another's kernel."""
    return Fact.seen(Delivery.ANOTHER, detail, operator)


def less_accurate(
    toolchain: Toolchain, served: Mapping[str, Run], operators: Iterable[OperatorSpec]
) -> list[Fact]:
    """Operators whose kernel of high precision is less accurate than that of high performance."""
    from pytest_ascendcache.operators.semantics import has_semantics

    found = []
    for operator in filter(has_semantics, operators):
        precise = measure(toolchain, served[HIGH_PRECISION], operator)
        if is_surely_less_accurate(precise, measure(toolchain, served[HIGH_PERFORMANCE], operator)):
            detail = "it is delivered a kernel for high precision that is the less accurate"
            found.append(Fact.seen(Numbers.WRONG, detail, operator))
    return found


def wrong_results(toolchain: Toolchain, delivered: Mapping[OperatorSpec, Run]) -> list[Fact]:
    """The first few operators whose delivered kernel deviates grossly from float64, or at all if
    they compute with integers, on samples and edge values."""
    from pytest_ascendcache.operators.semantics import has_semantics

    wrong: list[Fact] = []
    for operator, run in delivered.items():
        if len(wrong) == _SHRUNK:
            break
        if has_semantics(operator) and (problem := _problem(toolchain, run, operator)):
            attributes = "".join(f" {each.name}={each.value}" for each in operator.attributes)
            wrong.append(Fact.seen(Numbers.WRONG, problem, f"{operator}{attributes}"))
    return wrong


def _problem(toolchain: Toolchain, run: Run, operator: OperatorSpec) -> str:
    import numpy

    from pytest_ascendcache.operators.semantics import edge_inputs, evaluate, judged_elements

    inputs = edge_inputs(operator, seeded(1))
    try:
        (measured, *_) = Gate.of(toolchain).outputs(run.model(operator), operator, inputs)
    except KernelRunError as error:
        return f"its kernel does not run: {error}"
    with numpy.errstate(all="ignore"):
        exact = evaluate(operator, inputs)[0]
    limit = _LIMITS.get(operator.outputs[0].dtype.name, 0.0)
    errors = numpy.where(judged_elements(operator, inputs, exact), _distance(measured, exact), 0.0)
    if not errors.size or errors.max() <= limit:
        return ""
    worst = int(errors.argmax())
    return (
        f"element {worst} of {errors.size} is {measured.flat[worst]}, float64 gives "
        f"{exact.flat[worst]} ({errors.flat[worst]:g} ulp, at most {limit:g})"
    )


def _distance(measured: NDArray[Any], exact: NDArray[Any]) -> NDArray[Any]:
    import numpy

    from pytest_ascendcache.operators.semantics import ulp_error

    if measured.dtype in (numpy.float16, numpy.float32):
        return ulp_error(measured, exact)
    return numpy.where(measured.astype(numpy.float64) == exact, 0.0, numpy.inf)
