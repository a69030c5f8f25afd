"""A LLaMA-like block in PyTorch: F.rms_norm, F.scaled_dot_product_attention with grouped queries, the cache written in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

from metalbench.backends.base import Factory, Outputs, Step
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import Arrays
from metalbench.workloads.transformer_block import NORM_EPSILON, TransformerBlockCase, rotary_tables


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """[…, tokens, head_size], in float32 whatever x is."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def forward(
    w: Mapping[str, torch.Tensor],
    x: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """The last entries of the caches are for the tokens of x. ``mask`` where there are several after a context."""
    batch, queries, width = x.shape
    _, kv_heads, keys, head_size = k_cache.shape
    normal = functional.rms_norm(x, (width,), w["attention_norm"], NORM_EPSILON)
    q, k, v = (functional.linear(normal, w[name]).view(batch, queries, -1, head_size).transpose(1, 2) for name in "qkv")
    k_cache[:, :, keys - queries :] = rotate(k, cos, sin)
    v_cache[:, :, keys - queries :] = v
    attended = functional.scaled_dot_product_attention(
        rotate(q, cos, sin),
        k_cache,
        v_cache,
        attn_mask=mask,
        is_causal=queries == keys,  # aligned at the upper left: right for a square only
        enable_gqa=q.shape[1] != kv_heads,
    )
    h = x + functional.linear(attended.transpose(1, 2).reshape(x.shape), w["o"])
    normal = functional.rms_norm(h, (width,), w["mlp_norm"], NORM_EPSILON)
    return h + functional.linear(functional.silu(functional.linear(normal, w["gate"])) * functional.linear(normal, w["up"]), w["down"])


def eager(device: TorchDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    return _block(forward, device, case, inputs)


def compiled(device: TorchDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    return _block(torch.compile(forward, fullgraph=True, dynamic=False), device, case, inputs)


def _block(function: Callable[..., torch.Tensor], device: TorchDevice, case: TransformerBlockCase, inputs: Arrays) -> Step:
    w = {name: device.put(inputs[name], case.dtype) for name in (*case.matrices(), "attention_norm", "mlp_norm")}
    x, k_cache, v_cache = (device.put(inputs[name], case.dtype) for name in ("x", "k_cache", "v_cache"))
    cos, sin = map(device.put, rotary_tables(case))
    mask = device.put(causal_mask(case.queries, case.keys)) if case.context and case.queries > 1 else None

    @torch.inference_mode()
    def step() -> Outputs:
        return {"out": function(w, x, k_cache, v_cache, cos, sin, mask)}

    return step


VARIANTS: Mapping[str, Factory] = {"eager": eager, "compiled": compiled}
DEFAULT = "eager"
