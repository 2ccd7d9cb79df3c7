"""What TorchAir's shared object gives to its Python."""

import os

from torch_npu import dump


class TorchNpuGraphBase:
    """Graphs of the other mode, max-autotune; none is run here."""

    def __init__(self, name):
        self.name = name


class _Names(type):
    """Any name is a data type: which there are differs from release to release."""

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
