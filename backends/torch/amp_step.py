"""Mixed-precision training in PyTorch: autocast, GradScaler, and the fused AdamW; compiled, the model goes through torch.compile."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn import functional

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.amp_step import GROWTH_INTERVAL, LOSS_SCALE, NORM_EPSILON, AmpStepCase
from metalbench.workloads.base import Arrays


class Block(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, NORM_EPSILON)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h + self.down(functional.gelu(self.up(self.norm(h))))


class Network(nn.Sequential):
    """Logits [batch, classes] of x [batch, width]."""

    def __init__(self, case: AmpStepCase) -> None:
        blocks = {f"block{index}": Block(case.width, case.hidden) for index in range(case.blocks)}
        end = {"norm": nn.LayerNorm(case.width, NORM_EPSILON), "head": nn.Linear(case.width, case.classes)}
        super().__init__(OrderedDict(blocks | end))

    def named(self) -> dict[str, torch.Tensor]:
        """The parameters under the workload's names and in its layout, as views: PyTorch keeps weights as [out, in]."""
        views = {}
        for name, parameter in self.named_parameters():
            module, _, kind = name.rpartition(".")
            norm = module.endswith("norm")
            ours = {"weight": "scale", "bias": "shift"}[kind] if norm else kind
            views[f"{module}.{ours}"] = parameter.detach().T if parameter.ndim == 2 else parameter.detach()
        return views


class Training:
    """A step with its own state; ``loss_of`` is (network, x, labels) → loss, as it is or compiled."""

    def __init__(self, device: TorchDevice, case: AmpStepCase, inputs: Arrays, loss_of: Callable[..., torch.Tensor]) -> None:
        self._device, self._case, self._inputs, self._loss_of = device, case, inputs, loss_of
        self._x, self._labels = device.put(inputs["x"]), device.put(inputs["labels"], "int64")
        self._network = Network(case).to(device.torch_device)
        self._dtype = getattr(torch, case.dtype)
        self._named = self._network.named()
        self.reset()

    def reset(self) -> None:
        for name, view in self._named.items():
            view.copy_(torch.tensor(self._inputs[name]))
        self._optimizer = torch.optim.AdamW(
            self._network.parameters(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY, fused=True
        )
        self._scaler = torch.amp.GradScaler(
            self._device.kind, init_scale=LOSS_SCALE, growth_interval=GROWTH_INTERVAL, enabled=self._case.dtype == "float16"
        )

    def __call__(self) -> Outputs:
        with torch.autocast(self._device.kind, self._dtype, enabled=self._case.dtype != "float32"):
            loss = self._loss_of(self._network, self._x, self._labels)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        return {"loss": loss, **self._named}


def loss_of(network: Network, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(network(x), labels)


def eager(device: TorchDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    return Training(device, case, inputs, loss_of)


def compiled(device: TorchDevice, case: AmpStepCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    return Training(device, case, inputs, torch.compile(loss_of, fullgraph=True, dynamic=False))


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "eager"
