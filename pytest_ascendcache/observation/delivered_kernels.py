"""The kernels that a run of the compiler delivered, and the markers that they carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pytest_ascendcache.caches import Canary, Snapshot, embedded_objects, find_canaries
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.observed import ObservedFiles
from pytest_ascendcache.operators import OperatorSpec
from pytest_ascendcache.toolchains import CompileResult
from pytest_ascendcache.words.wrong_use import WrongUse


@dataclass(frozen=True, repr=False)
class DeliveredKernels(ObservedFiles):
    """The kernels of one run, read from the ``.om`` files.

    ``before`` and ``after`` are snapshots of the cache directory. ``marked`` has the canaries by
    token, or is None if the toolchain does not serve marked entries. ``known`` names the entries of
    operators that the cache was warmed with.
    """

    result: CompileResult
    operators: tuple[OperatorSpec, ...]
    before: Snapshot
    after: Snapshot
    marked: Mapping[str, Canary] | None
    known: Mapping[OperatorSpec, str]

    @property
    def output(self) -> str:
        """The end of what the process said: what it printed, and then its warnings or errors in the
        log that ``ASCEND_PROCESS_LOG_PATH`` names."""
        return self.result.output + self.result.log

    def _check(self, operator: object) -> None:
        """Refuse an operator that this run did not compile."""
        if not isinstance(operator, OperatorSpec) or operator not in self._models:
            compiled = ", ".join(map(str, self.operators))
            raise WrongUse(f"{operator!r} is no operator of this run, which compiled {compiled}.")

    def model(self, operator: OperatorSpec) -> Path:
        """The delivered ``.om`` file. Raises ``NotDecidable`` if there is none, and ``WrongUse`` as
        all methods for an operator of another run."""
        self._check(operator)
        path = self._models[operator]
        if path is None:
            raise NotDecidable(f"{operator}: no .om file was delivered")
        return path

    @cached_property
    def _models(self) -> Mapping[OperatorSpec, Path | None]:
        """The delivered models; for an operator requested twice, the first one."""
        pairs = zip(self.operators, self.result.delivered, strict=True)
        return dict(reversed(list(pairs)))

    def kernel(self, operator: OperatorSpec) -> bytes:
        """The delivered kernel without the mark of the entry it was served from, so that kernels
        of two runs can be compared. Raises ``NotDecidable`` if it cannot be found."""
        kernel = self.kernel_as_delivered(operator)
        canary = self._canary_of(kernel)
        return kernel if canary is None or not canary.original else canary.original

    def kernel_as_delivered(self, operator: OperatorSpec) -> bytes:
        """The kernel object in the ``.om`` file, byte for byte: the only one, or the one that names
        the operator's entry. Raises ``NotDecidable`` if it cannot be found."""
        candidates = self.kernels(operator)
        if len(candidates) > 1 and self._shares_model(operator):
            stem = self.known.get(operator, "").encode()
            candidates = [each for each in candidates if stem and stem in each]
            if len(candidates) != 1:
                raise NotDecidable(f"{operator}: several objects in the .om may be its kernel")
        return candidates[0]

    def kernels(self, operator: OperatorSpec) -> list[bytes]:
        """Objects in the ``.om`` file that may be the operator's kernel: one, unless a model has
        several nodes of its type. Raises ``NotDecidable`` if there is none."""
        objects = list(embedded_objects(self.model(operator).read_bytes()))
        if not objects:
            raise NotDecidable(f"{operator}: the .om file carries no ELF object")
        name = f"te_{operator.type.lower()}_".encode()
        named = [each for each in objects if name in each]
        if not named and len(objects) > 1:
            raise NotDecidable(f"{operator}: none of {len(objects)} objects in the .om names it")
        return named or objects

    def _shares_model(self, operator: OperatorSpec) -> bool:
        return self._shares[self.model(operator)] > 1

    @cached_property
    def _shares(self) -> Counter[Path | None]:
        return Counter(self.result.delivered)

    def _carried(self, operator: OperatorSpec) -> frozenset[str]:
        if self._shares_model(operator):
            return self._served_in_model(operator)
        return self._stems(find_canaries(self.model(operator).read_bytes()))

    def _served_in_model(self, operator: OperatorSpec) -> frozenset[str]:
        candidates = self.kernels(operator)
        served = frozenset().union(*(self._stems(find_canaries(each)) for each in candidates))
        if len(candidates) > 1 and served:
            # Another node of this type may be served from its own entry.
            own = self.known.get(operator)
            fresh = not all(map(find_canaries, candidates))
            if own is None or (own in served and fresh and self._has_twin(operator)):
                raise NotDecidable(f"{operator}: several objects in the .om may be its kernel")
            return served & {own}
        return served

    def _has_twin(self, operator: OperatorSpec) -> bool:
        return any(
            each != operator
            and self.known.get(each) == self.known[operator]
            and self.model(each) == self.model(operator)
            for each in self.operators
        )

    def _stems(self, tokens: frozenset[str]) -> frozenset[str]:
        marked = self.marked or {}
        return frozenset(marked[token].stem if token in marked else token for token in tokens)

    def unmarked_sha256(self, operator: OperatorSpec) -> str:
        """Digest of the delivered kernel as it was before it was marked."""
        kernel = self.kernel_as_delivered(operator)
        canary = self._canary_of(kernel)
        return sha256(kernel) if canary is None else canary.original_sha256

    def _canary_of(self, kernel: bytes) -> Canary | None:
        """The canary that a kernel carries, if that is all that was changed in it."""
        tokens = find_canaries(kernel)
        digest = sha256(kernel) if tokens else ""
        known = (each for token in tokens if (each := (self.marked or {}).get(token)))
        return next((each for each in known if each.marked_sha256 == digest), None)

    def _is_among(self, operator: OperatorSpec, digests: Set[str]) -> bool:
        """Whether the delivered kernel has one of these digests. In a shared ``.om`` file it
        matters which object is the operator's only if they differ in this. Raises ``NotDecidable``
        if they do, or the ``.om`` file contains none."""
        candidates = {sha256(each) for each in self.kernels(operator)}
        if candidates <= digests or candidates.isdisjoint(digests):
            return candidates <= digests
        return sha256(self.kernel_as_delivered(operator)) in digests
