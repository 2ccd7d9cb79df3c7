"""Runs the plain scripts about document M with releases of MindSpore, and writes the page of them.

Run by ``ci/verify-mindspore-ascend RELEASE... --findings``. Each script runs in an empty directory,
and three times if the first run shows a breach. What it prints decides whether the sentence is kept
or broken; if that differs between the three, the page says so.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm import WarmPython

from pytest_ascendcache.contract.toml import tomllib

HERE = Path(__file__).parent
PAGES = {"en": "docs/findings/mindspore-ascend.md", "zh": "docs/zh/findings/mindspore-ascend.md"}
TIMES = 3
LINES = 15
PATIENCE = 240.0
"""Seconds for one script."""

HARMS = {
    "wrong result": "结果错误",
    "files outside touched": "触及目录之外的文件",
    "unusable from now on": "此后不可用",
    "crash": "崩溃",
    "stale kernel": "执行过期的 kernel",
    "lost work": "重复工作",
    "misplaced files": "文件位置错误",
    "misleading words": "误导性信息",
}
"""What a broken sentence does, in English and Chinese, the worst first."""

KEPT, BROKEN, UNCLEAR, ABSENT = "kept", "broken", "unclear", "-"


@dataclass(frozen=True)
class Finding:
    """One sentence and the script that tries it. The output matches ``kept`` or ``broken``."""

    title: str
    title_zh: str
    sentence: str
    script: str
    kept: str
    harm: str
    broken: str = "(?!)"
    note: str = ""
    note_zh: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        if len(self.script.strip().splitlines()) > LINES:
            raise ValueError(f"{self.title}: the script has more than {LINES} lines")
        if self.harm not in HARMS:
            raise ValueError(f"{self.title}: {self.harm} is no harm")

    def judged(self, output: str) -> str:
        """What an output says about the sentence."""
        if re.search(self.broken, output):
            return BROKEN
        return KEPT if re.search(self.kept, output) else UNCLEAR


@dataclass(frozen=True)
class Tried:
    """What the runs of one script with one release said, and the last output."""

    verdicts: tuple[str, ...]
    output: str
    outputs: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The verdict of all runs; ``unclear`` if they differ."""
        return self.verdicts[0] if len(set(self.verdicts)) == 1 else UNCLEAR


def load(path: Path = HERE / "findings.toml") -> list[Finding]:
    """The findings in the order of the document."""
    return [Finding(**each) for each in tomllib.loads(path.read_text(encoding="utf-8"))["finding"]]


