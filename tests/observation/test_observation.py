"""Observation from outside: the delivered kernel, the entry's fate, and the positive control."""

from __future__ import annotations

import json
import lzma
import os
from dataclasses import replace

import pytest

from pytest_ascendcache.caches import CacheLayout, Change, Snapshot, find_canaries
from pytest_ascendcache.caches.entry import sha256
from pytest_ascendcache.contract import CacheMode, Capability, DebugConfig, Fate
from pytest_ascendcache.contract.outcome import (
    ABSENT,
    COMPILED,
    KEPT,
    REMOVED,
    REUSED,
    REWRITTEN,
    STORED,
    Outcome,
)
from pytest_ascendcache.observation.cache import CacheUnderTest, Shared
from pytest_ascendcache.observation.control import positive_control
from pytest_ascendcache.observation.evidence import Evidence, NotDecidable, PositiveControl
from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.reference.om import OmModel
from pytest_ascendcache.toolchains import BaseToolchain, ToolchainError

ENABLE, FORCE, DISABLE = CacheMode.ENABLE, CacheMode.FORCE, CacheMode.DISABLE
X = TensorDesc.of("float32", 4)
ADD = OperatorSpec("Add", (X, X), (X,), name="add")
ABS = OperatorSpec("Abs", (X,), (X,), name="abs")
EXP = OperatorSpec("Exp", (X,), (X,), name="exp")


class Faulty(BaseToolchain):
    """Wraps the reference and changes each request or each result."""

    name, version, capabilities = "faulty", "1", frozenset(Capability)

    def __init__(self, toolchain, request=lambda given: given, result=lambda given: given):
        self.toolchain, self.request, self.result = toolchain, request, result
        self.seen = []

    def compile_together(self, requests):
        self.seen += requests
        results = self.toolchain.compile_together([self.request(each) for each in requests])
        return [self.result(each) for each in results]

    def run_kernel(self, model, operator, inputs):
        return self.toolchain.run_kernel(model, operator, inputs)

    def stage(self, change, operator, directory):
        return self.toolchain.stage(change, operator, directory)

    def close(self):
        """Close nothing: the wrapped toolchain belongs to a fixture."""


def always(mode):
    """Return a function that changes the cache mode of a request to ``mode``."""
    return lambda request: replace(request, options=request.options.but(cache_mode=mode))


def failing(result):
    return replace(result, returncode=3, output="some words\nE40021: no such thing\n")


# --- outcomes -------------------------------------------------------------------------------


def test_a_story_of_every_mode(cache):
    assert cache.compile(ADD, mode=DISABLE)[ADD] == Outcome(COMPILED, ABSENT)
    assert cache.compile(ADD)[ADD] == Outcome(COMPILED, ABSENT)
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(COMPILED, STORED)
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)
    assert cache.compile(ADD, mode=DISABLE)[ADD] == Outcome(COMPILED, ABSENT)  # not warmed
    cache.warm(ADD, EXP)
    assert cache.compile(ADD, mode=DISABLE)[ADD] == Outcome(COMPILED, KEPT)
    forced = cache.compile(ADD, mode=FORCE)
    assert forced[ADD] == Outcome(COMPILED, REWRITTEN)
    assert cache.fate(forced, EXP) is REMOVED
    assert cache.compile(ADD, EXP, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)


@pytest.mark.parametrize("mode", CacheMode)
@pytest.mark.parametrize("options", [{"debug_level": 3}, {"debug_config": DebugConfig()}])
def test_under_debug(cache, mode, options):
    cache.warm(ADD, EXP)
    run = cache.compile(ADD, mode=mode, **options)
    assert run[ADD] == Outcome(COMPILED, KEPT)
    assert cache.fate(run, EXP) is KEPT
    assert run.changes == {}


def test_operators_of_one_run_are_told_apart(cache):
    cache.warm(ADD)
    run = cache.compile(ADD, EXP, ABS, mode=ENABLE)
    assert [run[each] for each in (ADD, EXP, ABS)] == [
        Outcome(REUSED, KEPT),
        Outcome(COMPILED, STORED),
        Outcome(COMPILED, STORED),
    ]
    assert run.served_from(ADD) == {cache.entry(ADD).stem}
    assert run.served_from(EXP) == frozenset()
    assert [stem.split("_")[1] for stem in run.new_stems()] == ["abs", "exp"]
    assert run.new_stems("Exp") == [run.stem(EXP)]


