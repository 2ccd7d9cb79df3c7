"""ONNX models converted by the reference: their results, fused operators, and refused models.

The expected results come from onnxruntime, and from the package onnx for its own test nodes.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test.case.base as onnx_base
import onnx.backend.test.case.node as onnx_node
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import load_model_tests

from pytest_ascendcache.reference import run as run_command
from pytest_ascendcache.reference.model.mapping import MAPPED
from pytest_ascendcache.reference.model.reading import asked_shapes
from tests.reference_sandbox import Sandbox

FIXTURES = Path(__file__).parents[2] / "fixtures"
_spec = importlib.util.spec_from_file_location("onnx_models", FIXTURES / "onnx_models.py")
onnx_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(onnx_models)

ORIGIN, HALF = "must_keep_origin_dtype", "force_fp16"
INPUTS = {
    "bert": {
        "input_ids": np.arange(3, 19).reshape(2, 8),
        "attention_mask": np.array([[1] * 6 + [0] * 2, [1] * 8]),
    },
    "gpt2": {"input_ids": np.arange(6).reshape(1, 6)},
    "resnet": {
        "image": np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype(np.float32)
    },
}
SHAPES = {"bert": "input_ids:2,8;attention_mask:2,8"}


class Converter(Sandbox):
    """Runs of the reference's atc that convert a model."""

    def given(self, model, **options):
        path = model
        if isinstance(model, onnx.ModelProto):
            path = self.root / "model.onnx"
            onnx.save(model, str(path))
        given = {
            "model": path,
            "framework": 5,
            "output": self.output / "model",
            "soc_version": "Ascend910B1",
            "op_compiler_cache_mode": "enable",
            "op_compiler_cache_dir": self.cache,
            "precision_mode": ORIGIN,
            **options,
        }
        return [f"--{key}={value}" for key, value in given.items() if value is not None]

    def convert(self, model, environ=None, policies=None, **options):
        done = self.raw(self.given(model, **options), environ, policies)
        assert done.code == 0, done.out
        return self.output / "model.om"

    def refuses(self, code, *phrases, model, **options):
        return self.refused(code, *phrases, argv=self.given(model, **options))

    def run(self, om, **inputs):
        """The outputs of a model, computed in a child process."""
        source, target = self.root / "inputs.npz", self.root / "outputs.npz"
        np.savez(source, **inputs)
        argv = [sys.executable, "-m", run_command.__name__, str(om), str(source), str(target)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        with np.load(target) as archive:
            return {name: archive[name] for name in archive.files}


@pytest.fixture
def atc(tmp_path, capsys):
    return Converter(tmp_path, capsys)


def types(om):
    """The operator types of a container's nodes."""
    manifest = json.loads(zipfile.ZipFile(om).read("manifest.json"))
    return [each["operator"]["op"] for each in manifest["nodes"]]


def graph(*nodes, inputs, outputs, weights=(), opset=17):
    """A model of float32 tensors; shapes by name."""
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in end]
        for end in (inputs.items(), outputs.items())
    ]
    made = helper.make_graph(
        list(nodes), "g", *ends, [numpy_helper.from_array(v, k) for k, v in dict(weights).items()]
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


RELU = helper.make_node("Relu", ["x"], ["y"], name="act")
TINY = {"inputs": {"x": [2, 3]}, "outputs": {"y": [2, 3]}}

# --- what models compute -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "implementation", "bound"),
    [
        (ORIGIN, "high_performance", 5e-6),
        (HALF, "high_precision_for_all", 1e-2),
        (HALF, "high_performance_for_all", 1e-1),
    ],
)
@pytest.mark.parametrize("name", onnx_models.MODELS)
def test_outputs_are_those_of_onnxruntime(atc, name, mode, implementation, bound):
    ort = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    model = onnx_models.MODELS[name]()
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    inputs = INPUTS[name]
    wanted = session.run(None, inputs)
    om = atc.convert(
        model,
        input_shape=SHAPES.get(name),
        precision_mode=mode,
        op_select_implmode=implementation,
    )
    got = atc.run(om, **inputs)
    for value, exact in zip(model.graph.output, wanted, strict=True):
        made = got[value.name]
        assert made.dtype == exact.dtype
        assert made.shape == exact.shape
        # Compare each error with the largest value: float16 loses digits where terms cancel.
        assert np.abs(made - exact).max() <= bound * np.abs(exact).max()
        assert len(np.unique(exact)) > 4  # equal values everywhere would prove nothing


