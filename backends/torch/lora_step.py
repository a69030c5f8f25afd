"""LoRA fine-tuning in PyTorch: packed weights in an autograd function that unpacks them forward and backward, and the fused AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from metalbench.backends.base import Factory, Outputs
from metalbench.backends.torch.device import TorchDevice
from metalbench.backends.torch.int4_matmul import stored
from metalbench.backends.torch.transformer_block import rotate
from metalbench.backends.twinned import twinned
from metalbench.workloads._lora_step_inputs import packed_parts
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.base import Arrays
from metalbench.workloads.lora_step import BATCHES, KEEP, SCALE, LoraStepCase, batches, frozen, unfolded
from metalbench.workloads.transformer_block import NORM_EPSILON, rotary_tables

Packed = Sequence[torch.Tensor]  #: as ``packed_parts`` has it
Frozen = Mapping[str, Packed]
Tree = Mapping[str, torch.Tensor]


def unpacked(packed: Packed, dtype: torch.dtype) -> torch.Tensor:
    """[out, in]."""
    codes, scales, *offsets = packed
    if not offsets:
        return (codes.view(*scales.shape[:2], -1).to(dtype) * scales).view(codes.shape)
    pairs = torch.stack((codes & 15, codes >> 4), dim=-1).view(*scales.shape[:2], -1)
    return (pairs.to(dtype) * scales + offsets[0]).view(codes.shape[0], -1)


class PackedProduct(torch.autograd.Function):
    """x·weightᵀ; the backward pass finds the weight as it is stored, and unpacks it again."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, *packed: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(*packed)
        return functional.linear(x, unpacked(packed, x.dtype))

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        packed = context.saved_tensors
        return gradients[0] @ unpacked(packed, gradients[0].dtype), *(None for _ in packed)


def product(x: torch.Tensor, packed: Packed) -> torch.Tensor:
    """x·weightᵀ for a weight without a gradient."""
    return functional.linear(x, *packed) if len(packed) == 1 else PackedProduct.apply(x, *packed)


def adapted(w: Frozen, adapters: Tree, name: str, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The frozen projection and what its adapter adds."""
    a, b = (adapters[f"{name}.{which}"].to(x.dtype) for which in "ab")
    low = functional.linear(torch.where(kept, x / KEEP, 0.0), a)
    return product(x, w[name]) + functional.linear(low, b) * SCALE


def layer_of(w: Frozen, adapters: Tree, layer: str, h: torch.Tensor, kept: torch.Tensor, tables: Packed, head_size: int) -> torch.Tensor:
    """h [batch, tokens, width]; ``kept`` [q and v, batch, tokens, width]."""
    batch, tokens, width = h.shape
    normal = functional.rms_norm(h, (width,), w[f"{layer}.attention_norm"][0], NORM_EPSILON)
    q, v = (adapted(w, adapters, f"{layer}.{name}", normal, mask) for name, mask in zip("qv", kept, strict=True))
    k = product(normal, w[f"{layer}.k"])
    q, k, v = (heads.view(batch, tokens, -1, head_size).transpose(1, 2) for heads in (q, k, v))
    attended = functional.scaled_dot_product_attention(
        rotate(q, *tables), rotate(k, *tables), v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1]
    )
    h = h + product(attended.transpose(1, 2).reshape(h.shape), w[f"{layer}.o"])
    normal = functional.rms_norm(h, (width,), w[f"{layer}.mlp_norm"][0], NORM_EPSILON)
    gated = functional.silu(product(normal, w[f"{layer}.gate"])) * product(normal, w[f"{layer}.up"])
    return h + product(gated, w[f"{layer}.down"])


def loss_of(
    w: Frozen, adapters: Tree, batch: tuple[torch.Tensor, Sequence[torch.Tensor]], tables: Packed, case: LoraStepCase
) -> torch.Tensor:
    tokens, kept = batch
    h = functional.embedding(tokens[:, :-1], w["embedding"][0]).to(getattr(torch, case.dtype))
    for layer, masks in enumerate(kept):
        h = layer_of(w, adapters, f"layer{layer}", h, masks, tables, case.of_layer().head_size)
    logits = product(functional.rms_norm(h, (case.width,), w["norm"][0], NORM_EPSILON), w["embedding"])
    return functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


class Training:
    """A step with its own state. ``frozen``: by name, what is not trained; trained is whatever wants a gradient."""

    ran = ""

    def __init__(self, device: TorchDevice, case: LoraStepCase, inputs: Arrays) -> None:
        given, (matrices, norms) = unfolded(case, inputs), frozen(case)
        self._case, self._initial = case, {name: given[name] for name in case.adapters()}
        self._tables = [device.put(table) for table in rotary_tables(case.of_layer())]
        self.frozen = {
            name: [device.put(array, case.dtype if array.dtype.kind == "f" else None) for array in packed_parts(name, given)]
            for name in ("embedding", *matrices)
        }
        self.figures: Mapping[str, float] = stored(*(array for packed in self.frozen.values() for array in packed))
        self.frozen |= {name: [device.put(given[name], case.dtype)] for name in norms}
        self._adapters = {name: device.put(value).requires_grad_() for name, value in self._initial.items()}
        self._batches = [(device.put(tokens, "int64"), [device.put(kept) for kept in masks]) for tokens, masks in batches(case, given)]
        tensors = {name: packed[0] for name, packed in self.frozen.items()} | self._adapters
        self._trained = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
        self.reset()

    def reset(self) -> None:
        for name, value in self._initial.items():
            self._adapters[name].detach().copy_(torch.tensor(value))
        self._optimizer = torch.optim.AdamW(
            self._trained.values(), lr=LEARNING_RATE, betas=BETAS, eps=EPSILON, weight_decay=WEIGHT_DECAY, fused=True
        )
        self._calls = 0

    def __call__(self) -> Outputs:
        loss = loss_of(self.frozen, self._adapters, self._batches[self._calls % BATCHES], self._tables, self._case)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self._calls += 1
        return {"loss": loss.detach(), **{name: tensor.detach() for name, tensor in self._trained.items()}}


VARIANTS: Mapping[str, Factory] = {"native": twinned(Training)}
DEFAULT = "native"