@pytest.mark.parametrize("half", ["object_path", "metadata_path"])
def test_a_healed_entry(cache, half):
    cache.warm(ADD)
    getattr(cache.entry(ADD), half).unlink()
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(COMPILED, REWRITTEN)
    assert cache.entry(ADD).is_valid
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)


def test_fate_of_socs(cache):
    cache.warm(ADD)
    cache.warm(ADD, soc="Ascend310P3")
    run = cache.compile(ADD, mode=FORCE)
    assert cache.fate(run, ADD) is REWRITTEN
    assert cache.fate(run, ADD, soc="Ascend310P3") is KEPT
    assert len(cache.entries()) == len(cache.entries("Ascend310P3")) == 1


def test_an_unknown_fate_is_absent(cache):
    run = cache.compile(ADD, mode=ENABLE)
    assert run.fate_of("kernel_cache/Ascend910B1/te_other") is Fate.ABSENT


def test_processes_together(cache):
    first, second = cache.together(
        [cache.request(ADD, mode=ENABLE), cache.request(EXP, mode=ENABLE)]
    )
    assert first[ADD] == second[EXP] == Outcome(COMPILED, STORED)
    assert first.result.request.output != second.result.request.output
    assert cache.evidence.starts == 2


# --- marks ----------------------------------------------------------------------------------


def test_every_valid_entry_is_marked_once(cache):
    cache.warm(ADD, EXP)
    cache.mark()
    stems = {soc: cache.entries(soc) for soc in cache.layout.socs()}["Ascend910B1"]
    tokens = {stem: find_canaries(entry.object_bytes) for stem, entry in stems.items()}
    assert [len(each) for each in tokens.values()] == [1, 1]
    cache.mark()
    again = {stem: find_canaries(entry.object_bytes) for stem, entry in cache.entries().items()}
    assert again == tokens
    assert all(entry.is_valid for entry in cache.entries().values())


def test_marking_keeps_times(cache):
    cache.warm(ADD)
    entry = cache.entry(ADD)
    for path in (entry.object_path, entry.metadata_path):
        os.utime(path, (1_500_000_000, 1_400_000_000))
    cache.mark()
    state = Snapshot.take(entry.directory).files[entry.object_path.name]
    assert (state.atime_ns, state.mtime_ns) == (1_500_000_000 * 10**9, 1_400_000_000 * 10**9)
    run = cache.compile(ADD, mode=DISABLE)
    assert run.changes == {}


def test_without_marks_the_entry_stays_as_it_was_written(cache):
    cache.marks = False
    cache.warm(ADD)
    before = sha256(cache.entry(ADD).object_bytes)
    run = cache.compile(ADD, mode=ENABLE)
    assert sha256(cache.entry(ADD).object_bytes) == before == sha256(run.kernel(ADD))
    unwatched = cache.unwatched(cache.request(ADD, mode=ENABLE))
    with pytest.raises(NotDecidable, match="does not serve marked entries"):
        unwatched.served_from(ADD)
    with pytest.raises(NotDecidable, match="does not serve marked entries"):
        run[ADD]


def test_without_marks_what_was_written_was_compiled(cache):
    cache.marks = False
    cache.warm(ADD)
    entry = cache.entry(ADD)
    entry.object_path.write_bytes(b"damaged")
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(COMPILED, REWRITTEN)
    assert cache.compile(EXP, mode=ENABLE)[EXP] == Outcome(COMPILED, STORED)


def test_damaged_entries_are_not_marked(cache):
    cache.warm(ADD)
    entry = cache.entry(ADD)
    entry.metadata_path.write_text("{}")
    before = entry.object_path.read_bytes()
    cache.mark()
    assert entry.object_path.read_bytes() == before


# --- fresh kernels, warm copies, other directories ------------------------------------------


