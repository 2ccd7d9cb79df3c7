"""Variables of the whole stack that decide where caches are and who waits for whom.

A wrong value is rarely refused: torch_npu takes any unknown cache mode for *enable*, CANN replaces
a bad limit, and a directory that all ranks share is found out when they collide. Source: document
C; document M; facts ``cann-operator-cache`` sections 1.1 and 4.4, ``mindspore-incremental``
sections 1.1 and 1.8, ``static-kernel`` section 4.1, ``editions``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from pytest_ascendcache.contract.options import CacheMode
from pytest_ascendcache.contract.ranks import TIMEOUT
from pytest_ascendcache.release.problem import Problem
from pytest_ascendcache.words import nearest

TORCH_MODE, TORCH_DIR = "ACL_OP_COMPILER_CACHE_MODE", "ACL_OP_COMPILER_CACHE_DIR"
LOCAL_SIZE, RANK, MS_CACHE = "LOCAL_WORLD_SIZE", "RANK_ID", "MS_COMPILER_CACHE_PATH"
RANK_SIZE = "RANK_SIZE"
DIRECTORIES = ("ASCEND_CACHE_PATH", TORCH_DIR, MS_CACHE, "ASCEND_WORK_PATH")
NAMES = (
    *(*DIRECTORIES, TORCH_MODE, LOCAL_SIZE, RANK, TIMEOUT, RANK_SIZE, "DEVICE_ID"),
    *("ASCEND_MAX_OP_CACHE_SIZE", "ASCEND_REMAIN_CACHE_SIZE_RATIO", "ASCEND_OPP_PATH"),
    *("ASCEND_CUSTOM_OPP_PATH", "TUNE_BANK_PATH", "MS_COMPILER_CACHE_ENABLE"),
    *("MS_COMPILER_OP_LEVEL", "ASCEND_RT_VISIBLE_DEVICES", "NPU_COLLECT_PATH"),
    *("ASCEND_OP_COMPILE_SAVE_KERNEL_META", "ASCEND_PROCESS_LOG_PATH", "ASCEND_HOME_PATH"),
    *("ASCEND_TOOLKIT_HOME", "ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_SLOG_PRINT_TO_STDOUT"),
    *("HCCL_EXEC_TIMEOUT", "HCCL_WHITELIST_DISABLE", "HCCL_IF_IP", "HCCL_BUFFSIZE"),
)
"""Names that the stack reads; a near miss of one is a typing error."""

_STACK = ("ASCEND_", "HCCL_", "ACL_OP_", "MS_COMPILER_", "LOCAL_WORLD", "RANK_")
_SHORTEST, _LONGEST = 120, 7200
"""Seconds that HCCL_CONNECT_TIMEOUT takes."""


def environment_problems(
    environment: Mapping[str, str], cards: int = 1, with_limits: bool = False
) -> list[Problem]:
    """Report variables of the stack with a value that is silently taken for another one. ``cards``
    is how many processes share the settings. Limits are judged by the edition elsewhere, unless
    ``with_limits``."""
    found = [*_misspelt(environment), *_modes(environment), *_numbers(environment, cards)]
    for name in DIRECTORIES:
        found += _place(name, environment.get(name, ""), cards)
    if with_limits:
        found += _limits(environment)
    return found


def _misspelt(environment: Mapping[str, str]) -> Iterator[Problem]:
    for name in environment:
        if name not in NAMES and name.startswith(_STACK):
            near = nearest(name, NAMES)
            if near and abs(len(near) - len(name)) <= 2:
                yield Problem(f"{name} is set, which nothing reads", near)


def _modes(environment: Mapping[str, str]) -> Iterator[Problem]:
    mode = environment.get(TORCH_MODE, "")
    values = [each.value for each in CacheMode]
    if mode and mode not in values:
        near = nearest(mode, values)
        yield Problem(
            f"{TORCH_MODE}={mode} is none of its values, and torch_npu takes it for enable",
            near or "enable, force or disable",
        )


def _numbers(environment: Mapping[str, str], cards: int) -> Iterator[Problem]:
    timeout = environment.get(TIMEOUT, "")
    if timeout and not (is_number(timeout) and _SHORTEST <= int(timeout) <= _LONGEST):
        yield Problem(f"{TIMEOUT}={timeout}", f"seconds from {_SHORTEST} to {_LONGEST}")
    local = environment.get(LOCAL_SIZE, "")
    if local and not (is_number(local.strip()) and int(local) > 0):
        yield Problem(f"{LOCAL_SIZE}={local}", "a natural number: the processes of one machine")
    elif local and cards > 1 and cards % int(local):
        yield Problem(f"{LOCAL_SIZE}={local}, and there are {cards} cards", "a number that divides")
    rank = environment.get(RANK, "")
    if rank and not is_number(rank):
        yield Problem(
            f"{RANK}={rank}: MindSpore puts it into a path as it is", "a number from 0 on"
        )
    elif rank and cards > 1:
        yield Problem(
            f"{RANK}={rank} for all of {cards} cards: they share one directory",
            "a number of its own for each process",
        )
    elif rank and is_number(size := environment.get(RANK_SIZE, "")) and int(rank) >= int(size) > 1:
        yield Problem(
            f"{RANK}={rank}, and {RANK_SIZE} is {size}", f"a number from 0 to {int(size) - 1}"
        )


def _place(name: str, value: str, cards: int) -> Iterator[Problem]:
    if not value or value.startswith("`"):
        return
    path = os.path.normpath(value)
    if not os.path.isabs(value) and not value.startswith("$"):  # noqa: PTH117 - a text
        where = "it depends on the directory that a process is started in"
        yield Problem(f"{name}={value} is a relative path: {where}", "an absolute path")
    elif path.startswith(("/tmp", "/var/tmp", "/dev/shm")):
        yield Problem(
            f"{name}={value}: every user may write there, and it may be emptied at any time",
            "a directory of your own",
        )
    shared = cards > 1 and name in ("ASCEND_CACHE_PATH", TORCH_DIR) and "$" not in value
    if shared and path.startswith(("/mnt", "/nfs", "/share", "/home/share")):
        yield Problem(
            f"{name}={value} for all of {cards} cards, on what looks like shared storage",
            "a directory for each machine, or one on which file locks work",
        )


def _limits(environment: Mapping[str, str]) -> Iterator[Problem]:
    size = environment.get("ASCEND_MAX_OP_CACHE_SIZE", "")
    if size and size != "-1" and not (is_number(size) and int(size) > 0):
        yield Problem(
            f"ASCEND_MAX_OP_CACHE_SIZE={size} is no value for it, so 500 is used",
            "MB from 1 on, or -1 for no aging",
        )
    ratio = environment.get("ASCEND_REMAIN_CACHE_SIZE_RATIO", "")
    if ratio and not (is_number(ratio) and 1 <= int(ratio) <= 100):
        yield Problem(
            f"ASCEND_REMAIN_CACHE_SIZE_RATIO={ratio} is no value for it", "1 to 100, a percentage"
        )


def is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
