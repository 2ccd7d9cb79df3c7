"""Several nodes of a cluster that share one directory, as mounts of this machine.

A node is a mount of its own of one backing directory, with its own lookup cache and its own
locks. This room mounts, shows that a mount does what its profile says, and unmounts; it knows
neither rules nor toolchains.
"""

from pytest_ascendcache.nodes.control import NotShown
from pytest_ascendcache.nodes.mount import lacking
from pytest_ascendcache.nodes.namespace import Unavailable, enter
from pytest_ascendcache.nodes.profile import GIVEN, NodeProfile, profiles
from pytest_ascendcache.nodes.shared import Nodes, given_nodes, mounted_nodes

__all__ = [
    "GIVEN",
    "NodeProfile",
    "Nodes",
    "NotShown",
    "Unavailable",
    "enter",
    "given_nodes",
    "lacking",
    "mounted_nodes",
    "profiles",
]