def test_fresh_kernels_are_remembered(reference, tmp_path):
    counting, shared = Faulty(reference), Shared()
    caches = [
        CacheUnderTest(counting, tmp_path / name, PositiveControl(), shared=shared)
        for name in ("one", "two")
    ]
    kernels = [each.fresh(ADD) for each in (*caches, caches[0])]
    assert len(set(kernels)) == 1
    assert len(counting.seen) == 2
    assert {each.options.cache_mode for each in counting.seen} == {DISABLE}
    assert not caches[0].root.exists()
    assert caches[0].fresh(ADD, soc="Ascend310P3") is not None
    assert caches[0].fresh(ADD, environment={"TUNE_BANK_PATH": ""}) == kernels[0]
    assert len(counting.seen) == 6


def test_a_served_kernel_is_a_fresh_one(cache):
    cache.marks = False
    cache.warm(ADD)
    assert cache.compile(ADD, mode=ENABLE).kernel(ADD) == cache.fresh(ADD)


def test_fresh_kernels_that_differ_decide_nothing(reference, tmp_path):
    levels = iter([0, 2])
    faulty = Faulty(
        reference,
        lambda request: replace(request, options=request.options.but(debug_level=next(levels))),
    )
    cache = CacheUnderTest(faulty, tmp_path, PositiveControl())
    with pytest.raises(NotDecidable, match="two fresh compiles"):
        cache.fresh(ADD)


def test_warm_caches_are_copied(reference, tmp_path):
    counting, shared = Faulty(reference), Shared(tmp_path / "templates")
    control = PositiveControl(relocates=True)
    outcomes = []
    for name in ("one", "two", "three"):
        cache = CacheUnderTest(counting, tmp_path / name, control, shared=shared)
        cache.warm(ADD, EXP)
        outcomes.append(cache.compile(ADD, mode=ENABLE)[ADD])
        assert "enable" in cache.evidence.steps[0].command
    assert outcomes == [Outcome(REUSED, KEPT)] * 3
    assert len(counting.seen) == 4  # warmed once, compiled three times
    assert cache.evidence.steps[0].ending == "copied from an equal compile"
    assert cache.compile(EXP, mode=FORCE)[EXP] == Outcome(COMPILED, REWRITTEN)
    (template,) = shared.warm.values()
    assert len(list(template.root.rglob("te_*.o"))) == 2  # changes to a copy do not affect it


@pytest.mark.parametrize("why", ["control", "options", "environment", "used", "marks"])
def test_when_warm_caches_are_not_copied(reference, tmp_path, why):
    counting, shared = Faulty(reference), Shared(tmp_path / "templates")
    control = PositiveControl(relocates=why != "control")
    for name in ("one", "two"):
        cache = CacheUnderTest(counting, tmp_path / name, control, shared=shared)
        options = {}
        if name == "two":
            cache.marks = why != "marks"
            options = {
                "options": {"soc": "Ascend310P3"},
                "environment": {"environment": {"X": "y"}},
            }.get(why, {})
            if why == "used":
                cache.compile(EXP, mode=ENABLE)
        cache.warm(ADD, **options)
    assert [each.operators for each in counting.seen].count((ADD,)) == 2


def test_warming_a_cache_that_stores_nothing_decides_nothing(reference, tmp_path):
    cache = CacheUnderTest(Faulty(reference, always(DISABLE)), tmp_path, PositiveControl())
    with pytest.raises(NotDecidable, match="left no valid entry for Add"):
        cache.warm(ADD)


def test_an_entry_that_was_never_warmed(cache):
    with pytest.raises(NotDecidable, match="not warmed"):
        cache.entry(ADD)


def test_elsewhere_is_watched_by_itself(cache):
    cache.warm(ADD)
    other = cache.elsewhere(cache.sandbox / "other")
    assert other.compile(ADD, mode=ENABLE)[ADD] == Outcome(COMPILED, STORED)
    assert other.compile(ADD, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)
    assert cache.compile(ADD, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)
    assert other.evidence is cache.evidence
    outputs = [path.name for path in cache.sandbox.glob("out*")]
    assert len(outputs) == len(set(outputs)) == 4


def test_a_copy_elsewhere_is_served_and_kept(cache):
    import shutil

    cache.warm(ADD)
    cache.mark()
    other = cache.elsewhere(cache.sandbox / "copy")
    shutil.copytree(cache.root, other.root)
    assert other.compile(ADD, mode=ENABLE)[ADD] == Outcome(REUSED, KEPT)


