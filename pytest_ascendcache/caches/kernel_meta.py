"""The kernels of one rank: ``.o``, ``.json`` and ``.info`` in a ``kernel_meta`` directory.

Source: document M, overview; facts ``mindspore-incremental`` sections 1.2 and 1.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_ascendcache.caches.entry import Entry
from pytest_ascendcache.contract.ranks import SUFFIXES


@dataclass(frozen=True)
class RankKernel(Entry):
    """The three files of one kernel. Its stem ends with a hash and the card's number."""

    suffixes = SUFFIXES
    stems = re.compile(r"(?P<type>\w+?)_\d+_\d+", re.ASCII)

    def problems(self) -> list[str]:
        problems = super().problems()
        if not self.info_path.exists():
            problems.append("the .info file is missing")
        elif not isinstance(self.info, dict):
            problems.append("the .info file is not a JSON object")
        return problems


read_kernel_meta = RankKernel.read_all
"""All kernels of a ``kernel_meta`` directory by stem. MindSpore keeps other files there too."""
