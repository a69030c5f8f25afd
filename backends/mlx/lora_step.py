"""LoRA fine-tuning in MLX: mx.quantized_matmul on packed weights, derivatives by the adapters only, mlx.optimizers.AdamW."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np
from mlx import nn, optimizers

from metalbench.backends.base import Factory, Outputs
from metalbench.backends.mlx.device import MlxDevice
from metalbench.backends.mlx.int4_matmul import stored
from metalbench.backends.twinned import twinned
from metalbench.workloads._lora_step_inputs import parts
from metalbench.workloads._training import BETAS, EPSILON, LEARNING_RATE, WEIGHT_DECAY
from metalbench.workloads.base import Array, Arrays
from metalbench.workloads.int4_matmul import pack_bytes
from metalbench.workloads.lora_step import BATCHES, KEEP, SCALE, LoraStepCase, batches, frozen, unfolded
from metalbench.workloads.transformer_block import BASE, NORM_EPSILON

Packed = Sequence[mx.array]  #: one array; or codes in 32-bit words, the first in the lowest bits, and scales and offsets [out, in / group]
Frozen = Mapping[str, Packed]
Tree = Mapping[str, mx.array]


def product(x: mx.array, packed: Packed) -> mx.array:
    """x·weightᵀ."""
    if len(packed) == 1:
        return x @ packed[0].T
    words, scales, offsets = packed
    inside = x.shape[-1]
    group, bits = inside // scales.shape[-1], 32 * words.shape[-1] // inside
    return mx.quantized_matmul(x, words, scales, offsets, transpose=True, group_size=group, bits=bits)


def adapted(w: Frozen, adapters: Tree, name: str, x: mx.array, kept: mx.array) -> mx.array:
    """The frozen projection and what its adapter adds."""
    a, b = (adapters[f"{name}.{which}"].astype(x.dtype) for which in "ab")
    return product(x, w[name]) + mx.where(kept, x / KEEP, 0) @ a.T @ b.T * SCALE


def layer_of(w: Frozen, adapters: Tree, layer: str, h: mx.array, kept: mx.array, head_size: int) -> mx.array:
    """h [batch, tokens, width]; ``kept`` [q and v, batch, tokens, width]."""
    batch, tokens, _ = h.shape
    normal = mx.fast.rms_norm(h, w[f"{layer}.attention_norm"][0], NORM_EPSILON)
    q, v = (adapted(w, adapters, f"{layer}.{name}", normal, mask) for name, mask in zip("qv", kept, strict=True))
    k = product(normal, w[f"{layer}.k"])
    q, k, v = (heads.reshape(batch, tokens, -1, head_size).swapaxes(1, 2) for heads in (q, k, v))
    q, k = (mx.fast.rope(heads, head_size, traditional=False, base=BASE, scale=1.0, offset=0) for heads in (q, k))
    attended = mx.fast.scaled_dot_product_attention(q, k, v, scale=head_size**-0.5, mask="causal")
    h = h + product(attended.swapaxes(1, 2).reshape(h.shape), w[f"{layer}.o"])
    normal = mx.fast.rms_norm(h, w[f"{layer}.mlp_norm"][0], NORM_EPSILON)
    return h + product(nn.silu(product(normal, w[f"{layer}.gate"])) * product(normal, w[f"{layer}.up"]), w[f"{layer}.down"])


def loss_of(adapters: Tree, w: Frozen, tokens: mx.array, kept: Sequence[mx.array], case: LoraStepCase) -> mx.array:
    h = w["embedding"][0][tokens[:, :-1]].astype(getattr(mx, case.dtype))
    for layer, masks in enumerate(kept):
        h = layer_of(w, adapters, f"layer{layer}", h, masks, case.of_layer().head_size)
    logits = product(mx.fast.rms_norm(h, w["norm"][0], NORM_EPSILON), w["embedding"])
    return nn.losses.cross_entropy(logits.astype(mx.float32), tokens[:, 1:], reduction="mean")


def put_packed(device: MlxDevice, case: LoraStepCase, arrays: Sequence[Array]) -> Packed:
    codes, *shared = arrays
    if not shared:
        return [device.put(codes, case.dtype)]
    if case.base == "int8":  # MLX's codes are unsigned: an offset makes them signed again
        codes, shared = codes.view(np.uint8) ^ 128, [*shared, -128 * shared[0]]
    words = (pack_bytes(codes) if case.base == "int4" else codes).view("<u4")
    return [device.put(words), *(device.put(array, case.dtype) for array in shared)]


class Training:
    """A step with its own state. ``frozen``: by name, what is not trained."""

    ran = ""

    def __init__(self, device: MlxDevice, case: LoraStepCase, inputs: Arrays) -> None:
        given, (matrices, norms) = unfolded(case, inputs), frozen(case)
        self._device, self._case, self._initial = device, case, {name: given[name] for name in case.adapters()}
        self.frozen = {name: put_packed(device, case, parts(name, given)) for name in ("embedding", *matrices)}
        self.figures: Mapping[str, float] = stored(*(array for packed in self.frozen.values() for array in packed))
        self.frozen |= {name: [device.put(given[name], case.dtype)] for name in norms}
        self._batches = [(device.put(tokens), [device.put(kept) for kept in masks]) for tokens, masks in batches(case, given)]
        self.reset()

    def reset(self) -> None:
        optimizer = optimizers.AdamW(LEARNING_RATE, betas=list(BETAS), eps=EPSILON, weight_decay=WEIGHT_DECAY, bias_correction=True)
        adapters = {name: self._device.put(value) for name, value in self._initial.items()}
        optimizer.init(adapters)
        self._state = {"adapters": adapters, "optimizer": optimizer.state}
        mx.eval(self._state)
        step = partial(train, optimizer, self._state, self.frozen, self._case)
        # for the CPU it would take a C++ compiler seconds
        compiled = mx.compile(step, inputs=self._state, outputs=self._state) if self._device.kind != "cpu" else step
        self._step: Callable[..., mx.array] = compiled
        self._calls = 0

    def __call__(self) -> Outputs:
        loss = self._step(*self._batches[self._calls % BATCHES])
        self._calls += 1
        return {"loss": loss, **self._state["adapters"]}


def train(
    optimizer: optimizers.AdamW, state: dict[str, Any], w: Frozen, case: LoraStepCase, tokens: mx.array, kept: Sequence[mx.array]
) -> mx.array:
    """One step in place; the loss."""
    loss, gradients = mx.value_and_grad(loss_of)(state["adapters"], w, tokens, kept, case)
    state["adapters"] = optimizer.apply_gradients(gradients, state["adapters"])
    return loss


VARIANTS: Mapping[str, Factory] = {"native": twinned(Training)}
DEFAULT = "native"
