"""The reason why a check is broken, as one sentence without bytes, notation or long digests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pytest_ascendcache.reports.requests import combination, deciding
from pytest_ascendcache.words import count

_NOTATION = re.compile(
    r"^(assert\b|where\b|\+ |[-+?] |\+  |E  |>  |At index|Full diff|Use -v"
    r"|Extra items|Omitting|Differing items|(Left|Right) contains)"
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
_COUNTS = re.compile(r"\{((?:'[^'{}]*': \d+(?:, )?)+)\}")
_CHANGES = re.compile(r"\{('[^'{}]*': '[^'{}]*'(?:, '[^'{}]*': '[^'{}]*')*)\}")
"""Changes by path, in the notation of the dict that a check compares."""
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
"""Notation of sets, lists and dicts of names, and its replacement in a sentence."""
_FIELDS = ("observed", "expected", "combination", "options", "smallest")
_HEADINGS = ("outcome differs", "fate differs", "aged entries differ")
UNEXPLAINED = "what was observed is not what was expected"
_MEGABYTE = 1_048_576
_LONGEST = 400
_MORE = 25
"""Room for the words that more problems follow."""
_NAMED, _ALIKE = 2, 3
"""Problems that are named by the word in which they differ, and the words that they have alike."""
_READ = 2000
"""How many characters of a line are read: a sentence is not longer."""


def reason(check: Mapping[str, Any], levels: Mapping[str, str] | None = None) -> str:
    """The sentence for a check of a report; empty for a pass.

    It names the request, the request before it where that matters, what was observed and expected,
    and for aging the sizes, the limit and the ages. ``levels`` are those levels of a combination
    that explain the failure.
    """
    if check["verdict"] == "pass":
        return ""
    what = _what(check)
    if check["verdict"] in ("not applicable", "undecided"):
        return what
    if _OF_A_LIFE.match(check["message"]):
        return shortened(_first_of_a_life(check["message"]))
    if check["rule"].startswith("release/"):  # about the release, whatever was compiled for it
        return what
    context = _context(check, levels or {})
    return shortened(f"with {context}: {what}" if context else what)


def _first_of_a_life(message: str) -> str:
    """The first broken promise in a life of many runs; the number of the run names the request."""
    first, *lines = message.splitlines()
    rest = list(takewhile(lambda line: not _OF_A_LIFE.match(line.strip()), lines))
    what = "; ".join(line.strip().removeprefix("observed: ") for line in rest)
    return f"{first}: {what}"


def _what(check: Mapping[str, Any]) -> str:
    """What was observed and expected, without the request."""
    evidence = check["evidence"]
    observed, expected = evidence.get("observed", ""), evidence.get("expected", "")
    if _GONE.match(observed):
        return _aging(check, observed, expected)
    lines = sentences(check["message"])
    if lines and (findings := evidence.get("findings")):
        # An audit's first line counts its findings; the first of them shows what is wrong.
        first = findings[0]
        return shortened(f"{lines[0]}: {first.get('path', '')}: {first.get('detail', '')}")
    if observed and expected:
        pair = f"{observed}; expected: {expected}"
        if check["rule"].startswith("release/"):
            pair = _all_pairs(check["message"]) or pair
        # A message that only names an operator says whose outcome it is.
        subject = next((each for each in lines if "(" in each and ":" not in each), "")
        return shortened(f"{subject}: {pair}" if subject else pair)
    if len(lines) > 1 and (ending := ENDING.match(lines[0])):
        # The end of the process's output follows; its last line says most.
        return shortened(f"{ending[1]}: {lines[-1]}")
    if lines:
        return shortened(lines[0])
    claims = (each.partition("assert ")[2] for each in check["message"].splitlines())
    claim = next(filter(None, claims), "")
    return shortened(f"this does not hold: {claim}") if claim else UNEXPLAINED


def _all_pairs(message: str) -> str:
    """The problems of a release, as many as there is room for, each as what was observed and
    expected; empty if there is one."""
    found: list[list[str]] = []
    for line in message.splitlines():
        kind, _, text = line.partition(": ")
        if kind == "observed":
            found.append([text])
        elif kind == "expected" and found:
            found[-1].append(text)
    pairs = [shortened(f"{each[0]}; expected: {each[-1]}") for each in found if len(each) > 1]
    told = 1
    while told < len(pairs) and len("; also: ".join(pairs[: told + 1])) <= _LONGEST - _MORE:
        told += 1
    beyond = re.search(r"^and (\d+) more$", message, re.MULTILINE)
    alike = [_same_of(pairs[0], each) for each in pairs[told:]]
    which = [each for each in alike[:_NAMED] if each] if all(alike[:_NAMED]) else []
    left = len(alike) - len(which) + (int(beyond[1]) if beyond else 0)
    more = [f"the same of {', '.join(which)}"] if which else []
    more += [count(left, "more problem")] if left else []
    return "; also: ".join(pairs[:told] + more) if len(pairs) > 1 else ""


def _same_of(first: str, other: str) -> str:
    """The word in which a problem begins to differ from the first; empty if none is before it."""
    pairs = [*zip(first.split(" "), other.split(" "), strict=False)]
    same = next((at for at, (one, two) in enumerate(pairs) if one != two), 0)
    return pairs[same][1] if same > _ALIKE else ""


def sentences(message: str) -> list[str]:
    """The lines of a message that are sentences, without object notation and comparisons."""
    kept: list[str] = []
    for line in message.splitlines():
        bare = line.strip()[:_READ]
        notation = _NOTATION.match(bare) or _REPR.search(bare)
        is_field = bare.partition(":")[0] in _FIELDS
        if bare and not notation and not is_field and bare not in _HEADINGS:
            kept.append(bare)
    return kept


def shortened(text: str) -> str:
    """A text without bytes, long digests and directories of this machine; cut if it is too long."""
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
    """The arithmetic of a wrong aging: how many entries, their ages, the limit and the sizes."""
    ages = {name: int(seconds) for name, seconds in _IDLE.findall(check["message"])}
    gone, due = _names(observed), _names(expected)
    of_all = f" of {len(ages)}" if ages else ""
    parts = [f"{len(gone)}{of_all} entries aged, {len(due)} had to"]
    if extra := gone - due:
        parts.append(f"{len(extra)} too many{_span(ages, extra)}")
    if kept := due - gone:
        parts.append(f"{len(kept)} stayed{_span(ages, kept)}")
    sizes: Sequence[Mapping[str, Any]] = check["evidence"].get("sizes") or ()
    if sizes:
        # The run that removed something; later runs only find out the harm.
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
