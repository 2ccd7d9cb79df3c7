"""Changes of knowledge base and dependencies that do not get through."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pytest_ascendcache.qualification.catalogue import defect, having
from pytest_ascendcache.qualification.defects.entries import another
from pytest_ascendcache.reference.cache.directory import DirectoryPolicy
from pytest_ascendcache.reference.cache.entry import LookupPolicy
from pytest_ascendcache.reference.cache.fs import Fs
from pytest_ascendcache.reference.installation import CUSTOM_OPERATORS, InstallationPolicy
from pytest_ascendcache.reference.options import OptionPolicy
from pytest_ascendcache.reference.policies import Policies


@defect(
    "cache-mode/force-applies-knowledge-base",
    what="the knowledge base is remembered beside the cache, and force does not clear it",
)
def knowledge_base_remembered() -> Policies:
    loaded: dict[str, dict[str, int]] = {}

    class WrongInstallation(InstallationPolicy):
        def tuning(
            self, bank: str, soc: str, environ: Mapping[str, str]
        ) -> dict[str, dict[str, int]]:
            loaded.update(super().tuning(bank, soc, environ))
            return loaded

    class WrongDirectory(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            super().prepare(fs, root, soc, origin)
            memory = root / "tuning.json"
            if not memory.exists():
                memory.write_text(json.dumps(loaded))
            loaded.update(json.loads(memory.read_text()))

    return having(WrongInstallation(), WrongDirectory())


@defect(
    "cache-mode/force-applies-toolchain-change",
    what="operator sources are remembered beside the cache, and force does not clear them",
)
def operator_sources_remembered() -> Policies:
    installation = InstallationPolicy()

    class Wrong(DirectoryPolicy):
        def prepare(self, fs: Fs, root: Path, soc: str, origin: str) -> None:
            super().prepare(fs, root, soc, origin)
            package = os.environ.get("ASCEND_CUSTOM_OPP_PATH")
            if package:
                memory = root / "operators"
                if not memory.exists():
                    shutil.copytree(Path(package) / CUSTOM_OPERATORS, memory)
                for path in sorted(memory.glob("*.py")):
                    installation.load(path)

    return having(Wrong(), installation)


@defect(
    "cache-mode/force-applies-knowledge-base",
    what="under force the knowledge base is not looked at",
)
def force_without_knowledge_base() -> Policies:
    asked: list[str] = []

    class WrongOptions(OptionPolicy):
        def cache_mode(self, value: str) -> str:
            asked.append(super().cache_mode(value))
            return asked[-1]

    class WrongInstallation(InstallationPolicy):
        def tuning(
            self, bank: str, soc: str, environ: Mapping[str, str]
        ) -> dict[str, dict[str, int]]:
            return {} if asked[-1:] == ["force"] else super().tuning(bank, soc, environ)

    return having(WrongOptions(), WrongInstallation())


@defect("cache-mode/enable-after-change", overrides=LookupPolicy.find)
def mixture_after_change(self, right, fs, entry, expected):
    """After a knowledge base is named, what is served is neither old nor new."""
    data = right(fs, entry, expected)
    if data is None or "TUNE_BANK_PATH" not in os.environ:
        return data
    return another(data)
