"""What a run will take of memory and disk, before anything is loaded."""

from __future__ import annotations

import json
from ctypes import c_double
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Tuple, Union

from ._handle import Handle, make
from ._lib import lib
from ._text import PathLike, decode
from .config import Config, as_config


@dataclass(frozen=True)
class PlanAdvice:
    """Keys that lower the peak."""

    set: Tuple[str, ...]  # "key=value"
    peak_bytes: int  # with them
    fits: bool


@dataclass(frozen=True)
class Plan:
    """The plan of a run; str() is the table that sr1-train --plan prints."""

    device: str  # "cpu", "cuda:0"
    dtype: str  # of the weights
    parameters: int
    trained: int  # of them, or an adapter's
    largest: str  # phase with the highest peak on the device
    peak_bytes: int  # there; on the CPU all memory of the process
    memory_bytes: int  # of the device
    host_peak_bytes: int  # 0 on the CPU
    fits: bool
    checkpoint_bytes: int
    disk_bytes: int  # most that the run takes
    peaks: Mapping[str, int]  # on the device, by phase
    advice: Tuple[PlanAdvice, ...]  # empty for a run that fits
    json: Mapping[str, Any] = field(repr=False)  # all of it (docs/memory.md)
    text: str = field(repr=False)

    def __str__(self) -> str:
        return self.text


class _Planned(Handle):
    _free = "sr1_plan_free"


def _read(found: Dict[str, Any], text: str) -> Plan:
    same = (
        "device dtype parameters trained largest peak_bytes memory_bytes host_peak_bytes"
        " fits checkpoint_bytes disk_bytes"
    ).split()
    advice = (
        PlanAdvice(tuple(row["set"].split(" ")), row["peak_bytes"], row["fits"])
        for row in found["advice"]
    )
    return Plan(
        **{name: found[name] for name in same},
        peaks={row["name"]: row["device_bytes"] for row in found["phases"]},
        advice=tuple(advice),
        json=found,
        text=text,
    )


def plan(
    config: Union[Config, PathLike, Mapping[str, Any]], memory_gb: float = 0.0
) -> Plan:
    """Plan the run of a configuration, from the shapes of its models alone.

    model_name_or_path is a model's folder, with or without weights, or a config.json.
    memory_gb: memory (in 10^9 bytes) of a device that need not be here; 0: what is free
    on the configuration's device.
    """
    made = _Planned(make(lib.sr1_plan_new, as_config(config), c_double(memory_gb)))
    with made:
        text = decode(lib.sr1_plan_text(made))
        return _read(json.loads(decode(lib.sr1_plan_json(made))), text)
