"""Makes what MindSpore imports from CANN's Python packages importable.

``te_fusion`` beside this file is the compiler. Of the other packages only names are used, and every
name of theirs is a mock.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from unittest.mock import MagicMock

_PACKAGES = ("te", "tbe", "topi", "impl", "auto_tune", "schedule_search", "hccl")
_SERVER = b"kernel_build_server_ascend"


class _Mocks(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in _PACKAGES:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__ = []
        module.__name__ = spec.name
        module.__spec__ = spec
        for answer in ("cann_kb_init", "cann_kb_finalize", "cann_kb_load", "cann_kb_unload"):
            getattr(module, answer).return_value = 0
        module.te_set_version.return_value = True
        return module

    def exec_module(self, module):
        pass


sys.meta_path.append(_Mocks())


def _is_server():
    with open("/proc/self/cmdline", "rb") as file:
        return _SERVER in file.read()


if _is_server():
    # The compile server is a second Python. Its own files need only a log from the package, and
    # importing the rest takes longer than everything else it does.
    import importlib.util
    import types

    spec = importlib.machinery.PathFinder.find_spec("mindspore")
    if spec is not None and os.environ.get("ASCENDCACHE_STANDIN_SERVER") != "whole":
        package = types.ModuleType("mindspore")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["mindspore"] = package
