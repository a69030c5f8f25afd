"""Attention in PyTorch: operator by operator, through torch.compile, and F.scaled_dot_product_attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend
from torch.nn.attention.bias import causal_lower_right

from metalbench.backends.base import Factory, Step, Told
from metalbench.backends.torch.device import TorchDevice
from metalbench.workloads.attention import AttentionCase, causal_mask
from metalbench.workloads.base import Arrays

Attend = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Shapes as in the case. Query heads of a group are rows of one product, so that no key is copied."""
    batch, heads, queries, size = q.shape
    kv_heads, keys = k.shape[1:3]
    grouped = (q * (1 / math.sqrt(size))).reshape(batch, kv_heads, heads // kv_heads * queries, size)
    scores = grouped @ k.mT
    if mask is not None:
        scores = scores.view(batch, heads, queries, keys).masked_fill(mask, -math.inf).view(batch, kv_heads, -1, keys)
    return (torch.softmax(scores, dim=-1) @ v).view(q.shape)


def composed(device: TorchDevice, case: AttentionCase, inputs: Arrays) -> Step:
    return _masked(attend, device, case, inputs)


def compiled(device: TorchDevice, case: AttentionCase, inputs: Arrays) -> Step:
    torch.compiler.reset()  # every case is compiled for its own shapes, whatever came before it in this process
    return _masked(torch.compile(attend, fullgraph=True, dynamic=False), device, case, inputs)


def fused(device: TorchDevice, case: AttentionCase, inputs: Arrays) -> Step:
    q, k, v = _qkv(device, case, inputs)
    grouped = case.heads != case.kv_heads
    square = case.queries == case.keys
    # is_causal aligns at the upper left: the same for a square, and for one query it must not be used at all
    mask = None
    if case.causal and not square and case.queries > 1:
        # on CUDA a kernel knows this alignment; elsewhere PyTorch would make a mask of it in every call
        on_cuda = device.kind == "cuda"
        mask = causal_lower_right(case.queries, case.keys) if on_cuda else device.put(causal_mask(case.queries, case.keys))
    causal = case.causal and square

    def step() -> Mapping[str, torch.Tensor]:
        return {"out": functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)}

    if device.kind == "mps" or (mask is not None and type(mask) is not torch.Tensor):
        return step  # there PyTorch's choice can't be asked for
    choice = torch._fused_sdp_choice(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=grouped)  # noqa: SLF001 - PyTorch offers no other name
    return Told(step, SDPBackend(choice).name.lower().replace("_", " "))


def _masked(function: Attend, device: TorchDevice, case: AttentionCase, inputs: Arrays) -> Step:
    q, k, v = _qkv(device, case, inputs)
    hidden = device.put(~causal_mask(case.queries, case.keys)) if case.causal and case.queries > 1 else None
    return lambda: {"out": function(q, k, v, hidden)}


def _qkv(device: TorchDevice, case: AttentionCase, inputs: Arrays) -> list[torch.Tensor]:
    return [device.put(inputs[name], case.dtype) for name in "qkv"]


VARIANTS: Mapping[str, Factory] = {"composed": composed, "compiled": compiled, "fused": fused}
DEFAULT = "fused"
