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
            short = "x" if kind == "input" else "y"
            described[f"{kind}{number}"] = {
                "name": (first or {}).get("name") or f"{short}{number}",
                "dtype": "float16,float,int32",
                "format": "ND,ND,ND",
            }
    return json.dumps(described)


def check_op_impl_mode(*_):
    return False


def op_params_to_json(*_):
    return "{}"


def build_single_op_from_c(*_):
    raise RuntimeError("the stand-in compiler does not tune")


def init_current_opinfo(*_):
    return None


clear_fusion_params = save_op_params = get_fusion_build_cfg = init_current_opinfo