def _cases(every):
    """Yield onnx's own one-node test cases whose inputs have a data type that kernels support."""
    left = dict.fromkeys(MAPPED, 10**9 if every else 2)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # building the cases computes with infinities
        if not every:
            _leave_out_what_takes_long(patch)
        cases = [*load_model_tests(kind="node")]
    if not every:  # a later call with ``every`` must import the complete modules
        onnx_node._NodeTestCases.clear()
        onnx_node._existing_names.clear()
        for name in [each for each in sys.modules if each.startswith(f"{onnx_node.__name__}.")]:
            del sys.modules[name]
    for case in cases:
        nodes = case.model.graph.node if case.model else ()
        kinds = {each.data_type for pair in case.data_sets or () for each in _protos(pair)}
        usable = len(nodes) == 1 and nodes[0].op_type in MAPPED and kinds <= {"float32", "int64"}
        if not usable or not left[nodes[0].op_type]:
            continue
        left[nodes[0].op_type] -= 1
        yield case


def _leave_out_what_takes_long(patch):
    """Skip cases that are not needed, because onnx computes each case at import.

    These are cases of unmapped operator types, and of 3-D images, which the reference refuses.
    """
    make = onnx_base._Exporter.__init__
    mapped = {name.lower() for name in MAPPED}

    def make_some(made, name, bases, members):
        some = {key: each for key, each in members.items() if "_3d" not in key}
        is_known = name.lower() in mapped or made.__module__.rpartition(".")[2] in mapped
        make(made, name, bases, some if is_known else {})

    patch.setattr(onnx_base._Exporter, "__init__", make_some)


def _protos(pair):
    class Kind:
        def __init__(self, value):
            self.data_type = str(getattr(value, "dtype", "none"))

    return [Kind(each) for end in pair for each in end]


def _frozen(model, inputs):
    """Turn integer inputs into constants, because real models have constant axes and shapes.

    Returns the model and its remaining inputs.
    """
    frozen = onnx.ModelProto()
    frozen.CopyFrom(model)
    kept = []
    for value, array in zip(model.graph.input, inputs, strict=True):
        first = value.name == model.graph.input[0].name
        if array.dtype == np.int64 and not first and model.graph.node[0].op_type != "Where":
            frozen.graph.initializer.append(numpy_helper.from_array(array, value.name))
        else:
            kept.append((value.name, array))
    return frozen, dict(kept)


_BATCH = """
import sys
from pytest_ascendcache.reference import run
for number in range(int(sys.argv[1])):
    code = run.run([f"{number}.om", f"{number}.npz", f"{number}.out.npz"], {})
    assert code == 0, number
"""


