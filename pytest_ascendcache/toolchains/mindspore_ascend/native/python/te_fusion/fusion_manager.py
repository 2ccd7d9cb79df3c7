"""What MindSpore asks about an operator before it compiles it."""

import json


def call_op_func(arguments, module, function):
    if function != "op_select_format":
        return "True"
    inputs, outputs, _ = arguments
    described = {}
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for number, tensor in enumerate(tensors):
            first = tensor[0] if isinstance(tensor, (list, tuple)) else tensor
            described["%s%d" % (kind, number)] = {
                "name": (first or {}).get("name")
                or "%s%d" % ("x" if kind == "input" else "y", number),
                "dtype": "float16,float,int32",
                "format": "ND,ND,ND",
            }
    return json.dumps(described)


def check_op_impl_mode(*_):
    return False


def clear_fusion_params(*_):
    return None


def save_op_params(*_):
    return None


def op_params_to_json(*_):
    return "{}"


def build_single_op_from_c(*_):
    raise RuntimeError("the stand-in compiler does not tune")


def get_fusion_build_cfg(*_):
    return None


def init_current_opinfo(*_):
    return None