def test_a_copy_marks_as_the_original_does_until_it_is_told_otherwise(cache, tmp_path):
    cache.warm(ADD)
    cache.marks = False
    elsewhere, moved = cache.elsewhere(tmp_path / "other"), cache.moved(tmp_path / "moved")
    assert not elsewhere.marks
    assert not moved.marks
    assert not cache.seen_at(tmp_path / "seen").marks
    elsewhere.marks = True
    assert not cache.marks
    cache.marks = True
    assert not moved.marks


def test_a_copy_leaves_alone_what_the_original_does(cache):
    import shutil

    cache.warm(ADD, EXP)
    cache.leave_alone([cache.entry(ADD).stem])
    for other in (cache.elsewhere(cache.sandbox / "copy"), cache.moved(cache.sandbox / "moved")):
        shutil.copytree(cache.root, other.root)
        other.mark()
        objects = {stem: each.object_bytes or b"" for stem, each in other.entries().items()}
        marked = {stem for stem, each in objects.items() if find_canaries(each)}
        assert marked == {cache.entry(EXP).stem}


def test_a_copy_knows_no_entries_but_one_seen_from_another_node_does(cache):
    cache.warm(ADD)
    seen = cache.seen_at(cache.root)
    assert seen.entry(ADD).stem == cache.entry(ADD).stem
    assert seen.witness is cache.witness
    assert cache.views == (cache.root,)
    with pytest.raises(NotDecidable, match="not warmed"):
        cache.elsewhere(cache.sandbox / "other").entry(ADD)


# --- processes that fail --------------------------------------------------------------------


def test_failing_is_an_error_of_the_toolchain_or_an_answer(reference, tmp_path):
    cache = CacheUnderTest(Faulty(reference, result=failing), tmp_path, PositiveControl())
    with pytest.raises(ToolchainError, match="exit status 3: E40021: no such thing"):
        cache.compile(ADD)
    run = cache.attempt(ADD)
    assert not run.succeeded
    assert "E40021" in run.output


def test_a_hang_is_an_error_even_where_failing_is_an_answer(reference, tmp_path):
    hanging = Faulty(reference, result=lambda result: replace(result, returncode=None, output=""))
    cache = CacheUnderTest(hanging, tmp_path, PositiveControl())
    with pytest.raises(ToolchainError, match=r"did not end within 60 s .* and printed nothing"):
        cache.attempt(ADD)
    assert cache.evidence.steps[0].ending.startswith("did not end")


def test_a_run_without_om_decides_nothing(reference, tmp_path):
    silent = Faulty(reference, result=lambda result: replace(result, delivered=(None,)))
    cache = CacheUnderTest(silent, tmp_path, PositiveControl())
    run = cache.attempt(ADD)
    for question in (run.model, run.kernel, run.served_from, run.__getitem__):
        with pytest.raises(NotDecidable, match=r"no \.om file"):
            question(ADD)
    assert run.describe() == (
        "Add(float32[4], float32[4]): Add(float32[4], float32[4]): no .om file was delivered",
    )


def test_an_om_without_kernel_decides_nothing(cache):
    run = cache.compile(ADD)
    run.model(ADD).write_bytes(b"no object")
    with pytest.raises(NotDecidable, match="no ELF object"):
        run.kernel(ADD)


# --- evidence -------------------------------------------------------------------------------


def test_evidence(reference, tmp_path):
    evidence = Evidence()
    cache = CacheUnderTest(reference, tmp_path, PositiveControl(), evidence)
    cache.warm(ADD)
    cache.compile(ADD, EXP, mode=ENABLE)
    cache.attempt(ADD, raw_mode="odd")
    assert (evidence.starts, evidence.compiles) == (3, 5 - 1)
    stored, mixed, refused = evidence.steps
    assert stored.outcomes == ("Add(float32[4], float32[4]): compiled, entry stored",)
    assert mixed.outcomes == (
        "Add(float32[4], float32[4]): reused, entry kept",
        "Exp(float32[4]): compiled, entry stored",
    )
    assert set(mixed.changes.values()) == {"added", "touched"}
    assert (refused.outcomes, refused.changes) == ((), {})
    assert "[odd]" in refused.output
    assert refused.ending == "ended with exit status 255"
    assert json.loads(json.dumps(evidence.as_dict()))["steps"][2]["ending"] == refused.ending


