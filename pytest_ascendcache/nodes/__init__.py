"""Several nodes of a cluster that share one directory, imitated by mounts of this machine.

Each node is a separate mount of one backing directory, with its own lookup cache and locks. This
room mounts, checks that a mount behaves as its profile says, and unmounts. It knows neither rules
nor toolchains.
"""

from pytest_ascendcache.nodes.control import NotShown
from pytest_ascendcache.nodes.mount import Unavailable, enter, lacking
from pytest_ascendcache.nodes.profile import NodeProfile, profiles
from pytest_ascendcache.nodes.shared import Nodes, given_nodes, mounted_nodes

__all__ = [
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