def run(finding: Finding, python: Path, other: Path | None) -> str:
    """Run a script in an empty directory; returns what it prints."""
    with tempfile.TemporaryDirectory(prefix="ascendcache-finding-") as name:
        story = HERE / "story.sh"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(_DROPPED)},
            "PYTHON": str(python),
            "OTHER": str(other or ""),
            "STORY": str(story),
        }
        process = subprocess.Popen(
            ["bash", "-c", f". {story}\n{finding.script}"],
            cwd=name,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            output += f"\nkilled after {PATIENCE:g} s\n"
        return output.replace(name, "$PWD")


class Kept:
    """Results of earlier runs, so that an interrupted run continues. A result counts for its script
    and the shared one alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._results: dict[str, list[Any]] = {}
        if path.exists():
            self._results = json.loads(path.read_text(encoding="utf-8"))

    def read(self, finding: Finding, other: Path | None) -> Tried | None:
        """The kept result, judged anew; None if there is none."""
        kept = self._results.get(self._key(finding, other))
        if kept is None:
            return None
        verdicts = tuple(map(finding.judged, kept))
        return Tried(verdicts, kept[-1]) if kept else Tried((ABSENT,), "")

    def write(self, finding: Finding, other: Path | None, result: Tried) -> None:
        """Keep the outputs of a result."""
        with self._lock:
            self._results[self._key(finding, other)] = list(result.outputs)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(json.dumps(self._results), encoding="utf-8")

    @staticmethod
    def _key(finding: Finding, other: Path | None) -> str:
        story = (HERE / "story.sh").read_text(encoding="utf-8")
        parts = [story, finding.script, str(other) if finding.needs else ""]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


_DROPPED = ("MS_", "RANK_", "DEVICE_", "HCCL_", "ASCENDCACHE_", "GLOG_", "PYTHON", "LD_LIBRARY")


def tried(finding: Finding, python: Path, warm: Path, other: Path | None) -> Tried:
    """Run a script once, and :data:`TIMES` times if its sentence is not kept.

    ``warm`` takes the place of ``python`` in scripts that neither kill nor mount anything.
    """
    if finding.needs == "other" and other is None:
        return Tried((ABSENT,), "")
    program = python if re.search(r"hold|unshare", finding.script) else warm
    outputs = [run(finding, program, other)]
    if finding.judged(outputs[0]) != KEPT:
        outputs += [run(finding, program, other) for _ in range(TIMES - 1)]
    return Tried(tuple(map(finding.judged, outputs)), outputs[-1], tuple(outputs))


_AT_ONCE = 4
"""Scripts that run at the same time; many wait for a process to end."""

WORDS = {
    "en": {
        "columns": "| sentence | harm if broken | {releases} |",
        "kept": "kept",
        "broken": "**broken**",
        "unclear": "unclear",
        "-": "-",
        "sentence": "Sentence of document M: {}",
        "beside": "Beside the document [V].",
        "prints": "With {release} it prints",
        "shared": "What the scripts share:",
    },
    "zh": {
        "columns": "| 内容 | 违反时的危害 | {releases} |",
        "kept": "符合",
        "broken": "**不符合**",
        "unclear": "不确定",
        "-": "-",
        "sentence": "文档原文：{}",
        "beside": "文档未说明 [V]。",
        "prints": "{release} 输出",
        "shared": "各脚本共用的部分：",
    },
}


def page(
    language: str,
    findings: Sequence[Finding],
    results: Mapping[tuple[str, str], Tried],
    releases: Sequence[str],
) -> str:
    """The page in one language; ``results`` are by title and release."""
    words = WORDS[language]
    system = platform.release().split("-")[0]
    machine = f"Linux {system}, {platform.machine()}."
    text = (HERE / f"head.{language}.md").read_text(encoding="utf-8")
    head = text.format(
        count=len(releases), releases=" ".join(releases), times=TIMES, machine=machine
    )
    rows = [
        words["columns"].format(releases=" | ".join(releases)),
        "|---" * (2 + len(releases)) + "|",
    ]
    for number, each in enumerate(findings, 1):
        cells = [words[results[each.title, release].verdict] for release in releases]
        rows.append(f"| {number}. {_title(each, language)} | {_harm(each, language)} | "
                    f"{' | '.join(cells)} |")  # fmt: skip
    story = (HERE / "story.sh").read_text(encoding="utf-8").strip()
    parts = [head, "\n".join(rows), "", f"{words['shared']}\n\n```bash\n{story}\n```"]
    for number, each in enumerate(findings, 1):
        shown = next(
            (one for one in releases if results[each.title, one].verdict == BROKEN),
            next(one for one in releases if results[each.title, one].verdict != ABSENT)
            if any(results[each.title, one].verdict != ABSENT for one in releases)
            else releases[0],
        )
        source = (
            words["beside"] if each.sentence == "[V]" else words["sentence"].format(each.sentence)
        )
        note = each.note if language == "en" else each.note_zh
        output = results[each.title, shown].output.strip() or "-"
        said = " ".join(filter(None, (source, note)))
        parts.append(
            f"\n## {number}. {_title(each, language)}\n\n{said}\n\n"
            f"```bash\n{each.script.strip()}\n```\n\n{words['prints'].format(release=shown)}\n\n"
            f"```text\n{output}\n```"
        )
    return "\n".join(parts) + "\n"


def _title(finding: Finding, language: str) -> str:
    return finding.title if language == "en" else finding.title_zh


def _harm(finding: Finding, language: str) -> str:
    return finding.harm if language == "en" else HARMS[finding.harm]


def main() -> int:
    """Entry point. Returns 1 if a script said neither that its sentence is kept nor broken."""
    parser = argparse.ArgumentParser(description="Writes the findings page about document M.")
    parser.add_argument("shelf", type=Path)
    parser.add_argument("releases", nargs="+")
    given = parser.parse_args()
    if shutil.which("setsid") is None:
        print(
            "ci/verify-mindspore-ascend: setsid is not on PATH; install util-linux.",
            file=sys.stderr,
        )
        return 2
    findings = load()
    results: dict[tuple[str, str], Tried] = {}
    pool = ThreadPoolExecutor(_AT_ONCE)
    for place, release in enumerate(given.releases):
        python = given.shelf / release / "python"
        other = given.shelf / given.releases[place - 1] / "python" if place else None
        kept = Kept(given.shelf / "reports" / f"findings-{release}.json")
        # A process of 1.5 that was forked does not come to its end.
        with WarmPython(python, leaves=release.startswith("1.5.")) as warm:

            def attempt(
                each: Finding,
                python: Path = python,
                warm: WarmPython = warm,
                other: Path | None = other,
                kept: Kept = kept,
            ) -> Tried:
                result = kept.read(each, other)
                if result is None:
                    result = tried(each, python, warm.command, other)
                    kept.write(each, other, result)
                return result

            for number, (each, result) in enumerate(
                zip(findings, pool.map(attempt, findings), strict=True), 1
            ):
                results[each.title, release] = result
                print(
                    f"{release} {number}/{len(findings)} {result.verdict}: {each.title}", flush=True
                )
                if result.verdict == UNCLEAR:
                    print(f"  {result.verdicts}; it printed:\n{result.output}", flush=True)
    for language, name in PAGES.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page(language, findings, results, given.releases), encoding="utf-8")
        print(f"written: {path}")
    return int(any(each.verdict == UNCLEAR for each in results.values()))


if __name__ == "__main__":
    sys.exit(main())
