"""What the checks of one session share besides the toolchain: audits, and mounted nodes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from pytest_ascendcache.audit import Audit, RemovalPlan, audit
from pytest_ascendcache.contract import Edition
from pytest_ascendcache.nodes import (
    NodeProfile,
    Nodes,
    NotShown,
    Unavailable,
    enter,
    given_nodes,
    mounted_nodes,
)
from pytest_ascendcache.plugin.options.campaigns import NodeSettings


class Audits:
    """Audits directories, each once in every xdist worker. With ``suggests``, each audit also
    collects what to remove, as a plan."""

    def __init__(self, suggests: bool, edition: Edition) -> None:
        self._suggests = suggests
        self._edition = edition
        self._plans: dict[Path, RemovalPlan] = {}
        self.of = cache(self._audit)

    def _audit(self, directory: Path) -> Audit:
        suggest = None
        if self._suggests:
            plan = self._plans[directory] = RemovalPlan(directory)
            suggest = plan.add
        return audit(directory, suggest=suggest, edition=self._edition)

    def plan(self, directory: Path) -> RemovalPlan:
        """What to remove from a directory; it is audited now if a worker did so before."""
        self.of(directory)
        return self._plans[directory]


class SharedNodes:
    """The nodes of each profile, mounted once in a directory that ``sandbox`` makes."""

    def __init__(self, settings: NodeSettings, sandbox: Callable[[str], Path]) -> None:
        self._settings = settings
        self._sandbox = sandbox
        self._made: dict[NodeProfile, Nodes | Unavailable | NotShown] = {}

    def enter_namespace(self) -> None:
        """Enter the namespace of the nodes' mounts before any process starts: a fork server that
        was started earlier would not see them."""
        if self._settings.number and not self._settings.directories:
            with suppress(Unavailable):  # the checks that need nodes report it
                enter()

    def of(self, profile: NodeProfile) -> Nodes:
        """The nodes of a profile, mounted once and checked by their control.

        Raises ``Unavailable`` if this machine cannot provide them, and ``NotShown`` if the control
        did not show that they behave as the profile says.
        """
        if profile not in self._made:
            try:
                self._made[profile] = self._mounted(profile)
            except (Unavailable, NotShown) as reason:
                self._made[profile] = reason
        made = self._made[profile]
        if isinstance(made, Exception):
            raise made
        return made

    def _mounted(self, profile: NodeProfile) -> Nodes:
        if profile is NodeProfile.GIVEN:
            return given_nodes(self._settings.directories)
        if not self._settings.number:
            raise Unavailable("no number of nodes is given; --ascend-nodes=2 makes two")
        directory = self._sandbox(f"nodes-{profile.value}")
        return mounted_nodes(profile, self._settings.number, directory)

    def close(self) -> None:
        """Unmount the nodes."""
        for nodes in self._made.values():
            if isinstance(nodes, Nodes):
                nodes.close()
