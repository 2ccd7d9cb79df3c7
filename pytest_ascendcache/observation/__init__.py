"""Decides from outside what a compile delivered and what it did to the cache.

This room sends requests to a toolchain and looks at markers and two snapshots. It does not judge.
"""

from pytest_ascendcache.observation.cache import CacheUnderTest
from pytest_ascendcache.observation.client_run import IMPOSTOR, OWN, ClientRun
from pytest_ascendcache.observation.control import CONTROL_RUNS, network_control, positive_control
from pytest_ascendcache.observation.evidence import (
    Accuracy,
    CacheSize,
    Evidence,
    NotDecidable,
    PositiveControl,
    RankEvent,
    RankNote,
)
from pytest_ascendcache.observation.impostor import SLOPES
from pytest_ascendcache.observation.interruption import Interruption, spread
from pytest_ascendcache.observation.launched import launched_gang
from pytest_ascendcache.observation.meeting_place import Address, meeting_place
from pytest_ascendcache.observation.network import NetworkUnderTest
from pytest_ascendcache.observation.network_run import NetworkRun
from pytest_ascendcache.observation.probe_networks import DATA, Probe, probe_network
from pytest_ascendcache.observation.run import Run
from pytest_ascendcache.observation.shared_cache import SharedCache
from pytest_ascendcache.observation.stand_in import StandIn
from pytest_ascendcache.observation.static_kernel import StaticKernelsUnderTest
from pytest_ascendcache.observation.static_processes import left_in, state_of
from pytest_ascendcache.observation.warm import Shared
from pytest_ascendcache.observation.watched_ranks import NetworkControl, Watch

__all__ = [
    "CONTROL_RUNS",
    "DATA",
    "IMPOSTOR",
    "OWN",
    "SLOPES",
    "Accuracy",
    "Address",
    "CacheSize",
    "CacheUnderTest",
    "ClientRun",
    "Evidence",
    "Interruption",
    "NetworkControl",
    "NetworkRun",
    "NetworkUnderTest",
    "NotDecidable",
    "PositiveControl",
    "Probe",
    "RankEvent",
    "RankNote",
    "Run",
    "Shared",
    "SharedCache",
    "StandIn",
    "StaticKernelsUnderTest",
    "Watch",
    "launched_gang",
    "left_in",
    "meeting_place",
    "network_control",
    "positive_control",
    "probe_network",
    "spread",
    "state_of",
]
