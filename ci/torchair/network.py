"""The script that ``ci/verify-torchair`` judges: a small transformer block in the document's API.

It runs the block for three lengths. All cards begin with the same length, but with different last
layers, so that files of the same name differ. The later lengths differ from card to card, and only
the first card has met its last length before. Every output is compared with the block run without a
compiler. ``ASCENDCACHE_FORM`` is ``torchair`` (default), ``npugraph_ex``, or ``bare``, which uses
only TorchAir's files for static kernels and for the exit, without ``torch.compile``, and is faster.
"""

import os

import torch
import torch_npu

FORM = os.environ.get("ASCENDCACHE_FORM", "torchair")
SIZE, LENGTHS = 16, (4, 8, 4)
CARDS = (("WORLD_SIZE", "1"), ("RANK", "0"))


class Block(torch.nn.Module):
    """Attention of one head and a feed-forward part, each with a residual. The block sorts its
    outputs with an operator that has no static kernel and that op_compiler does not know."""

    def __init__(self, outputs):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(SIZE), torch.nn.LayerNorm(SIZE)
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(SIZE, SIZE) for _ in range(4)
        )
        self.up, self.down = torch.nn.Linear(SIZE, 4 * SIZE), torch.nn.Linear(4 * SIZE, SIZE)
        self.head = torch.nn.Linear(SIZE, outputs)

    def forward(self, x):
        normed = self.first(x)
        scores = torch.bmm(self.query(normed), self.key(normed).transpose(1, 2)) / SIZE**0.5
        x = x + self.output(torch.bmm(torch.softmax(scores, -1), self.value(normed)))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))
        return torch.sort(self.head(x), stable=True).values


def backend():
    if FORM == "npugraph_ex":
        import npugraph_ex

        config = npugraph_ex.CompilerConfig()
        config.static_kernel_compile = True
        config.pattern_fusion_pass = False
        return npugraph_ex.get_npu_backend(compiler_config=config)
    import torchair

    config = torchair.CompilerConfig()
    config.mode = "reduce-overhead"
    config.experimental_config.pattern_fusion_pass = False
    config.experimental_config.aclgraph._aclnn_static_shape_kernel = True
    return torchair.get_npu_backend(compiler_config=config)


def compiled(block):
    if FORM == "bare":
        torch_npu.without_compiler()
        import torchair.core._backend  # noqa: F401 - uninstalls at exit
        from torchair._acl_concrete_graph.static_kernel import compile_static_kernel

        met = set()

        def run(x):
            if not met:
                compile_static_kernel(block, x)
            met.add(x.shape)
            return block(x)

        return run
    torch._dynamo.reset()
    return torch.compile(block, backend=backend(), dynamic=False, fullgraph=True)


def main():
    world, card = (int(os.environ.get(name, default)) for name, default in CARDS)
    if world > 1:
        torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    block = Block(SIZE + 1 + card).eval()
    for number, first in enumerate(LENGTHS):
        length = first + number * card
        run = compiled(block)
        with torch.no_grad():
            for _ in range(2):  # captured, then replayed
                x = torch.randn(2, length, SIZE)
                torch.testing.assert_close(run(x), block(x))
        print(f"call {number}: length {length} is right", flush=True)
    if world > 1:
        torch.distributed.destroy_process_group()


main()
