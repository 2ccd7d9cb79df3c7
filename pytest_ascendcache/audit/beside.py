"""What lies beside caches: models and libraries, lists of operator packages, links."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_ascendcache.audit.account import is_of_package, is_outside, known
from pytest_ascendcache.audit.entries import EntryProblem, Files, check_whole
from pytest_ascendcache.audit.findings import Check, Ledger, printable
from pytest_ascendcache.audit.reading import CannotRead, ChangedWhileRead, Folder
from pytest_ascendcache.audit.result import Audit
from pytest_ascendcache.audit.static import selected_packages
from pytest_ascendcache.audit.walk import Walk
from pytest_ascendcache.caches.cards import card_of
from pytest_ascendcache.caches.recognition import rank_number

INSIDE = "links to what is read anyway"
TARGETS = "files that links of entries lead to"
_KEPT = "directory is kept"


@dataclass(frozen=True)
class Beside:
    """Accounts for names outside of all caches in the ``result`` of an audit."""

    result: Audit
    ledger: Ledger

    def file(self, folder: Folder, name: str) -> None:
        """Enter a regular file outside of all caches: what a toolchain could load has to be whole,
        and without a format that tells it is not read."""
        account = self.result.account
        what = is_outside(name) or is_of_package(folder.relative, name)
        if what and (info := folder.look(name)) is not None:
            try:
                check_whole(Files(folder, ()), name, info)
            except EntryProblem as error:
                account.unread.add(f"{printable(folder.path(name))}: {error}")
                return
            except CannotRead as error:
                account.unread.add(str(error))
                return
            except ChangedWhileRead as error:
                self.result.changed.add(str(error))
        elif name == "config.ini" and folder.relative.rpartition("/")[2] == "vendors":
            self._vendors(folder, name)
            what = known(name)
        elif rank_number(name) is not None:
            account.unread.add(f"{printable(folder.path(name))}: is a file where a rank's {_KEPT}")
            return
        elif name == "binary_info_config.json":  # each process reads it where it is installed
            account.unread.add(f"{printable(folder.path(name))}: belongs to no entry that is known")
            return
        elif not (what := known(name)):
            account.foreign.add(printable(folder.path(name)))
            return
        account.known[what] += 1

    def _vendors(self, folder: Folder, name: str) -> None:
        """Compare the list of operator packages with those that are installed beside it."""
        try:
            content = folder.read(name)
        except (CannotRead, ChangedWhileRead):
            return  # nothing but the order of packages depends on it
        for package in selected_packages(content.data if content is not None else b""):
            if "/" not in package and folder.look(package) is None:
                detail = f"load_priority names {package[:100]}, which is not installed"
                self.ledger.add(Check.LEFTOVERS, folder.path(name), detail)

    def _real(self, folder: Folder, name: str) -> tuple[str, str]:
        root = os.path.realpath(self.result.directory)
        return root, os.path.realpath(f"{root}/{folder.path(name)}")

    def leads_inside(self, folder: Folder, name: str) -> bool:
        """Return whether a link leads to a directory below the audited one, which is read under its
        own name."""
        root, target = self._real(folder, name)
        inside = _is_there(target, stat.S_ISDIR) and f"{target}/".startswith(f"{root}/")
        if inside:
            self.result.linked.add(target[len(root) + 1 :])
        return inside

    def target_beside(self, folder: Folder, name: str) -> str:
        """Return the name of the file that a link leads to, if that is in the same directory."""
        root, target = self._real(folder, name)
        above, _, own = target.rpartition("/")
        return own if above == os.path.realpath(f"{root}/{folder.relative}") else ""

    def no_file(self, folder: Folder, name: str, kind: str) -> None:
        """Enter what is no regular file, outside of all caches: a link may lead to a cache, or to
        what a toolchain loads."""
        path, account = folder.path(name), self.result.account
        root, target = self._real(folder, name)
        leads = _is_there(target, lambda mode: stat.S_ISDIR(mode) or is_outside(name))
        if name == "op_cache.ini" or (rank_number(name) is not None and not leads):
            account.unread.add(f"{printable(path)}: is {kind}, where a cache's file or {_KEPT}")
        elif kind != "a link" or not leads:
            account.foreign.add(printable(path))
        elif f"{target}/".startswith(f"{root}/"):
            card = card_of(path)
            if card is not None and card.surely and card.place == path:
                detail = (
                    f"is a link to {printable(target[len(root) + 1 :])}: two cards in one "
                    "directory, of which each looks for kernels of its own number"
                )
                self.ledger.add(Check.RANKS_AGREE, path, detail)
            account.known[INSIDE] += 1
        else:
            account.unread.add(
                f"{printable(path)}: is a link to {printable(target)}, which is not looked at"
            )


def leads_to_a_file(folder: Folder, name: str) -> bool:
    """Return whether a link leads to a regular file, which a toolchain then uses."""
    try:
        info = folder.look(name)
    except CannotRead:
        return False
    return info is not None and stat.S_ISREG(info.st_mode)


@dataclass
class LinkTargets:
    """The files that links of caches lead to. They are looked for by a ``walk`` of its own once a
    file is asked for."""

    walk: Walk
    tick: Callable[[], None]
    _found: set[tuple[int, int]] | None = None

    def has(self, folder: Folder, name: str, info: os.stat_result) -> bool:
        """Return whether a link leads to a file that is none itself: it is judged at the link."""
        if folder.is_link(name):
            return False
        if self._found is None:
            self._found = {*self.walk.links(self.tick)}
        return (info.st_dev, info.st_ino) in self._found


def _is_there(target: str, wanted: Callable[[int], object]) -> bool:
    """Return whether a link leads to something of a wanted mode: not to nothing, in a circle, or
    behind a closed directory."""
    try:
        return bool(wanted(Path(target).stat().st_mode))
    except OSError:
        return False
