"""Nodes that share a directory: mounted by the suite, or real mounts that a user names."""

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
from pytest_ascendcache.nodes.mount import Mount, Unavailable
from pytest_ascendcache.nodes.profile import NodeProfile


@dataclass
class Nodes:
    """Nodes that share one directory. Call :meth:`close` at the end.

    ``backing`` is the directory outside of all nodes; for real mounts it is the first node's view.
    ``roots`` are the nodes' views of it.
    """

    profile: NodeProfile
    backing: Path
    roots: tuple[Path, ...]
    mounts: tuple[Mount, ...] = ()
    _on_close: ExitStack = field(default_factory=ExitStack)
    _numbers: count[int] = field(default_factory=count)

    def directory(self) -> tuple[Path, tuple[Path, ...]]:
        """Create an empty shared directory. Returns its path in ``backing`` and on each node.

        Raises ``NotShown`` if a node has lost its mount since the control.
        """
        for mount in self.mounts:
            if not mount.is_there:
                raise NotShown(f"the mount {mount.point} is gone")
        name = f"shared{next(self._numbers)}"
        (self.backing / name).mkdir(mode=0o755)
        views = tuple(root / name for root in self.roots)
        if self.profile is NodeProfile.GIVEN:
            self._wait_for(views)
        return self.backing / name, views

    def later(self) -> None:
        """Make all nodes forget cached lookups, as if some time had passed.

        Raises ``NotShown`` if a real mount does not show a file that another one shows.
        """
        for mount in self.mounts:
            if self.profile.early_names_stay:
                mount.again()
        if self.profile is NodeProfile.GIVEN:
            below = [path.relative_to(self.backing) for path in self.backing.rglob("*")]
            self._wait_for([root / each for root in self.roots for each in below])

    def hold_opening(self, node: int, gate: Path, suffix: str) -> None:
        """Stop a node's next opening of a path that ends with ``suffix`` at a gate.

        The gate is a ``faults.Gate``. Only profiles that use ``refusing.py`` can do this.
        """
        control = self.mounts[node].control
        request = control / "request"
        request.write_text(f"{gate}\n{suffix}\n", encoding="utf-8")
        request.replace(control / "hold")

    def hold_nothing(self) -> None:
        """Cancel :meth:`hold_opening` if no such opening has happened yet."""
        for mount in self.mounts:
            (mount.control / "hold").unlink(missing_ok=True)

    def show(self) -> None:
        """Run the positive control of the profile.

        Raises ``NotShown`` naming what does not behave as promised.
        """
        show(self.profile, self.roots, self.later)

    def close(self) -> None:
        """Unmount; for real mounts, remove the directory that was created in them."""
        self._on_close.close()

    def _wait_for(self, paths: Sequence[Path]) -> None:
        for path in paths:
            if not seen_on(path, GIVEN_PATIENCE):
                raise NotShown(f"{path} does not appear within {GIVEN_PATIENCE:.0f} s")


def mounted_nodes(profile: NodeProfile, number: int, sandbox: Path) -> Nodes:
    """Mount ``number`` nodes below ``sandbox``, an empty directory.

    Raises ``Unavailable`` if this machine cannot imitate them, and ``NotShown`` if they do not
    behave as the profile says.
    """
    backing = sandbox / "backing"
    backing.mkdir()
    if profile is NodeProfile.LOCAL:
        return Nodes(profile, backing, (backing,) * number)
    with ExitStack() as undo:
        mounts: list[Mount] = []
        for index in range(1 if profile.one_for_all else number):
            point, control = sandbox / f"node{index}", sandbox / f"control{index}"
            point.mkdir()
            control.mkdir()
            mounts.append(Mount(profile, backing, point, control))
            undo.callback(mounts[-1].close)
        views = tuple(each.point for each in mounts) * (number if profile.one_for_all else 1)
        nodes = Nodes(profile, backing, views, tuple(mounts))
        nodes.show()
        nodes._on_close = undo.pop_all()
    return nodes


def given_nodes(directories: Sequence[Path]) -> Nodes:
    """Nodes by real mounts of one directory. Everything happens in a new directory inside it.

    Raises ``Unavailable`` if the directory cannot be written, and ``NotShown`` if they are not
    mounts of one directory.
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
