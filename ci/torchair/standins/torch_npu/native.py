"""The functions of TorchAir's shared object."""

import os

from torch_npu import dump


class TorchNpuGraphBase:
    """Graphs of the other mode, max-autotune, which is never run."""

    def __init__(self, name):
        self.name = name


class _Names(type):
    """Accepts any name as a data type, because the names differ between releases."""

    def __getattr__(cls, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class TorchDataType(metaclass=_Names):
    """Data types of the other mode."""


def GetSocName():
    from torch_npu import npu

    return npu.SOC


def AclopStartDumpArgs(kind, path):
    dump.start(path, os.getpid())


def AclopStopDumpArgs(kind):
    dump.stop()


def _nothing(*args, **kwargs):
    return None


InitializeGraphEngine = FinalizeGraphEngine = InitDeviceStdoutChannel = SetDebugLogPath = _nothing
AclmdlSetDump = check_cann_compat = get_registered_ir_def = StupidRepeat = _nothing
