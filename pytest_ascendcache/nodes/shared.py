"""Nodes that share a directory: mounted here, or mounts that a user names."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pytest_ascendcache.nodes.control import GIVEN_PATIENCE, NotShown, seen_on, show
from pytest_ascendcache.nodes.mount import Mount
from pytest_ascendcache.nodes.namespace import Unavailable
from pytest_ascendcache.nodes.profile import NodeProfile


@dataclass
class Nodes:
    """Nodes that share one directory. ``backing`` is the directory as no node sees it, the first
    node's view of real mounts; ``roots`` has each node's view.

    To be closed at the end; that removes what is below ``backing``'s own directory.
    """

    profile: NodeProfile
    backing: Path
    roots: tuple[Path, ...]
    mounts: tuple[Mount, ...] = ()
    controls: tuple[Path, ...] = ()
    _on_close: ExitStack = field(default_factory=ExitStack)
    _numbers: count[int] = field(default_factory=count)

    def directory(self) -> tuple[Path, tuple[Path, ...]]:
        """A new empty directory, as it is and as each node sees it."""
        name = f"shared{next(self._numbers)}"
        (self.backing / name).mkdir(mode=0o755)
        views = tuple(root / name for root in self.roots)
        if self.profile is NodeProfile.GIVEN:
            self._wait_for(views)
        return self.backing / name, views

    def later(self) -> None:
        """What is seen when nodes have forgotten what they remembered of names.

        Raises:
            NotShown: where a real mount does not show what another does.
        """
        for mount in self.mounts:
            if self.profile.early_names_stay:
                mount.again()
        if self.profile is NodeProfile.GIVEN:
            below = [path.relative_to(self.backing) for path in self.backing.rglob("*")]
            self._wait_for([root / each for root in self.roots for each in below])

    def hold_opening(self, node: int, gate: Path, suffix: str) -> None:
        """Have a node's next opening of a path with this end stand at a gate (``faults.Gate``);
        the profile has to be one whose file system is our own."""
        control = self.controls[node]
        wish = control / "wish"
        wish.write_text(f"{gate}\n{suffix}\n", encoding="utf-8")
        wish.replace(control / "hold")

    def hold_nothing(self) -> None:
        """Take back what :meth:`hold_opening` wished for, if it has not come true."""
        for control in self.controls:
            (control / "hold").unlink(missing_ok=True)

    def show(self) -> None:
        """Show what the profile says.

        Raises:
            NotShown: naming what could not be shown.
        """
        show(self.profile, self.roots, self.later)

    def close(self) -> None:
        """Unmount, and remove what is shared."""
        self._on_close.close()

    def _wait_for(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not seen_on(path, GIVEN_PATIENCE):
                raise NotShown(f"{path} does not appear within {GIVEN_PATIENCE:.0f} s")


def mounted_nodes(profile: NodeProfile, number: int, sandbox: Path) -> Nodes:
    """So many nodes below ``sandbox``, an empty directory of the caller's.

    Raises:
        Unavailable: where this machine cannot have them.
        NotShown: where they do not do what the profile says.
    """
    backing = sandbox / "backing"
    backing.mkdir()
    if profile is NodeProfile.LOCAL:
        return Nodes(profile, backing, (backing,) * number)
    with ExitStack() as undo:
        points, controls, mounts = [], [], []
        for index in range(1 if profile.one_for_all else number):
            point, control = sandbox / f"node{index}", sandbox / f"control{index}"
            point.mkdir()
            control.mkdir()
            mounts.append(Mount(profile, backing, point, control))
            undo.callback(mounts[-1].close)
            points.append(point)
            controls.append(control)
        views = tuple(points) * (number if profile.one_for_all else 1)
        nodes = Nodes(profile, backing, views, tuple(mounts), tuple(controls))
        nodes.show()
        nodes._on_close = undo.pop_all()
    return nodes


def given_nodes(directories: Sequence[Path]) -> Nodes:
    """Real mounts of one directory; everything happens in a directory of our own in it.

    Raises:
        Unavailable: where nothing can be written there.
        NotShown: where they are not mounts of one directory.
    """
    try:
        own = Path(tempfile.mkdtemp(prefix="ascendcache-nodes-", dir=directories[0]))
    except OSError as error:
        raise Unavailable(f"{directories[0]} cannot be written: {error.strerror}") from None
    roots = tuple(Path(os.path.abspath(each)) / own.name for each in directories)  # noqa: PTH100
    nodes = Nodes(NodeProfile.GIVEN, own, roots)
    nodes._on_close.callback(shutil.rmtree, own, ignore_errors=True)
    try:
        nodes._wait_for(roots)
        nodes.show()
    except NotShown:
        nodes.close()
        raise
    return nodes