def test_many_changes_are_shown_in_part(cache):
    operators = [OperatorSpec("Abs", (t,), (t,)) for n in range(1, 13) for t in [x(n)]]
    cache.compile(*operators, mode=ENABLE)
    (step,) = cache.evidence.steps
    assert len(step.changes) == 21
    assert list(step.changes)[-1] == "..."
    assert Change.ADDED.value in step.changes.values()


def x(extent: int) -> TensorDesc:
    return TensorDesc.of("float32", extent)


# --- the positive control -------------------------------------------------------------------


def test_control_of_the_reference(reference, tmp_path):
    assert positive_control(reference, ADD, tmp_path) == PositiveControl(
        compiles=True, serves_marked=True, relocates=True, reason=""
    )


def test_control_of_a_toolchain_that_never_stores(reference, tmp_path):
    control = positive_control(Faulty(reference, always(DISABLE)), ADD, tmp_path)
    assert (control.compiles, control.serves_marked, control.relocates) == (True, False, False)
    assert (control.reuses, control.reads_entries) == (False, True)
    assert "left no valid entry" in control.reason


def test_control_of_a_toolchain_that_keeps_nothing_but_its_version(reference, tmp_path):
    def without_entries(result):
        for path in CacheLayout(result.request.cache_dir).kernel_cache.rglob("te_*"):
            path.unlink()
        return result

    control = positive_control(Faulty(reference, result=without_entries), ADD, tmp_path)
    assert (control.reuses, control.reads_entries) == (False, True)


def test_control_of_a_toolchain_that_never_hits(reference, tmp_path):
    control = positive_control(Faulty(reference, always(FORCE)), ADD, tmp_path)
    assert (control.compiles, control.serves_marked) == (True, False)
    assert control.reason == (
        "an untouched canary under enable is not served: the entry was replaced; an unmarked one "
        "was replaced too, so the cache is purged at every run"
    )


def test_control_of_a_toolchain_that_does_not_take_copies(reference, tmp_path):
    def only_the_first(request):
        mode = DISABLE if "another" in str(request.cache_dir) else request.options.cache_mode
        return always(mode)(request)

    control = positive_control(Faulty(reference, only_the_first), ADD, tmp_path)
    assert control == PositiveControl(serves_marked=True, relocates=False)


def test_control_of_a_toolchain_that_cannot_compile(reference, tmp_path):
    control = positive_control(Faulty(reference, result=failing), ADD, tmp_path)
    assert (control.compiles, control.serves_marked) == (False, False)
    assert control.reason == "the toolchain ended with exit status 3: E40021: no such thing"


def test_control_of_a_toolchain_that_fails_with_the_cache_alone(reference, tmp_path):
    def fails_under_enable(result):
        return result if result.request.options.cache_mode is DISABLE else failing(result)

    control = positive_control(Faulty(reference, result=fails_under_enable), ADD, tmp_path)
    assert (control.compiles, control.serves_marked) == (True, False)
    assert "E40021" in control.reason


@pytest.mark.parametrize(
    ("delivered", "finds"),
    [
        pytest.param(lambda om: replace(om, object=b"").to_bytes(), True, id="no-object"),
        pytest.param(lambda _: b"", True, id="nothing"),
        pytest.param(lambda om: bytes(255 - each for each in om.to_bytes()), False, id="scrambled"),
        pytest.param(lambda om: lzma.compress(om.to_bytes()), False, id="packed"),
    ],
)
def test_control_where_no_kernel_is_found(reference, tmp_path, delivered, finds):
    """A model that tells as much as a kernel may have it in a form of its own."""

    def changed(result):
        for path in filter(None, result.delivered):
            path.write_bytes(delivered(OmModel.read(path)))
        return result

    control = positive_control(Faulty(reference, result=changed), ADD, tmp_path)
    assert (control.serves_marked, control.finds_kernels) == (False, finds)
    assert control.reason == f"{ADD}: exit status 0, and add.om has no kernel in it"


def test_control_breaks_nothing(reference, tmp_path):
    """What breaks every check breaks none before them."""

    def changed(result):
        path = result.request.output / "operators.json"
        path.write_text(path.read_text() + " ")
        return result

    control = positive_control(Faulty(reference, result=changed), ADD, tmp_path)
    assert control == PositiveControl(relocates=True)
