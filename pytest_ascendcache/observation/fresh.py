"""Kernels of compiles without a cache, which deliveries are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_ascendcache.caches import same_code
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, Capability, CompileOptions
from pytest_ascendcache.observation.compiling import WatchedCompiles
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.gate import Gate
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.observation.warm import Shared
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import ToolchainError

Environment = Mapping[str, str] | None
_OFTEN, _AGAIN = 25, 5
"""Fresh compiles that have to agree once more before a kernel is called wrong: the first time, and
later. A compiler that tunes by what it measures makes one kernel mostly, and rarely another."""
_SEED = 1
"""Selects the data on which kernels are compared that differ at each compile."""


class FreshCompiles:
    """Compiles under disable, with an empty directory. What they deliver is remembered for the
    session unless an environment is given."""

    def __init__(self, cache: WatchedCompiles, shared: Shared) -> None:
        self._cache = cache
        self._shared = shared

    def kernel(
        self, operator: OperatorSpec, environment: Environment = None, **options: Any
    ) -> bytes:
        """The kernel on which two fresh compiles agree. Raises ``NotDecidable`` if they do not."""
        key = self._key(operator, options)
        if environment is None and key in self._shared.fresh:
            return self._shared.fresh[key]
        first = self._first(operator, environment, options)
        if self._kernels((operator,), environment, options) != (first,):
            raise NotDecidable(f"{operator}: two fresh compiles give different kernels")
        if environment is None:
            self._shared.fresh[key] = first
        return first

    def is_fresh(
        self, run: Run, operator: OperatorSpec, environment: Environment = None, **options: Any
    ) -> bool:
        """Whether a run delivered the kernel of a fresh compile, or one :func:`like <is_like>` it
        if fresh compiles differ. Raises ``NotDecidable`` if that cannot be told."""
        first = self._first(operator, environment, options)
        if delivers(run, operator, first):
            return True
        again = self.again((operator,), {operator: sha256(first)}, environment, options)
        return bool(again) and self._is_like(run, operator, again)

    def again(
        self,
        operators: tuple[OperatorSpec, ...],
        first: Mapping[OperatorSpec, str],
        environment: Environment,
        options: Mapping[str, Any],
    ) -> list[Run]:
        """Fresh compiles that show how kernels differ from compile to compile. Empty if they do
        not: all have the ``first`` one's digests."""
        runs: list[Run] = []
        for _ in range(_AGAIN if self._shared.are_steady else _OFTEN):
            runs.append(self._run(operators, environment, options))
            if any(sha256(runs[-1].kernel(each)) != digest for each, digest in first.items()):
                self._shared.are_steady = False
                return [*runs[-2:], self._run(operators, environment, options)]
        if self._shared.are_steady is False:
            return runs  # they have differed before, and agree by chance
        self._shared.are_steady = True
        return []

    def _is_like(self, run: Run, operator: OperatorSpec, fresh: Sequence[Run]) -> bool:
        """Whether a kernel has the code of those of fresh compiles, which differ in build ids, or
        else computes the same bits, where each compile is tuned anew. Raises ``NotDecidable`` if
        fresh compiles differ in that, too, or kernels cannot be run."""
        kernel, kernels = run.kernel(operator), [each.kernel(operator) for each in fresh]
        if any(same_code(kernel, each) for each in kernels):
            return True
        if len({*kernels}) > 1 and all(same_code(kernels[0], each) for each in kernels):
            return False
        if Capability.RUN_KERNELS in self._cache.toolchain.capabilities:
            computed = {self._computed(each, operator) for each in fresh}
            if len(computed) == 1:
                return self._computed(run, operator) in computed
        raise NotDecidable(f"{operator}: fresh compiles give different kernels")

    def _computed(self, run: Run, operator: OperatorSpec) -> tuple[bytes, ...]:
        """The outputs of a delivered kernel, bit for bit."""
        from pytest_ascendcache.operators.semantics import sample_inputs

        inputs = sample_inputs(operator, _SEED)
        outputs = Gate.of(self._cache.toolchain).outputs(run.model(operator), operator, inputs)
        return tuple(each.tobytes() for each in outputs)

    def _key(self, operator: OperatorSpec, options: Mapping[str, Any]) -> tuple[Any, ...]:
        return (self._cache.as_model, operator, tuple(sorted(options.items())))

    def _first(
        self, operator: OperatorSpec, environment: Environment, options: Mapping[str, Any]
    ) -> bytes:
        """The kernel of the first fresh compile, which none has confirmed yet."""
        if environment is not None:
            return self._kernels((operator,), environment, options)[0]
        key = self._key(operator, options)
        if key not in self._shared.first_fresh:
            (self._shared.first_fresh[key],) = self._kernels((operator,), None, options)
        return self._shared.first_fresh[key]

    def unlike(self, run: Run, environment: Environment) -> dict[OperatorSpec, str]:
        """Operators of a run whose kernel differs, with both digests."""
        options = run.result.request.options.but(cache_mode=None)
        fresh = self._remembered(run.operators, environment, options)
        delivered = {each: run.unmarked_sha256(each) for each in run.operators}
        unlike = [each for each in run.operators if delivered[each] != fresh[each]]
        if not unlike:
            return {}
        first = {each: fresh[each] for each in unlike}
        again = self.again(run.operators, first, environment, without_mode(options))
        return {
            each: f"delivered {delivered[each][:12]}, fresh {fresh[each][:12]}"
            for each in unlike
            if not (again and self._is_like(run, each, again))
        }

    def succeeds(self, run: Run, environment: Environment) -> None:
        """Compile the same without a cache. Raises ``ToolchainError`` if that fails."""
        self._remembered(
            run.operators, environment, run.result.request.options.but(cache_mode=None)
        )

    def _remembered(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Environment,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        if environment is not None:
            return self.digests(operators, environment, options)
        key = (self._cache.as_model, operators, options)
        if key not in self._shared.fresh_runs:
            self._shared.fresh_runs[key] = self.digests(operators, None, options)
        return self._shared.fresh_runs[key]

    def digests(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Environment,
        options: CompileOptions,
    ) -> dict[OperatorSpec, str]:
        """Digests of the kernels of one fresh compile."""
        kernels = self._kernels(operators, environment, without_mode(options))
        return dict(zip(operators, map(sha256, kernels), strict=True))

    def kernels(self, run: Run) -> tuple[bytes, ...]:
        """The kernels of a fresh compile of a run's request."""
        request = run.result.request
        return self._kernels(run.operators, request.environment, without_mode(request.options))

    def _kernels(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Environment,
        options: Mapping[str, Any],
    ) -> tuple[bytes, ...]:
        return tuple(map(self._run(operators, environment, options).kernel, operators))

    def _run(
        self,
        operators: tuple[OperatorSpec, ...],
        environment: Environment,
        options: Mapping[str, Any],
    ) -> Run:
        cache = self._cache
        empty = cache.new_output("empty")
        request = cache.request(
            *operators, mode=CacheMode.DISABLE, environment=environment, cache_dir=empty, **options
        )
        run = cache.run_alone(request)
        if not run.succeeded:
            raise ToolchainError(f"the toolchain {run.result.failure}")
        return run


def delivers(run: Run, operator: OperatorSpec, kernel: bytes) -> bool:
    """Whether a run delivered this kernel. It did not if no object is found in the delivered
    file."""
    try:
        return run.kernel(operator) == kernel
    except NotDecidable:
        return False


def without_mode(options: CompileOptions) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name != "cache_mode"}
