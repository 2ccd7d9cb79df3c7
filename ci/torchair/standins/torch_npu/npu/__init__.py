"""Streams, events and graphs of one device, which does all work synchronously."""

import contextlib
import itertools
import json
import os
import re
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from torch_npu.npu import utils

SOC = os.environ.get("ASCENDCACHE_SOC", "Ascend910B1")
_numbers = itertools.count(1)


class Stream:
    """A stream whose work is done as soon as it is submitted."""

    def __init__(self, device=None, priority=0, **kwargs):
        self.stream_id = kwargs.get("stream_id", next(_numbers))
        self.device_index, self.device_type = 0, 20

    def synchronize(self):
        pass

    def wait_event(self, event):
        pass

    def wait_stream(self, stream):
        pass

    def record_event(self, event=None):
        return event or Event()


class Event:
    """An event that is always complete."""

    def __init__(self, *args, **kwargs):
        pass

    def record(self, stream=None):
        pass

    def wait(self, stream=None):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True


ExternalEvent = Event
_current = [Stream()]


def current_stream(device=None):
    return _current[-1]


def default_stream(device=None):
    return _current[0]


@contextlib.contextmanager
def stream(given):
    _current.append(given or _current[-1])
    try:
        yield
    finally:
        _current.pop()


def set_stream(given):
    _current[-1] = given


def get_stream_limit(given):
    return {"cube_core_num": 24, "vector_core_num": 48}


def set_stream_limit(given, cube=-1, vector=-1):
    pass


def fake_record_stream(*args):
    pass


class NPUGraph:
    """The captured calls. A replay runs them again into the same tensors."""

    def __init__(self):
        self._calls = []

    def record(self, *call):
        # Other names for the same memory, because TorchAir empties the captured tensors.
        self._calls.append(tree_map_only(torch.Tensor, lambda each: each.detach(), call))

    def replay(self):
        for function, args, kwargs, results in self._calls:
            again = function(*args, **kwargs)
            for old, new in zip(tree_flatten(results)[0], tree_flatten(again)[0], strict=True):
                if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)

    def reset(self):
        self._calls.clear()

    def pool(self):
        return (0, 1)


class _Capture(TorchDispatchMode):
    def __init__(self, captured):
        super().__init__()
        self._captured = captured

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        self._captured.record(function, args, kwargs or {}, results)
        return results


@contextlib.contextmanager
def graph(npu_graph, pool=None, stream=None, **kwargs):
    with _Capture(npu_graph):
        yield


def graph_pool_handle():
    return (0, 1)


def synchronize(device=None):
    pass


def empty_cache():
    pass


def memory_snapshot():
    return []


def current_device():
    return 0


def is_available():
    return True


def get_device_name(device=None):
    return SOC


def _get_deterministic_level():
    return 0


def _aclnn_reselect_static_kernel():
    """Read this chip's index as CANN's runtime does: a missing or torn index is no error."""
    _reselect(os.environ["ASCEND_OPP_PATH"])


if utils._is_gte_cann_version("9.1.0"):

    def _aclnn_reselect_static_kernel_with_path(path):
        """Read the index of packages that this process installed only for itself."""
        _reselect(path)


def _reselect(opp):
    base = Path(opp, "static_kernel/ai_core/config")
    index = base / re.match(r"ascend\d+[a-z]?", SOC.lower())[0] / "binary_info_config.json"
    found = 0
    with contextlib.suppress(OSError, ValueError):
        found = sum(len(each["staticList"]) for each in json.loads(index.read_text()).values())
    print(f"reselected {found} static kernels", flush=True)


class matmul:
    allow_hf32 = False


class conv:
    allow_hf32 = False


def super_kernel_scope_begin(*args):
    pass


def super_kernel_scope_end(*args):
    pass