def _judge_cases(atc, every):
    converted, refused = [], []
    for case in _cases(every):
        inputs, outputs = case.data_sets[0]
        model, given = _frozen(case.model, inputs)
        number = len(converted)
        done = atc.raw(atc.given(model, output=atc.root / str(number), op_compiler_cache_mode=None))
        if done.code:
            refused.append((case.name, done.out.splitlines()[-1]))
            continue
        np.savez(atc.root / f"{number}.npz", **given)
        converted.append((case, outputs))
    child = [sys.executable, "-c", _BATCH, str(len(converted))]
    done = subprocess.run(child, cwd=atc.root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    for number, (case, outputs) in enumerate(converted):
        with np.load(atc.root / f"{number}.out.npz") as got:
            for value, exact in zip(case.model.graph.output, outputs, strict=True):
                made = got[value.name]
                assert (made.dtype, made.shape) == (exact.dtype, exact.shape), case.name
                np.testing.assert_allclose(
                    made, exact, max(case.rtol, 1e-4), 1e-5, err_msg=case.name
                )
    return converted, refused


def test_nodes_give_what_the_onnx_package_keeps_of_them(atc):
    converted, refused = _judge_cases(atc, every=False)
    seen = {case.model.graph.node[0].op_type for case, _ in converted}
    assert len(seen) >= 50, sorted(set(MAPPED) - seen)
    assert all(line.startswith(("E19999: ", "E40021: ", "E10001: ")) for _, line in refused)


@pytest.mark.nightly
def test_every_node_of_the_onnx_package(atc):
    converted, refused = _judge_cases(atc, every=True)
    # With onnx 1.23.2, 264 agree. The reference refuses 37 variants: 3-D images, dilated pools,
    # second outputs, BatchNormalization in training.
    assert len(converted) >= 260
    assert len(refused) <= 40, refused


# --- fusion and the cache ----------------------------------------------------------------------


def test_neighbours_become_kernels_of_their_own(atc):
    kinds = types(atc.convert(onnx_models.bert(), input_shape=SHAPES["bert"]))
    assert kinds.count("fused_op_Add_LayerNorm") == 4
    assert kinds.count("fused_op_BatchMatMulV2_GeluV2") == 2
    assert not {"Erf", "GeluV2"} & set(kinds)
    assert kinds.count("LayerNorm") == 1  # after the embeddings, whose sum broadcasts
    assert kinds.count("Add") == 3  # embeddings, masks, scores; biases are fused into products
    stored = {path.name.rpartition("_")[0] for path in atc.soc().glob("*.o")}
    assert {"te_fused_op_add_layernorm", "te_fused_op_batchmatmulv2_geluv2"} <= stored


def test_a_switch_file_turns_fusion_off(atc):
    switch = atc.root / "switch.cfg"
    switch.write_text('{"Switch": {"GraphFusion": {"ALL": "off"}}}')
    model = onnx_models.bert()
    kinds = types(atc.convert(model, input_shape=SHAPES["bert"], fusion_switch_file=switch))
    assert not any(each.startswith("fused") for each in kinds)
    assert kinds.count("Erf") == 2


@pytest.mark.parametrize("listed", ["layer0/up/MatMul", "layer0/gelu/Erf", "OpType::Erf"])
def test_an_operator_that_is_listed_stays_alone(atc, listed):
    config = atc.root / "debug.cfg"
    config.write_text(f"op_debug_config = dump_cce\nop_debug_list = {listed}\n")
    model, shape = onnx_models.bert(), SHAPES["bert"]
    (atc.root / "kept").mkdir()
    om = atc.convert(model, input_shape=shape, op_debug_config=config, debug_dir=atc.root / "kept")
    manifest = json.loads(zipfile.ZipFile(om).read("manifest.json"))
    names = {each["operator"].get("name") for each in manifest["nodes"]}
    assert (listed in names) is ("::" not in listed)
    wanted = 2 if listed == "OpType::Erf" else 1
    kept = {path.stem for path in (atc.root / "kept/kernel_meta").glob("*.cce")}
    assert len(kept) >= 1
    assert types(om).count("fused_op_BatchMatMulV2_GeluV2") == 2 - wanted


@pytest.mark.parametrize("listed", ["one", "two"])
def test_a_listed_node_and_its_served_twin_have_kernels_of_their_own(atc, listed):
    """The tuning changed after the twin was stored."""
    nodes = [
        helper.make_node("Tanh", ["x"], ["m"], name="one"),
        helper.make_node("Tanh", ["m"], ["y"], name="two"),
    ]
    model = graph(*nodes, inputs={"x": [4, 80]}, outputs={"y": [4, 80]})
    atc.convert(model)
    config, bank = atc.root / "debug.cfg", atc.root / "bank"
    config.write_text(f"op_debug_config = dump_cce\nop_debug_list = {listed}\n")
    bank.mkdir()
    (bank / "Ascend910B1.json").write_text('{"Tanh": {"tile": 8}}')
    om = atc.convert(model, op_debug_config=config, op_bank_path=bank, debug_dir=atc.root)
    with zipfile.ZipFile(om) as archive:
        members = archive.namelist()
        kernels = {each: archive.read(each) for each in members if "tanh" in each.lower()}
    assert len({*members}) == len(members)
    assert len({data for name, data in kernels.items() if name.endswith(".o")}) == 2
    data = np.linspace(-1, 1, 320, dtype=np.float32).reshape(4, 80)
    assert np.allclose(atc.run(om, x=data)["y"], np.tanh(np.tanh(data)), atol=1e-2)


def test_a_second_conversion_compiles_nothing_and_gives_the_same_file(atc):
    model = onnx_models.bert()
    first = atc.convert(model, input_shape=SHAPES["bert"]).read_bytes()
    entries = atc.entries()
    second = atc.convert(model, input_shape=SHAPES["bert"]).read_bytes()
    assert second == first
    assert atc.entries() == entries
    fresh = atc.convert(model, input_shape=SHAPES["bert"], op_compiler_cache_mode="disable")
    assert fresh.read_bytes() == first


def test_parts_with_different_implementations_are_not_fused(atc):
    file = atc.root / "modes.ini"
    model, shape = onnx_models.bert(), SHAPES["bert"]
    for mode, fused in (("high_precision", 2), ("high_performance", 0)):
        file.write_text(f"BatchMatMulV2=high_precision\nGeluV2={mode}\n")
        om = atc.convert(model, input_shape=shape, precision_mode=HALF, op_precision_mode=file)
        assert types(om).count("fused_op_BatchMatMulV2_GeluV2") == fused


# --- refused models ------------------------------------------------------------------------------


def test_an_operator_that_is_not_supported(atc):
    node = helper.make_node("LRN", ["x"], ["y"], name="norm", size=3)
    model = graph(node, inputs={"x": [1, 3, 4, 4]}, outputs={"y": [1, 3, 4, 4]})
    atc.refuses("E19010", "[norm", "ai.onnx::17::LRN", "LayerNormalization", model=model)
    assert not atc.output.exists()


def test_a_variant_that_is_not_supported(atc):
    shape = [1, 1, 3, 3, 3]
    node = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[1, 1, 1])
    model = graph(node, inputs={"x": shape}, outputs={"y": shape})
    atc.refuses("E19999", "[pool", "5 dimensions", "use 3 or 4", model=model)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"framework": None}, "E10007", ("[--framework]", "[5]")),
        ({"framework": 3}, "E10007", ("[3]",)),
        ({"precision_mode": "fp16"}, "E10001", ("[fp16]", "[force_fp16]")),
        ({"precision_mode_v2": "origin"}, "E10001", ("both",)),
        ({"insert_op_conf": "a.cfg"}, "E10001", ("[--insert_op_conf]", "leave it out")),
        ({"out_nodes": "a:0"}, "E10001", ("[--out_nodes]",)),
        ({"input_format": "NC"}, "E10001", ("[--input_format]", "[NCHW]")),
        ({"input_shape": "x"}, "E10002", ("[x]", "input_name1:")),
        ({"input_shape": "z:1"}, "E10016", ("[z]", "x")),
        ({"input_shape": "x:3,3"}, "E10001", ("[x]", "[2, 3]")),
        ({"fusion_switch_file": "/nowhere"}, "E10001", ("[/nowhere]",)),
        ({"singleop": "x.json"}, "E10001", ("[--singleop]", "--model")),
        ({"output": "/dev/null/x"}, "E40023", ("[--output]",)),
    ],
)
def test_bad_options(atc, options, code, said):
    atc.refuses(code, *said, model=graph(RELU, **TINY), **options)


