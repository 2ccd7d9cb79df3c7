"""The kernels of a cache through many runs, compared with fresh ones of the same options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_ascendcache.conformance.kit.findings import Findings, Question
from pytest_ascendcache.conformance.kit.implementations import wrong_numbers
from pytest_ascendcache.conformance.kit.judge import Judge
from pytest_ascendcache.conformance.kit.own_entries import Key, OwnEntries
from pytest_ascendcache.conformance.kit.told import differs
from pytest_ascendcache.contract import Capability, CompileOptions, is_under_debug
from pytest_ascendcache.contract.facts import Delivery
from pytest_ascendcache.observation import CacheUnderTest, NotDecidable, Run
from pytest_ascendcache.operators import OperatorSpec


@dataclass
class OwnKernels:
    """Digests of fresh kernels, by what they depend on, and by implementation mode. ``version``
    counts the versions of the toolchain in this life."""

    entries: OwnEntries
    findings: Findings
    version: int = 0
    _by_chance: bool = False
    _fresh: dict[Any, str] = field(default_factory=dict)
    _of_mode: dict[Key, str] = field(default_factory=dict)

    @property
    def _cache(self) -> CacheUnderTest:
        return self.entries.cache

    def learn_modes(self, operators: tuple[OperatorSpec, ...], *modes: CompileOptions) -> None:
        """Compile fresh kernels of each implementation mode, which the options select plainly."""
        for options in modes:
            self.learn(*operators, options=options)
            for operator in operators:
                fresh = self._fresh[self._key(operator, options)]
                self._of_mode[self.entries.key(operator, options)] = fresh

    def are_alike(self, operator: OperatorSpec, *options: CompileOptions) -> bool:
        """Whether an operator has the same kernel under all of these options, as
        :meth:`learn_modes` found."""
        return len({self._of_mode.get(self.entries.key(operator, each)) for each in options}) == 1

    def learn(self, *operators: OperatorSpec, options: CompileOptions | None = None) -> None:
        """Compile fresh kernels of operators, all in one run."""
        options = options or self._cache.options
        for operator, digest in self._cache.fresh_digests(operators, {}, options).items():
            self._fresh[self._key(operator, options)] = digest

    def judge(self, judge: Judge, run: Run, variables: Mapping[str, str]) -> None:
        """Compare each delivered kernel with a fresh one, and its numbers with its mode."""
        findings, options = self.findings, judge.options

        def fresh_digests(operators: Iterable[OperatorSpec]) -> dict[OperatorSpec, str]:
            return self._cache.fresh_digests(tuple(operators), variables, options)

        keys = {each: self._key(each, options) for each in run.operators}
        try:
            if missing := [each for each, key in keys.items() if key not in self._fresh]:
                for operator, digest in fresh_digests(missing).items():
                    self._fresh[keys[operator]] = digest
            delivered = {each: run.unmarked_sha256(each) for each in run.operators}
            wrong = [each for each in run.operators if delivered[each] != self._fresh[keys[each]]]
            if wrong:  # options may change a kernel although no document says so
                fresh = fresh_digests(wrong)
                wrong = [each for each in wrong if delivered[each] != fresh[each]]
                same = {each: fresh[each] for each in wrong}
                # Kernels that differ by chance may be equal by chance, too.
                if wrong and self._cache.fresh_varies(same, variables, options):
                    self._by_chance = True  # so what differed earlier may, too
                    findings.facts.pop(Question.KERNELS, None)
                    unlike = self._cache.unlike_fresh(run, variables)
                    wrong = [each for each in wrong if each in unlike]
        except NotDecidable as reason:
            findings.cannot_tell(Question.KERNELS, reason)
            return
        if not self._by_chance:
            self._judge_modes(judge, delivered)
        findings.asked.add(Question.KERNELS)
        for each in wrong:
            is_stale = delivered[each] in self._earlier(keys[each])
            fact = judge.kernel(each, Delivery.STALE if is_stale else Delivery.ANOTHER)
            findings.note(Question.KERNELS, [fact])
        self._judge_numbers(run)

    def _judge_numbers(self, run: Run) -> None:
        toolchain, tables = self._cache.toolchain, self.entries.tables
        if tables is None or Capability.RUN_KERNELS not in toolchain.capabilities:
            return
        self.findings.asked.add(Question.NUMBERS)
        try:
            facts = wrong_numbers(self._cache, run, tables, run.operators, self.findings.number)
            self.findings.note(Question.NUMBERS, facts)
        except NotDecidable as reason:
            self.findings.cannot_tell(Question.NUMBERS, reason)

    def _judge_modes(self, judge: Judge, delivered: Mapping[OperatorSpec, str]) -> None:
        """Judge whether each delivered kernel has the mode that the options select."""
        options = judge.options
        if options.debug_level or options.debug_config is not None:
            return
        question = Question.TABLES if options.implmode_types is None else Question.TYPES
        if options.precision_file is not None:
            question = Question.MODES
        for operator, digest in delivered.items():
            key = self.entries.key(operator, options)
            alike = {
                other
                for other, known in self._of_mode.items()
                if replace(other, mode=key.mode, below=key.below) == key and known == digest
            }
            if key not in self._of_mode or not alike:
                continue
            self.findings.asked.add(question)
            if key not in alike:
                observed = " and ".join(sorted(each.mode or "no mode" for each in alike))
                detail = differs(f"the kernel of {observed}", f"that of {key.mode or 'no mode'}")
                self.findings.note(question, [judge.kernel(operator, detail=detail)])
                self.entries.by_key.pop(key, None)  # the entry holds another mode's kernel

    def _earlier(self, key: tuple[Any, ...]) -> set[str]:
        """Digests of the kernels that earlier versions gave for what the key describes."""
        owner, version, *others = key
        known = [(owner, number, *others) for number in range(version)]
        return {self._fresh[each] for each in known if each in self._fresh}

    def _key(self, operator: OperatorSpec, options: CompileOptions) -> tuple[Any, ...]:
        """What the fresh kernel of an operator depends on."""
        debug = is_under_debug(options, operator.type, operator.name, self._cache.edition)
        key = self.entries.key(operator, options)
        if debug is False:
            return key, self.version
        return key, self.version, operator.name, replace(options, cache_mode=None)
