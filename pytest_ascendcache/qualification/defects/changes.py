"""Changes of the knowledge base and of operator sources that have no effect."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect
from pytest_ascendcache.qualification.defects.entries import altered
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.installation import CUSTOM_OPERATORS, InstallationPolicy
from pytest_ascendcache.reference.options import OptionPolicy

KNOWLEDGE_BASE = "cache-mode/force-applies-knowledge-base"


@defect(KNOWLEDGE_BASE, overrides=InstallationPolicy.tuning, memory={"loaded": {}})
def knowledge_base_remembered(self, right, *arguments):
    """The knowledge base is remembered next to the cache, and force does not clear it."""
    self.memory.loaded.update(right(*arguments))
    return self.memory.loaded


@knowledge_base_remembered.also(DirectoryPolicy.prepare)
def _(self, right, fs, root, *arguments):
    right(fs, root, *arguments)
    remembered = root / "tuning.json"
    if not remembered.exists():
        remembered.write_text(json.dumps(self.memory.loaded))
    self.memory.loaded.update(json.loads(remembered.read_text()))


@defect("cache-mode/force-applies-toolchain-change", overrides=DirectoryPolicy.prepare)
def operator_sources_remembered(self, right, fs, root, *arguments):
    """Operator sources are remembered next to the cache, and force does not clear them."""
    right(fs, root, *arguments)
    package = os.environ.get("ASCEND_CUSTOM_OPP_PATH")
    if package:
        remembered = root / "operators"
        if not remembered.exists():
            shutil.copytree(Path(package) / CUSTOM_OPERATORS, remembered)
        for path in sorted(remembered.glob("*.py")):
            InstallationPolicy().load(path)


@defect(KNOWLEDGE_BASE, overrides=OptionPolicy.cache_mode, memory={"mode": ""})
def force_without_knowledge_base(self, right, value):
    """Force does not read the knowledge base."""
    self.memory.mode = right(value)
    return self.memory.mode


@force_without_knowledge_base.also(InstallationPolicy.tuning)
def _(self, right, *arguments):
    return {} if self.memory.mode == "force" else right(*arguments)


@defect("cache-mode/enable-after-change", overrides=LookupPolicy.find)
def mixture_after_change(self, right, fs, entry, expected):
    """Once a knowledge base is named, the served kernel is neither the old nor the new one."""
    data = right(fs, entry, expected)
    if data is None or "TUNE_BANK_PATH" not in os.environ:
        return data
    return altered(data)
