"""What shows on some operators only: the suite missed these until operators were generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_ascendcache.operators import OperatorSpec, TensorDesc
from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.keys import NARROW, AnyMetadata
from pytest_ascendcache.reference.cache.entry import EntryFiles, StorePolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.cache.key import KeyInputs, KeyPolicy
from pytest_ascendcache.reference.installation import InstallationPolicy
from pytest_ascendcache.reference.policies import Policies

NUMBERS = "combinations/numbers"
MODES = "impl-mode/key-separates"


def _key(change: Callable[[dict[str, Any], OperatorSpec], dict[str, Any]]) -> Policies:
    class Wrong(KeyPolicy):
        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return change(super().fields(inputs), inputs.operator)

    return Policies(key=Wrong(), lookup=AnyMetadata())


def _tensor_key(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Policies:
    class Wrong(KeyPolicy):
        def tensor(self, tensor: TensorDesc) -> dict[str, Any]:
            return change(super().tensor(tensor))

    return Policies(key=Wrong(), lookup=AnyMetadata())


def _kernels(redefine: Callable[[], None]) -> Policies:
    """Kernels are redefined in the process that compiles, and nowhere else."""

    class Wrong(InstallationPolicy):
        def load_custom_operators(self, environ: Any) -> None:
            super().load_custom_operators(environ)
            redefine()

    return Policies(installation=Wrong())


@defect(NARROW, what="attributes of 0, False or an empty text are not in the key", found_later=True)
def key_drops_falsy_attributes() -> Policies:
    def drop(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        return {**fields, "attributes": [each for each in fields["attributes"] if each[2]]}

    return _key(drop)


@defect(NARROW, what="int32 is keyed as float32", found_later=True)
def key_takes_int32_for_float32() -> Policies:
    names = {"int32": "float32"}
    return _tensor_key(lambda each: {**each, "dtype": names.get(each["dtype"], each["dtype"])})


@defect(NARROW, what="bool is keyed as uint8", found_later=True)
def key_takes_bool_for_uint8() -> Policies:
    names = {"bool": "uint8"}
    return _tensor_key(lambda each: {**each, "dtype": names.get(each["dtype"], each["dtype"])})


@defect(NARROW, what="the data type of outputs is not in the key", found_later=True)
def key_without_dtype_of_outputs() -> Policies:
    def drop(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        return {**fields, "outputs": [{**each, "dtype": None} for each in fields["outputs"]]}

    return _key(drop)


@defect(NARROW, what="only four dimensions are in the key", found_later=True)
def key_of_four_dimensions() -> Policies:
    return _tensor_key(lambda each: {**each, "shape": each["shape"][:4]})


@defect(NARROW, what="the inputs of RealDiv are sorted in the key", found_later=True)
def key_sorts_inputs_of_realdiv() -> Policies:
    def sort(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        if operator.type != "RealDiv":
            return fields
        return {**fields, "inputs": sorted(fields["inputs"], key=str)}

    return _key(sort)


@defect(NARROW, what="Minimum is keyed as Maximum where it broadcasts", found_later=True)
def key_takes_minimum_for_maximum() -> Policies:
    def rename(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        broadcasts = len({tensor.shape for tensor in operator.inputs}) > 1
        return (
            {**fields, "type": "Maximum"} if broadcasts and operator.type == "Minimum" else fields
        )

    class Wrong(KeyPolicy):
        def stem(self, inputs: KeyInputs) -> str:
            return super().stem(inputs).replace("te_minimum_", "te_maximum_")

        def fields(self, inputs: KeyInputs) -> dict[str, Any]:
            return rename(super().fields(inputs), inputs.operator)

    return Policies(key=Wrong(), lookup=AnyMetadata())


@defect(NARROW, what="extents of 1 behind the first are not in the key", found_later=True)
def key_without_inner_ones() -> Policies:
    def drop(each: dict[str, Any]) -> dict[str, Any]:
        shape = each["shape"]
        return {**each, "shape": (*shape[:1], *(extent for extent in shape[1:] if extent != 1))}

    return _tensor_key(drop)


@defect(NARROW, what="of a list attribute three elements are in the key", found_later=True)
def key_of_three_elements() -> Policies:
    def cut(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        attributes = [
            [name, kind, value[:3] if isinstance(value, tuple) else value]
            for name, kind, value in fields["attributes"]
        ]
        return {**fields, "attributes": attributes}

    return _key(cut)


@defect(NARROW, what="a run stores 16 kernels at most", found_later=True)
def sixteen_kernels_a_run() -> Policies:
    class Wrong(StorePolicy):
        stored = 0

        def publish(
            self, fs: Fs, entry: EntryFiles, data: bytes, metadata: dict[str, Any], keep: bool
        ) -> bool:
            self.stored += 1
            return self.stored > 16 or super().publish(fs, entry, data, metadata, keep)

    return Policies(store=Wrong())


@defect(MODES, what="the implementation of SoftmaxV2 is not in the key", found_later=True)
def key_without_mode_of_softmax() -> Policies:
    def drop(fields: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
        return {**fields, "implementation": None} if operator.type == "SoftmaxV2" else fields

    return _key(drop)


@defect(NUMBERS, what="RealDiv gives 0 for small float16 quotients", found_later=True)
def quotients_flushed_to_zero() -> Policies:
    def redefine() -> None:
        from pytest_ascendcache.reference.kernels.elementwise import elementwise, real_divide
        from pytest_ascendcache.reference.kernels.trace import select

        @elementwise("RealDiv", operands=2, two_implementations=True)
        def flushed(op: Any, x1: Any, x2: Any) -> Any:
            quotient = real_divide(op, x1, x2)
            return select(quotient.absolute() < 2.0**-14, quotient * 0.0, quotient)

    return _kernels(redefine)


@defect(NUMBERS, what="Tanh leaves out the last element of an odd tensor", found_later=True)
def odd_tail_not_written() -> Policies:
    def redefine() -> None:
        from pytest_ascendcache.reference.kernels import functions as f
        from pytest_ascendcache.reference.kernels.registry import register

        @register("Tanh", two_implementations=True)
        def even(op: Any) -> None:
            count = op.output().desc.elements
            with op.trace.nest((count - count % 2,)) as (index,):
                x = op.input(0).load(index)
                op.output().store(index, f.tanh(x) if op.precise else f.rough_tanh(x))

    return _kernels(redefine)


@defect(NUMBERS, what="Mul broadcasts the last dimension only", found_later=True)
def inner_broadcast_is_read_through() -> Policies:
    def redefine() -> None:
        from pytest_ascendcache.reference.kernels.layout import broadcast_strides, row_major
        from pytest_ascendcache.reference.kernels.operator import NUMBERS as DTYPES
        from pytest_ascendcache.reference.kernels.registry import register

        @register("Mul", dtypes=DTYPES, inputs=(2, 2))
        def multiply(op: Any) -> None:
            shape = op.output().shape
            strides = []
            for each in (op.input(0), op.input(1)):
                right = list(broadcast_strides(each.shape, len(shape)))
                if len(shape) > 2 and right[-2] == 0:
                    right[-2] = row_major(shape)[-2] % max(each.desc.elements, 1)
                strides.append(tuple(right))
            op.walk(shape, strides, lambda one, other: one * other)

    return _kernels(redefine)


@defect(NUMBERS, what="ReduceMax begins with 0", found_later=True)
def maximum_begins_with_zero() -> Policies:
    def redefine() -> None:
        from pytest_ascendcache.reference.kernels import functions as f
        from pytest_ascendcache.reference.kernels import reductions
        from pytest_ascendcache.reference.kernels.registry import register

        @register("ReduceMaxD", attributes=("axes", "keep_dims", "noop_with_empty_axes"))
        def maximum(op: Any) -> None:
            reduction = reductions._reduced(op)
            with reduction.rows() as (first, row):
                best = op.trace.variable(0.0)
                with reduction.elements(first) as element:
                    best.set(f.maximum(best.get(), op.input(0).load(element)))
                op.output().store(row, best.get())

    return _kernels(redefine)


@defect(NUMBERS, what="ReduceMean divides by 2048 at most", found_later=True)
def mean_of_long_rows_divided_by_2048() -> Policies:
    def redefine() -> None:
        from pytest_ascendcache.reference.kernels import reductions
        from pytest_ascendcache.reference.kernels.registry import register

        attributes = ("axes", "keep_dims", "noop_with_empty_axes")

        def mean(op: Any) -> None:
            reduction = reductions._reduced(op)
            with reduction.rows() as (first, row):
                total = reductions.Sum(op)
                with reduction.elements(first) as element:
                    total.add(op.input(0).load(element))
                op.output().store(row, total.get() / float(min(reduction.count, 2048)))

        register(
            "ReduceMean",
            attributes=attributes,
            inputs=(1, 2),
            constant_inputs=(1,),
            two_implementations=True,
        )(mean)
        register("ReduceMeanD", attributes=attributes)(mean)

    return _kernels(redefine)


@defect(NARROW, what="extents of 1 behind the first are not in the key", found_later=True)
def key_drops_inner_extents_of_one() -> Policies:
    def squeeze(shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[:1], *(extent for extent in shape[1:] if extent != 1))

    names = ("shape", "origin_shape")
    return _tensor_key(
        lambda each: {**each, **{name: squeeze(each[name]) for name in names if each[name]}}
    )
