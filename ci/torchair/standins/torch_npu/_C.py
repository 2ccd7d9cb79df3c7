"""The memory of captured graphs, and the dump that npugraph_ex starts and stops."""

import ctypes
import os

import torch

from torch_npu import dump


def _aclop_start_dump(path):
    dump.start(path, os.getpid())


def _aclop_stop_dump():
    dump.stop()


def _npu_getCheckpointState(device, pool):
    return None


def _npu_setCheckpointPoolState(device, state, stale_storages, storages_to_add):
    pass


def _construct_storage_from_data_pointer(address, device, size):
    """The bytes at an address, which a captured graph keeps."""
    if size == 0:
        return torch.empty(0, dtype=torch.uint8).untyped_storage()
    data = (ctypes.c_char * size).from_address(address)
    return torch.frombuffer(data, dtype=torch.uint8).untyped_storage()


def _construct_NPU_Tensor_From_Storage_And_Metadata(metadata, storage):
    tensor = torch.empty(0, dtype=metadata["dtype"])
    tensor.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])
    return tensor
