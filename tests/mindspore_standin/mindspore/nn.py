"""Cells."""

import inspect
from itertools import count

import numpy as np

from mindspore.kernels import launch

_NUMBERS = count()


class LeakyReLU:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, array):
        slope = float(self.slope)

        def plain(array):
            return np.where(array > 0, array, array * array.dtype.type(slope))

        return launch("LeakyRelu", array, plain, f"x > 0 ? x : x * {slope!r}f", slope)


class Dropout:
    def __init__(self, p):
        self.p = p
        self.training = False

    def __call__(self, array):
        return array * 0 if self.training else array


class Cell:
    training = False

    def __init__(self):
        pass

    def set_train(self):
        self.training = True

    def leaky(self):
        return [each for each in vars(self).values() if isinstance(each, LeakyReLU)]

    def source(self):
        return inspect.getsource(type(self))

    def __call__(self, *tensors):
        import mindspore

        slopes, training = mindspore.compiled(self, tensors, next(_NUMBERS))
        for each in vars(self).values():
            if isinstance(each, Dropout):
                each.training = training
        for each, slope in zip(self.leaky(), slopes, strict=True):
            each.slope = slope
        outputs = self.construct(*(each.array for each in tensors))
        if isinstance(outputs, tuple):
            return tuple(mindspore.Tensor(each) for each in outputs)
        return mindspore.Tensor(outputs)