def test_an_option_of_models_without_a_model(atc):
    atc.refused("E10001", "[--input_shape]", "--model", input_shape="x:1")


def test_a_shape_that_is_known_only_at_run_time(atc):
    model = graph(RELU, inputs={"x": ["n", 3]}, outputs={"y": ["n", 3]})
    line = atc.refuses("E10001", "[x]", "[-1, 3]", "--input_shape=x:", model=model)
    assert "dynamic" in line
    assert types(atc.convert(model, input_shape="x:4,3")) == ["Relu"]


def _absent(path):
    """Create no file."""


def _truncated(path):
    data = onnx_models.bert().SerializeToString()
    path.write_bytes(data[: len(data) // 2])


def _huge(path):
    with path.open("wb") as file:
        file.truncate(2**31)


def _external(path):
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    model = graph(helper.make_node("Add", ["x", "w"], ["y"]), **TINY)
    model.graph.initializer.append(weight)
    onnx.save(model, str(path), save_as_external_data=True, size_threshold=0, location="w.bin")
    (path.parent / "w.bin").unlink()


@pytest.mark.parametrize(
    ("make", "phrase"),
    [
        (_absent, "No such file"),
        (lambda path: path.touch(), "empty"),
        (lambda path: path.write_bytes(b"\x00\x01 no model"), "ONNX"),
        (_truncated, "ONNX"),
        (_huge, "2 GB"),
        (lambda path: path.mkdir(), "regular file"),
        (_external, "beside"),
    ],
)
def test_models_that_cannot_be_read(atc, make, phrase):
    path = atc.root / "bad.onnx"
    make(path)
    atc.refuses("E10001", "[--model]", phrase, model=path)
    assert not atc.output.exists()


def test_weights_kept_beside_the_model(atc):
    path, weight = atc.root / "big.onnx", np.arange(6, dtype=np.float32).reshape(2, 3)
    model = graph(helper.make_node("Add", ["x", "w"], ["y"]), **TINY, weights={"w": weight})
    onnx.save(model, str(path), save_as_external_data=True, size_threshold=0, location="w.bin")
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(atc.run(atc.convert(path), x=x)["y"], weight + 1)


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:1,b", "a:1;a:2", "a:1.5"])
def test_input_shapes_that_are_none(text):
    if text == "a:":
        assert asked_shapes(text) == {"a": ()}
        return
    with pytest.raises(Exception, match="write input_name1:n1"):
        asked_shapes(text)


def test_names_of_inputs_may_have_colons():
    assert asked_shapes("model/x:0:1,2; y:3") == {"model/x:0": (1, 2), "y": (3,)}


@pytest.mark.parametrize(
    ("inputs", "phrase"),
    [
        ({}, "[x] is missing"),
        ({"x": np.zeros((3, 2), np.float32)}, "float32[3, 2]; the model takes float32[2, 3]"),
        ({"x": np.zeros((2, 3))}, "float64[2, 3]"),
    ],
)
def test_inputs_that_do_not_fit(atc, inputs, phrase, capsys):
    om, npz, out = atc.convert(graph(RELU, **TINY)), atc.root / "in.npz", atc.root / "out.npz"
    np.savez(npz, **inputs)
    assert run_command.run([str(om), str(npz), str(out)], {}) == 255
    assert phrase in capsys.readouterr().out
    assert not out.exists()


def test_a_damaged_container_is_not_run(atc, capsys):
    om, npz = atc.convert(graph(RELU, **TINY)), atc.root / "in.npz"
    np.savez(npz, x=np.zeros((2, 3), np.float32))
    data = bytearray(om.read_bytes())
    data[data.index(b"\x7fELF") + 64] ^= 1
    om.write_bytes(data)
    assert run_command.run([str(om), str(npz), str(atc.root / "out.npz")], {}) == 255
    assert str(om) in capsys.readouterr().out
