"""A stand-in for the part of MindSpore 1.x that the generated scripts use, with its kernel cache.

It writes the same files as MindSpore, with the adapter's own stand-in compiler, and runs them on
its stand-in runtime. ``STANDIN_FAULT`` gives it a fault. No test imports it.
"""

import numpy as np

from mindspore import context, nn, ops  # noqa: F401 - imported by scripts


class Tensor:
    def __init__(self, array):
        self.array = np.ascontiguousarray(array)

    def asnumpy(self):
        return self.array
