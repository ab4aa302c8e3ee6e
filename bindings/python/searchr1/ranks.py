"""Several processes, started by a launcher, that evaluate or synthesise as one job."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import Any, Mapping, Union

from ._handle import Handle, make
from ._lib import lib
from ._text import PathLike
from .config import Config, as_config


class Ranks(Handle):
    """The processes of the job that torchrun, mpirun, srun or a shell loop has started;
    without their variables in the environment this process alone. Every rank makes the
    same calls:

        with Ranks(config) as ranks:
            rollout = Rollout(ranks.config)
            scores = rollout.evaluate(dataset, ranks=ranks)
    """

    _free = "sr1_ranks_free"

    def __init__(self, config: Union[Config, PathLike, Mapping[str, Any]]) -> None:
        """Meet the others, whose configuration must be the same."""
        super().__init__(make(lib.sr1_ranks_open, as_config(config)))

    @property
    def rank(self) -> int:
        """Which process this is, from 0."""
        return int(lib.sr1_ranks_rank(self))

    @property
    def size(self) -> int:
        """How many there are."""
        return int(lib.sr1_ranks_size(self))

    @property
    def config(self) -> Config:
        """The configuration with this process's share of the machine: threads, GPU."""
        out = c_void_p()
        lib.sr1_ranks_config(self, byref(out))
        assert out.value is not None
        return Config._of(out.value)
