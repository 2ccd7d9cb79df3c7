"""Compiles a small model of transformers with static kernels, and checks its kernels and outputs.

Run by ``ci/verify-torchair --models`` for BERT, GPT-2, Llama and Qwen3, each with fused and with
eager attention and with seeded weights. TorchAir compiles the model through the document's own API,
which calls op_compiler and installs its packages. Every dumped operator must have a kernel, and the
outputs must be those of the model without a compiler.
"""

import json
import os
import sys
from pathlib import Path

import torch
import transformers

_SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 1, "use_cache": False}
_SMALL_GPT2 = {"vocab_size": 64, "n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
MODELS = {
    "BERT": (transformers.BertModel, transformers.BertConfig(**_SMALL)),
    "GPT-2": (transformers.GPT2Model, transformers.GPT2Config(**_SMALL_GPT2, use_cache=False)),
    "Llama": (transformers.LlamaModel, transformers.LlamaConfig(**_GROUPED)),
    "Qwen3": (transformers.Qwen3Model, transformers.Qwen3Config(**_GROUPED, head_dim=16)),
}
FORMS = ("sdpa", "eager")
"""The ways to compute attention: fused in one call, or in parts."""


def backend():
    # Imported after transformers, which would otherwise look for operators that only an NPU has.
    sys.path.insert(0, str(Path(__file__).with_name("standins")))
    import torch_npu  # noqa: F401 - puts torchair on the path
    import torchair

    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.pattern_fusion_pass = False
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    # This pass would write into expanded tensors, which PyTorch refuses.
    config.debug.aclgraph.disable_reinplace_inplaceable_ops_pass = True
    return torchair.get_npu_backend(compiler_config=config)


def run(name, form):
    """Run one model, captured and then replayed.

    Raises:
        AssertionError: if an output is wrong.
    """
    make, config = MODELS[name]
    config._attn_implementation = form
    torch.manual_seed(0)
    model = make(config).eval()
    compiled = torch.compile(model, backend=backend(), dynamic=False)
    with torch.no_grad():
        for _ in range(2):
            tokens = torch.randint(64, (1, 8))
            torch.testing.assert_close(compiled(tokens)[0], model(tokens)[0])


def asked_for():
    """Return the operator types that TorchAir dumped."""
    paths = Path.cwd().rglob("*_opcompile/*.json")
    return {json.loads(each.read_text())["op_type"] for each in paths}


def installed():
    """Return the operator types in the index that the runtime reads."""
    indexes = Path(os.environ["ASCEND_OPP_PATH"]).rglob("binary_info_config.json")
    return {kind for each in indexes for kind in json.loads(each.read_text())}


def main():
    """``models.py NAME FORM`` in an empty directory; fails if an operator has no kernel."""
    name, form = sys.argv[1:]
    run(name, form)
    asked, lacking = asked_for(), asked_for() - installed()
    if lacking or not asked:
        return f"{name}, {form}: no kernel for {', '.join(sorted(lacking or {'anything'}))}"
    print(f"{name}, {form}: {len(asked)} types of operators, each with kernels; outputs are right")
    return 0


sys.exit(main())
