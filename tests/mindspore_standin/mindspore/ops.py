"""Operators."""

import numpy as np

abs, exp, maximum, minimum = np.abs, np.exp, np.maximum, np.minimum
neg, sqrt, square, tanh = np.negative, np.sqrt, np.square, np.tanh


def relu(array):
    return np.maximum(array, 0)


def sigmoid(array):
    return 1 / (1 + np.exp(-array))


class AllReduce:
    def __call__(self, array):
        return array
