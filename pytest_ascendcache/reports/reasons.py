"""Why a check is broken, as one sentence: never bytes, object notation or names of 64 digits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_ascendcache.reports.requests import combination, deciding

_NOTATION = re.compile(
    r"^(assert\b|where\b|\+ |[-+?] |\+  |E  |>  |At index|Full diff|Use -v"
    r"|Extra items|Omitting|Differing items)"
)
_REPR = re.compile(
    r"^(not )?([\[{('\"]|<\w)|^-?\d+ (==|!=|<|>|<=|>=|in) |^(not )?(True|False|None)\b"
    r"|\b(PosixPath|frozenset|Outcome)\(| == | != "
)
_BYTES = re.compile(r"""b(?P<mark>["'])(?:\\.|(?!(?P=mark)).)*(?P=mark)""")
_DIGITS = re.compile(r"\b((?:te_)?[A-Za-z]\w*?_)?([0-9a-f]{8})[0-9a-f]{24,}(_\w+)?")
_TEMPORARY = re.compile(r"[._]\d+[._][0-9a-f_]{8,}(?=\.temp)")
ENDING = re.compile(r"^(.*(?:ended with exit status \d+|was ended by signal \d+)): ")
_SANDBOX = re.compile(r"/\S*?/ascendcache\d*/\d+-[A-Za-z0-9-]*")
_OF_A_LIFE = re.compile(r"run \d+, ")
_IDLE = re.compile(r"(\w): (\d+) s")
_GONE = re.compile(r"^(none|[a-z]+) gone$")
_LIMIT = re.compile(r"\((.*)\)$")
_COUNTS = re.compile(r"\{((?:'[^'{}]*': \d+(?:, )?)+)\}")
_CHANGES = re.compile(r"\{('[^'{}]*': '[^'{}]*'(?:, '[^'{}]*': '[^'{}]*')*)\}")
"""What became of paths, as the check compares it."""
_PLAIN = {
    "\\n": " / ",
    "frozenset(": "",
    "{'": "",
    "'}": "",
    "['": "",
    "']": "",
    "': '": " ",
    "', '": ", ",
}
"""Notation of sets, lists and dicts of names, and what a sentence has in its place."""
_NO_WORDS = "what was observed is not what had to be"
_MEGABYTE = 1_048_576
_LONGEST = 400
_READ = 2000
"""Characters of a line that are looked at: more is no sentence."""


def reason(check: Mapping[str, Any], levels: Mapping[str, str] | None = None) -> str:
    """The sentence for a check as a report has it; empty for a pass.

    It names the request, the one before it where that matters, what was observed and expected,
    and for aging the sizes, the limit and the ages. ``levels`` are those of a combination that
    are known to explain it.
    """
    if check["verdict"] == "pass":
        return ""
    told = _told(check)
    if check["verdict"] in ("not applicable", "undecided", "error"):
        return told
    if _OF_A_LIFE.match(check["message"]):
        return shortened(_first_of_a_life(check["message"]))
    context = _context(check, levels or {})
    return shortened(f"with {context}: {told}" if context else told)


def _first_of_a_life(message: str) -> str:
    """The first thing that is wrong in a life of many runs: which run it was tells the request."""
    first, *lines = message.splitlines()
    rest = list(takewhile(lambda line: not _OF_A_LIFE.match(line.strip()), lines))
    told = "; ".join(line.strip().removeprefix("observed: ") for line in rest)
    return f"{first}: {told}"


def _told(check: Mapping[str, Any]) -> str:
    evidence = check["evidence"]
    observed, expected = evidence.get("observed", ""), evidence.get("expected", "")
    if _GONE.match(observed):
        return _aging(check, observed, expected)
    words = sentences(check["message"])
    if words and (findings := evidence.get("findings")):
        # Of an audit the first fault says what is wrong; how many there are comes before it.
        first = findings[0]
        return shortened(f"{words[0]}: {first.get('path', '')}: {first.get('detail', '')}")
    if observed and expected:
        pair = f"{observed}; expected: {expected}"
        # Where the message is only the name of an operator, that is what the outcome is of.
        subject = next((each for each in words if "(" in each and ":" not in each), "")
        return shortened(f"{subject}: {pair}" if subject else pair)
    if len(words) > 1 and (ending := ENDING.match(words[0])):
        # Behind an ending stands the end of what was printed; its last line says most.
        return shortened(f"{ending[1]}: {words[-1]}")
    return shortened(words[0]) if words else _NO_WORDS


def bare(reason: str) -> str:
    """A reason without the request it is about: what was observed, and what was expected."""
    head, separator, told = reason.partition(": ")
    return told if separator and head.startswith("with ") else reason


def sentences(message: str) -> list[str]:
    """The lines of a message that are meant for readers."""
    kept: list[str] = []
    for line in message.splitlines():
        bare = line.strip()[:_READ]
        if _NOTATION.match(bare) or bare.startswith(("observed:", "expected:")):
            continue
        if bare.partition(":")[0] in ("combination", "options", "smallest"):
            continue
        if not bare or bare in ("outcome differs", "fate differs", "aged entries differ"):
            continue
        if _REPR.search(bare):
            continue
        kept.append(bare)
    return kept


def shortened(text: str) -> str:
    """Without bytes, digests of 64 digits and directories of this machine; of bounded length."""
    text = _SANDBOX.sub("$SANDBOX", text[:_READ])
    text = _BYTES.sub("(bytes)", text)
    text = _TEMPORARY.sub("", text)
    text = _DIGITS.sub(lambda match: f"{match[1] or ''}{match[2]}…{match[3] or ''}", text)
    text = _CHANGES.sub(
        lambda match: match[1].replace("', '", "; ").replace("': '", " ").strip("'"), text
    )
    text = _COUNTS.sub(lambda match: match[1].replace("': ", " ").replace("'", ""), text)
    for notation, plain in _PLAIN.items():
        text = text.replace(notation, plain)
    text = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _context(check: Mapping[str, Any], levels: Mapping[str, str]) -> str:
    if smallest := combination(check) or levels:
        return " ".join(f"{name}={level}" for name, level in smallest.items())
    request, before = deciding(check)
    if request is None:
        return ""
    if before is None or before.options == request.options:
        return str(request)
    if str(before) == str(request):
        return f"{request}, with another file than before"
    return f"{request} after {before}"


def _aging(check: Mapping[str, Any], observed: str, expected: str) -> str:
    """The arithmetic of a wrong aging: which of how many, by age, and the sizes."""
    ages = {name: int(seconds) for name, seconds in _IDLE.findall(check["message"])}
    gone, due = _names(observed), _names(expected)
    of_all = f" of {len(ages)}" if ages else ""
    parts = [f"{len(gone)}{of_all} entries aged, {len(due)} had to"]
    if extra := gone - due:
        parts.append(f"{len(extra)} too many{_span(ages, extra)}")
    if kept := due - gone:
        parts.append(f"{len(kept)} stayed{_span(ages, kept)}")
    if limit := _LIMIT.search(expected):
        parts.append(f"limit {limit[1]}")
    sizes: Sequence[Mapping[str, Any]] = check["evidence"].get("sizes") or ()
    if sizes:
        # The run that removed something; those behind it are made to look at the harm.
        last = next((each for each in reversed(sizes) if each["removed"]), sizes[-1])
        parts.append(
            f"cache {_megabytes(last['before'])} before, {_megabytes(last['after'])} after"
        )
    return "; ".join(parts)


def _names(gone: str) -> set[str]:
    word = gone.partition(" gone")[0]
    return set() if word == "none" else set(word)


def _span(ages: Mapping[str, int], names: set[str]) -> str:
    times = sorted(ages[each] for each in names if each in ages)
    if not times:
        return ""
    ends = dict.fromkeys([_age(times[0]), _age(times[-1])])
    return f" (idle {' to '.join(ends)})"


def _age(seconds: int) -> str:
    if seconds >= 172_800:
        return f"{seconds / 86_400:g} days"
    if seconds >= 3600:
        return f"{seconds / 3600:.3g} h"
    return f"{seconds / 60:.3g} min"


def _megabytes(size: int) -> str:
    return f"{size / _MEGABYTE:.1f} MB"
