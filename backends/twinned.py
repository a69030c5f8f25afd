"""A training step that is too large to be checked, and beside it the trajectory of a small one of the same code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from metalbench.backends.base import Device, Factory, Outputs, StatefulStep, Step, TellingStep
from metalbench.workloads.base import Arrays
from metalbench.workloads.lora_step import STEPS, LoraStepCase


class TellingTraining(StatefulStep, TellingStep, Protocol):
    """A training step that tells figures."""


class Twinned:
    """A training step that is too large to check, with the trajectory of a small one of the same code, which is gone when it is built.

    The outputs are those of the large one, and each of the small one's as ``twin.<name>``, stacked over its first ``calls`` calls.
    """

    def __init__(self, device: Device, calls: int, small: Callable[[], Step], large: Callable[[], TellingTraining]) -> None:
        self._twin = _trajectory(device, calls, small())
        self._step = large()
        self.ran, self.figures = self._step.ran, self._step.figures

    def __call__(self) -> Outputs:
        return {**self._step(), **self._twin}

    def reset(self) -> None:
        self._step.reset()


def twinned(training: Callable[[Any, LoraStepCase, Arrays], TellingTraining]) -> Factory:
    """The factory of a training step, which is ``Twinned`` where its case says so."""

    def factory(device: Device, case: LoraStepCase, inputs: Arrays) -> Step:
        if case.full_size:
            return Twinned(device, STEPS, lambda: training(device, case.twin(), inputs), lambda: training(device, case, inputs))
        return training(device, case, inputs)

    return factory


def _trajectory(device: Device, calls: int, step: Step) -> Outputs:
    seen = []
    for _ in range(calls):
        outputs = step()
        device.wait(outputs)
        seen.append({name: np.array(device.get(array)) for name, array in outputs.items()})  # a copy: the next call may write there
    return {f"twin.{name}": device.put(np.stack([outputs[name] for outputs in seen])) for name in seen[0]}
