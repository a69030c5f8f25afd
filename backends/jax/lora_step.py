"""LoRA fine-tuning in JAX: derivatives by the adapters only, a jitted step that donates its state, weights unpacked inside it.

A product by packed weights is rematerialised (jax.checkpoint), so that no unpacked one need be kept until the backward pass. XLA for the
CPU keeps them all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from metalbench.backends.base import Factory, Outputs
from metalbench.backends.jax.amp_step import adamw
from metalbench.backends.jax.device import JaxDevice
from metalbench.backends.jax.int4_matmul import stored
from metalbench.backends.jax.transformer_block import normalise, rotate
from metalbench.backends.twinned import twinned
from metalbench.workloads._lora_step_inputs import packed_parts
from metalbench.workloads.base import Arrays
from metalbench.workloads.lora_step import BATCHES, KEEP, SCALE, LoraStepCase, batches, frozen, unfolded
from metalbench.workloads.transformer_block import rotary_tables

Packed = Sequence[jax.Array]  #: as ``packed_parts`` has it
Frozen = Mapping[str, Packed]
Tree = Mapping[str, jax.Array]


def unpacked(packed: Packed, dtype: Any) -> jax.Array:
    """[out, in]."""
    codes, scales, *offsets = packed
    if not offsets:
        return (codes.reshape(*scales.shape[:2], -1).astype(dtype) * scales).reshape(codes.shape)
    pairs = jnp.stack((codes & 15, codes >> 4), axis=-1).reshape(*scales.shape[:2], -1)
    return (pairs.astype(dtype) * scales + offsets[0]).reshape(codes.shape[0], -1)


@jax.checkpoint
def packed_product(x: jax.Array, packed: Packed) -> jax.Array:
    return x @ unpacked(packed, x.dtype).T


def product(x: jax.Array, packed: Packed) -> jax.Array:
    """x·weightᵀ."""
    return x @ packed[0].T if len(packed) == 1 else packed_product(x, packed)


def adapted(w: Frozen, adapters: Tree, name: str, x: jax.Array, kept: jax.Array) -> jax.Array:
    """The frozen projection and what its adapter adds."""
    a, b = (adapters[f"{name}.{which}"].astype(x.dtype) for which in "ab")
    return product(x, w[name]) + jnp.where(kept, x / KEEP, 0) @ a.T @ b.T * SCALE


def layer_of(
    w: Frozen, adapters: Tree, layer: str, h: jax.Array, kept: jax.Array, tables: Packed, case: LoraStepCase, kernel: str | None
) -> jax.Array:
    """h [batch, tokens, width]; ``kept`` [q and v, batch, tokens, width]."""
    normal = normalise(h, w[f"{layer}.attention_norm"][0])
    q, v = (adapted(w, adapters, f"{layer}.{name}", normal, mask) for name, mask in zip("qv", kept, strict=True))
    k = product(normal, w[f"{layer}.k"])
    q, k, v = (heads.reshape(*h.shape[:2], -1, case.of_layer().head_size) for heads in (q, k, v))
    attended = jax.nn.dot_product_attention(rotate(q, *tables), rotate(k, *tables), v, is_causal=True, implementation=kernel)
    h = h + product(attended.reshape(h.shape), w[f"{layer}.o"])
    normal = normalise(h, w[f"{layer}.mlp_norm"][0])
    return h + product(jax.nn.silu(product(normal, w[f"{layer}.gate"])) * product(normal, w[f"{layer}.up"]), w[f"{layer}.down"])


def loss_of(adapters: Tree, w: Frozen, batch: Any, tables: Packed, case: LoraStepCase, kernel: str | None) -> jax.Array:
    """``batch``: tokens [batch, block + 1], and the masks of every layer."""
    tokens, kept = batch
    h = w["embedding"][0][tokens[:, :-1]].astype(case.dtype)
    for layer, masks in enumerate(kept):
        h = layer_of(w, adapters, f"layer{layer}", h, masks, tables, case, kernel)
    logits = product(normalise(h, w["norm"][0]), w["embedding"]).astype(jnp.float32)
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1).mean()


@partial(jax.jit, donate_argnums=0, static_argnums=(4, 5))
def train(state: Any, w: Frozen, batch: Any, tables: Packed, case: LoraStepCase, kernel: str | None) -> tuple[Any, jax.Array]:
    """(next state, loss)."""
    loss, gradients = jax.value_and_grad(loss_of)(state["parameters"], w, batch, tables, case, kernel)
    return adamw(state, gradients), loss


class Training:
    """A step with its own state. ``frozen``: by name, what is not trained."""

    ran = ""

    def __init__(self, device: JaxDevice, case: LoraStepCase, inputs: Arrays) -> None:
        given, (matrices, norms) = unfolded(case, inputs), frozen(case)
        self._device, self._case, self._initial = device, case, {name: given[name] for name in case.adapters()}
        self._kernel = "cudnn" if device.kind == "cuda" and case.dtype != "float32" else None  # cuDNN has it in 16 bit only
        self._tables = [device.put(table[:, None]) for table in rotary_tables(case.of_layer())]
        self.frozen = {
            name: [device.put(array, case.dtype if array.dtype.kind == "f" else None) for array in packed_parts(name, given)]
            for name in ("embedding", *matrices)
        }
        self.figures: Mapping[str, float] = stored(*(array for packed in self.frozen.values() for array in packed))
        self.frozen |= {name: [device.put(given[name], case.dtype)] for name in norms}
        self._batches = [(device.put(tokens), [device.put(kept) for kept in masks]) for tokens, masks in batches(case, given)]
        self.reset()

    def reset(self) -> None:
        put = self._device.put
        parameters = {name: put(value) for name, value in self._initial.items()}
        first, second = ({name: put(np.zeros_like(value)) for name, value in self._initial.items()} for _ in range(2))
        self._state: Any = {"parameters": parameters, "first": first, "second": second, "step": put(np.asarray(np.int32(0)))}
        self._calls = 0

    def __call__(self) -> Outputs:
        batch = self._batches[self._calls % BATCHES]
        self._state, loss = train(self._state, self.frozen, batch, self._tables, self._case, self._kernel)
        self._calls += 1
        return {"loss": loss, **self._state["parameters"]}


VARIANTS: Mapping[str, Factory] = {"native": twinned(Training)}
DEFAULT = "native"
