"""Scaled dot-product attention: softmax(Q·Kᵀ / √head_size)·V, the operator that transformers spend their time in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from metalbench.workloads.base import ITEMSIZE, Array, Arrays, Case, Cost, DType, Suite, Workload, reduction_tolerance, rounded

FULL_REFERENCE = 1 << 30  #: products of query and key elements up to which every output is computed
SAMPLED_QUERIES = 4  #: rows of each head beyond that: the first, the last, and some between


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

    def label(self) -> str:
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        length = f"{self.queries}" if self.queries == self.keys else f"{self.queries}:{self.keys}"
        return f"{self.batch}×{heads}×{length}×{self.head_size}{' causal' if self.causal else ''} {self.dtype}"


def causal_mask(queries: int, keys: int) -> Array:
    """Boolean [queries, keys]: True where a query sees a key."""
    return np.arange(keys)[None, :] <= np.arange(queries)[:, None] + (keys - queries)


class Attention(Workload[AttentionCase]):
    """Tolerance: the common one over K = max(keys, head_size) terms, not widened for 16 bit.

    The composed way rounds scores, probabilities and outputs to 16 bit, each with a relative error of at most eps/2, independent
    from element to element. Scores are of order one, so rounding them moves a probability by as much, and the weighted mean over
    keys averages the errors: normwise less than √3·eps/2 together, inside 2·eps.
    """

    name = "attention"
    version = 1
    case_type = AttentionCase
    variants = {
        "composed": "matmul, scale, mask, softmax, matmul, one operator after the other",
        "compiled": "the composed way through the framework's compiler",
        "fused": "the framework's own attention operator",
    }

    def cases(self, suite: Suite) -> Iterable[AttentionCase]:
        if suite == "quick":
            yield _case("float32", 1, 4, 4, 256, 256, 64, causal=True)
            yield _case("bfloat16", 1, 8, 2, 128, 128, 64, causal=True)
            yield _case("float32", 1, 8, 2, 1, 2048, 64)
            return
        if suite == "documents":
            yield _case("float32", 1, 8, 8, 512, 512, 64, causal=True)
            yield _case("float32", 1, 8, 8, 1, 2048, 64)
            return
        batch, heads, kv_heads, length, context, size = (1, 16, 4, 1024, 8192, 64) if suite == "standard" else (4, 32, 8, 4096, 32768, 128)
        yield from _grid(batch, heads, kv_heads, length, context, size)

    def inputs(self, case: AttentionCase, rng: np.random.Generator) -> dict[str, Array]:
        query = (case.batch, case.heads, case.queries, case.head_size)
        key = (case.batch, case.kv_heads, case.keys, case.head_size)
        shapes = {"q": query, "k": key, "v": key}
        return {name: rounded(rng.standard_normal(shape, dtype=np.float32), case.dtype) for name, shape in shapes.items()}

    def reference(self, case: AttentionCase, inputs: Arrays) -> dict[str, Array]:
        if case.batch * case.heads * case.queries * case.keys * case.head_size <= FULL_REFERENCE:
            return {"out": _attend(case, inputs, np.arange(case.queries))}
        between = np.random.default_rng(0).choice(case.queries, SAMPLED_QUERIES - 2, replace=False)
        rows = np.unique([0, case.queries - 1, *between])
        shape = (case.batch, case.heads, case.queries, case.head_size)
        at = np.arange(math.prod(shape)).reshape(shape)[:, :, rows]
        return {"out": _attend(case, inputs, rows).reshape(-1), "out.at": at.reshape(-1)}

    def cost(self, case: AttentionCase, variant: str) -> Cost:
        """FLOPs 4·d for every pair of query and key that see each other, the two products; softmax is not counted, as is customary."""
        pairs = case.queries * case.keys
        if case.causal:
            hidden = min(case.queries, case.keys) - 1  # keys that the first query misses, one fewer for each after it
            pairs -= hidden * (hidden + 1) // 2
        size = ITEMSIZE[case.dtype]
        query = case.batch * case.heads * case.queries * case.head_size
        key = case.batch * case.kv_heads * case.keys * case.head_size
        traffic = size * (2 * query + 2 * key)
        scores = 0 if variant == "fused" else 3 * 4 * case.batch * case.heads * case.queries * case.keys
        return Cost(flops=4 * case.batch * case.heads * pairs * case.head_size, bytes=traffic, footprint=2 * traffic + scores)

    def tolerance(self, case: AttentionCase) -> float:
        return reduction_tolerance(case.dtype, max(case.keys, case.head_size))


def _case(
    dtype: DType, batch: int, heads: int, kv_heads: int, queries: int, keys: int, head_size: int, *, causal: bool = False
) -> AttentionCase:
    return AttentionCase(
        dtype=dtype, batch=batch, heads=heads, kv_heads=kv_heads, queries=queries, keys=keys, head_size=head_size, causal=causal
    )


def _grid(batch: int, heads: int, kv_heads: int, length: int, context: int, size: int) -> Iterator[AttentionCase]:
    """Prefill causal and not, and grouped; a chunk against a longer context; decode; each in every dtype."""
    dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
    for dtype in dtypes:
        yield _case(dtype, batch, heads, heads, length, length, size, causal=True)
        yield _case(dtype, batch, heads, heads, length, length, size)
        yield _case(dtype, batch, heads, kv_heads, length, length, size, causal=True)
        yield _case(dtype, batch, heads, kv_heads, length // 4, length, size, causal=True)
        yield _case(dtype, batch, heads, kv_heads, 1, context, size)


def _attend(case: AttentionCase, inputs: Arrays, rows: Array) -> Array:
    """The outputs of the queries ``rows`` in float64, [batch, heads, rows, head_size]."""
    sees = causal_mask(case.queries, case.keys)[rows] if case.causal else np.ones((1, 1), bool)
    per_group = case.heads // case.kv_heads
    out = np.empty((case.batch, case.heads, len(rows), case.head_size))
    for batch in range(case.batch):
        for head in range(case.heads):
            key, value = (inputs[name][batch, head // per_group].astype(np.float64) for name in "kv")
            scores = inputs["q"][batch, head, rows].astype(np.float64) @ key.T / math.sqrt(case.head_size)
            scores = np.where(sees, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[batch, head] = weights @ value / weights.sum(-1, keepdims=True)
    return out


WORKLOAD = Attention()
