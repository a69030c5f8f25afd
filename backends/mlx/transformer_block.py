"""A LLaMA-like block in MLX: mx.fast's RMS norm, rotary embedding and attention; the cache is updated in place, as nobody else holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mlx.core as mx
from mlx import nn

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.mlx.device import MlxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.transformer_block import BASE, NORM_EPSILON, TransformerBlockCase


def forward(w: Mapping[str, mx.array], cache: list[mx.array], x: mx.array) -> mx.array:
    """``cache``: keys and values; their last entries are for the tokens of x."""
    batch, queries, _ = x.shape
    keys, head_size = cache[0].shape[2:]
    context = keys - queries
    normal = mx.fast.rms_norm(x, w["attention_norm"], NORM_EPSILON)
    q, k, v = ((normal @ w[name].T).reshape(batch, queries, -1, head_size).swapaxes(1, 2) for name in "qkv")
    q, k = (mx.fast.rope(heads, head_size, traditional=False, base=BASE, scale=1.0, offset=context) for heads in (q, k))
    for index, new in enumerate((k, v)):
        cache[index] = mx.slice_update(cache[index], new, mx.array([context]), axes=(2,))
    mask = "causal" if queries > 1 else None  # aligned at the lower right
    attended = mx.fast.scaled_dot_product_attention(q, *cache, scale=head_size**-0.5, mask=mask)
    h = x + attended.swapaxes(1, 2).reshape(x.shape) @ w["o"].T
    normal = mx.fast.rms_norm(h, w["mlp_norm"], NORM_EPSILON)
    return h + (nn.silu(normal @ w["gate"].T) * (normal @ w["up"].T)) @ w["down"].T


def eager(device: MlxDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return _block(device, case, inputs, lambda function, **_: function)


def compiled(device: MlxDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return _block(device, case, inputs, mx.compile)


def _block(device: MlxDevice, case: TransformerBlockCase, inputs: Arrays, compiler: Callable[..., Any]) -> Step:
    w = {name: device.put(inputs[name], case.dtype) for name in (*case.matrices(), "attention_norm", "mlp_norm")}
    cache = [device.put(inputs[name], case.dtype) for name in ("k_cache", "v_cache")]
    x = device.put(inputs["x"], case.dtype)
    function = compiler(partial(forward, w, cache), inputs=cache, outputs=cache)

    def step() -> Outputs:
        out = function(x)
        # as generation does at every token: of several pending calls each would copy the cache that another reads
        mx.async_eval(out)
        return {"out": out}

    return step


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "eager"
