"""Which directories are the cards of one job: those that differ only in a number.

MindSpore calls them ``rank_<n>``; its own page has ``device<n>``, and launch scripts call them as
they like. Source: document M, frequent questions; facts ``mindspore-incremental`` section 1.1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from pytest_ascendcache.caches.recognition import rank_number

_COUNTED = re.compile(r"(?P<word>[A-Za-z_-]*)(?P<number>\d{1,5})")
_CARDS = """
rank localrank device dev card npu gpu chip core worker process proc deviceid rankid devid cardid
"""
"""Words before a card's number."""

_OTHERS = """
v ver version cann run job exp experiment test try attempt epoch step day week build backup copy bak
old new release stage part model net network py python user round batch b node host server machine
pod layer task seed case
"""
"""Words before a number that is no card's."""

_IS_CARD, _IS_NONE = frozenset(_CARDS.split()), frozenset(_OTHERS.split())


class CardDirectory(NamedTuple):
    """A directory of one card: what its job's cards have in common, its number, and the path of
    the directory that counts. ``surely`` tells whether the name says that it is a card."""

    job: str
    number: int
    place: str
    surely: bool


def card_of(path: str) -> CardDirectory | None:
    """Return the card that a path below an audited directory belongs to, or None.

    A directory of a device may hold that of a rank: the rank counts.
    """
    parts = path.split("/")
    counted = [_counted(each) for each in parts]
    ranked = [index for index, each in enumerate(parts) if rank_number(each) is not None]
    sure = [index for index, each in enumerate(counted) if each and each[1]]
    maybe = [index for index, each in enumerate(counted) if each]
    index = next(iter((*ranked, *reversed(sure), *maybe)), None)
    if index is None:
        return None
    found = counted[index]
    assert found is not None
    number, surely = found
    job = [
        re.sub(r"\d+$", "#", part) if at == index or (at < index and at in sure) else part
        for at, part in enumerate(parts)
    ]
    if index in ranked:  # a device's directory above a rank's says nothing more
        job = [part for at, part in enumerate(job) if not (at < index and at in sure)]
    return CardDirectory("/".join(job), number, "/".join(parts[: index + 1]), surely)


def _counted(name: str) -> tuple[int, bool] | None:
    match = _COUNTED.fullmatch(name)
    if match is None:
        return None
    word = re.sub(r"[_-]", "", match["word"]).lower()
    if word in _IS_NONE or word.startswith("ascend"):
        return None
    return int(match["number"]), word in _IS_CARD


def count_from_zero(numbers: Iterable[int]) -> bool:
    """Return whether numbers are 0, 1, 2 and so on, as cards are and dates or sizes are not."""
    return sorted(numbers) == list(range(len(set(numbers))))


def own_device(devices: Counter[int]) -> int:
    """Return the card that most kernels of a directory are named for."""
    return min(devices, key=lambda each: (-devices[each], each))


def exchanged(own: dict[int, int]) -> str:
    """Return a note about cards whose kernels are named for each other's devices, as a table of
    ranks may map them; empty if there are none."""
    found = [number for number, device in own.items() if device in own and own[device] != device]
    if not found:
        return ""
    ranks, cards = (", ".join(map(str, each)) for each in (found, [own[each] for each in found]))
    return (
        f"ranks {ranks} have kernels whose names are for cards {cards}, in this order: if no rank "
        "table maps them so, their directories were exchanged, and they compile all of them again"
    )


def of_other_cards(own: dict[int, int]) -> dict[int, str]:
    """Return what is wrong with the cards whose kernels are those of another card."""
    return {
        number: f"has kernels whose names end in _{device}, for card {device}: card {number} looks "
        f"for its own number, so it compiles them while the others wait, unless every process sees "
        f"one card only (ASCEND_RT_VISIBLE_DEVICES)"
        for number, device in copied(own).items()
    }


def copied(own: dict[int, int]) -> dict[int, int]:
    """Return the cards whose kernels are named for another card's device, with that device.

    ``own`` is the device of each card. On several hosts the devices repeat in the same order.
    """
    several = len(set(own.values()))
    first: dict[int, int] = {}
    wrong = {}
    for number in sorted(own):
        device = own[number]
        before = first.setdefault(device, number)
        if before != number and (several == 1 or (number - before) % several):
            wrong[number] = device
    return wrong
