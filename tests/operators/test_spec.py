"""Equality of operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_ascendcache.operators import Attribute, OperatorSpec, TensorDesc

CONSTANT = replace(TensorDesc.of("float32", 2), is_const=True)


@pytest.mark.parametrize("kind", ["float", "list_float", "constant"])
def test_the_sign_of_a_zero_tells_operators_apart(kind):
    def operator(zero):
        if kind == "constant":
            inputs = (replace(CONSTANT, const_value=(1.0, zero)),)
            return OperatorSpec("X", inputs, ())
        value = zero if kind == "float" else (1.0, zero)
        return OperatorSpec("X", (), (), (Attribute("a", kind, value),))

    plus, minus = operator(0.0), operator(-0.0)
    assert plus == operator(0.0)
    assert minus == operator(-0.0) == minus.named("other").named("")
    assert len({plus, minus, operator(-0.0)}) == 2
