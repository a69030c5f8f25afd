"""Scaled dot-product attention: softmax(Q·Kᵀ / √head_size)·V, the operator that transformers spend their time in."""

from __future__ import annotations

from metalbench.workloads.base import Case


class AttentionCase(Case, frozen=True, kw_only=True):
    """Shapes: q [batch, heads, queries, head_size]; k and v [batch, kv_heads, keys, head_size]; heads a multiple of kv_heads.

    Query head h reads key/value head h // (heads // kv_heads). Where ``causal``, query i sees key j if j ≤ i + keys − queries:
    the last query sees every key (aligned at the lower right), whatever a framework's own default.
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    head_size: int
    causal: bool
