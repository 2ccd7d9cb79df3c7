"""One observed run of a client: the outputs of its networks, and which kernels produced them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_ascendcache.observation.evidence import NotDecidable
from pytest_ascendcache.observation.impostor import Impostor
from pytest_ascendcache.observation.network_run import close_enough
from pytest_ascendcache.observation.observed import ObservedProcess
from pytest_ascendcache.operators.network import Network
from pytest_ascendcache.toolchains import StaticResult
from pytest_ascendcache.toolchains.training import read_outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWN, IMPOSTOR, WRONG = "own", "impostor", "wrong"


@dataclass(frozen=True, repr=False)
class ClientRun(ObservedProcess):
    """A client that ran ``networks`` one after the other; their outputs are in ``directory``."""

    result: StaticResult
    networks: tuple[Network, ...]
    directory: Path
    impostor: Impostor | None

    def __repr__(self) -> str:
        return f"<client, {self.result.ending}>"

    @property
    def succeeded(self) -> bool:
        """Whether the client reports success and produced the outputs of every network."""
        return self.result.succeeded and None not in [
            self.outputs(number) for number in range(len(self.networks))
        ]

    def outputs(self, number: int = 0) -> Mapping[str, NDArray[Any]] | None:
        """The outputs of one network by name, or None."""
        return read_outputs(self.directory / f"{number}.npz")

    def origins(self, number: int = 0) -> dict[str, str]:
        """Whether each output of a network is the operator's own, an impostor's, or wrong. Raises
        ``NotDecidable`` if there are no outputs."""
        from pytest_ascendcache.operators.evaluation import evaluate_network

        outputs = self.outputs(number)
        if outputs is None:
            raise NotDecidable(f"the client gave no outputs: it {self.result.ending}")
        network = self.networks[number]
        exact = evaluate_network(network)
        inputs = {node.outputs[0]: node.inputs[0] for node in network.nodes}
        origins: dict[str, str] = {}
        for name in network.outputs:
            if name not in outputs or outputs[name].shape != exact[name].shape:
                origins[name] = WRONG
            elif close_enough(outputs[name], exact[name]):
                origins[name] = OWN
            elif self.impostor is not None and close_enough(
                outputs[name], self.impostor.output(exact[inputs[name]])
            ):
                origins[name] = IMPOSTOR
            else:
                origins[name] = WRONG
        return origins

    @property
    def kernels(self) -> set[str]:
        """Which kernels ran, over all networks: ``own``, ``impostor``, ``wrong``."""
        return {
            how for number in range(len(self.networks)) for how in self.origins(number).values()
        }
