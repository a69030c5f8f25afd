"""The forward pass of one decoder block of the LLaMA kind, in prefill and in decode, with a preallocated key/value cache.

RMS norm; q, k and v without bias; rotary embedding; causal attention with grouped queries; output projection; residual; RMS norm;
down(silu(gate)·up); residual. Weights and activations are in the case's dtype; norms, rotation and sums are in float32 (Touvron et al.,
LLaMA, 2023, and the code published with it). The rotation turns element i of a head with element i + head_size/2, as in the weights that
are handed on (``rotate_half``), not with its neighbour as in the first publication: by the angle position·``BASE``^(−2i/head_size).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from metalbench.workloads.attention import causal_mask
from metalbench.workloads.base import ITEMSIZE, Array, Arrays, Case, Cost, DType, Suite, Workload, reduction_tolerance, rounded

NORM_EPSILON = 1e-5
BASE = 10000.0
EMBEDDING = 0.02  #: deviation of x, as language models draw their embeddings: small, so that what attention adds decides the output
REDUCTIONS = 6  #: one after the other: keys, scores, values, projection, gate, down
FULL_REFERENCE = 1 << 30  #: multiply-adds up to which every token's output is computed
SAMPLED_TOKENS = 4  #: of each sequence beyond that: the first, the last, and some between


class TransformerBlockCase(Case, frozen=True, kw_only=True):
    """``queries`` new tokens after ``context`` that are in the cache: prefill has many and 0, decode 1 and many.

    x and out [batch, queries, width]; head_size is width / heads; query head h reads key/value head h // (heads // kv_heads).
    """

    batch: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    queries: int
    context: int

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def keys(self) -> int:
        return self.context + self.queries

    def matrices(self) -> dict[str, tuple[int, int]]:
        """The weights by name, [out, in] as checkpoints have them."""
        kv = self.kv_heads * self.head_size
        projections = {"q": (self.width, self.width), "k": (kv, self.width), "v": (kv, self.width), "o": (self.width, self.width)}
        return projections | {"gate": (self.hidden, self.width), "up": (self.hidden, self.width), "down": (self.width, self.hidden)}

    def label(self) -> str:
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        work = f"{'prefill' if self.queries > 1 else 'decode'} {self.batch}×{self.queries}{f' at {self.context}' if self.context else ''}"
        return f"{work}, {self.width}→{self.hidden} wide, {heads} heads {self.dtype}"


class TransformerBlock(Workload[TransformerBlockCase]):
    """Tolerance: the common one over 6·K terms, K = max(hidden, keys), not widened for 16 bit.

    ``REDUCTIONS``, each over at most K terms, follow one another; their errors add up as independent ones do: √6 times one. In 16 bit
    eighteen tensors are rounded on the way where nothing is fused (two norms; q, k, v; both rotations; scores, probabilities and their
    means; projection, residual; gate, silu, up, their product; down, the output), each by at most eps/2 of an element, eps/√12 in the
    mean square, independent: √18·eps/√12 = 1.2·eps, inside 2·eps. None grows on its way: scores are of order one, and norms forget the
    scale. An angle in float32, position·frequency, is off by less than eps/2 of itself. As frequencies fall geometrically from 1 to
    1/``BASE``, that is position·eps/(2·√(2·ln ``BASE``)) in the mean square over a head: 950·eps at position 8192, where √6·4·√K is 890.
    """

    name = "transformer_block"
    version = 1
    case_type = TransformerBlockCase
    variants = {
        "eager": "operator by operator, the framework's fused ones where it has them",
        "compiled": "the same through the framework's compiler",
    }

    def cases(self, suite: Suite) -> Iterable[TransformerBlockCase]:
        """Blocks of a 1.1-billion-parameter model and of an 8-billion one, prefill and decode in every dtype."""
        if suite in {"quick", "documents"}:
            return
        width, hidden, prefill, context = (2048, 5632, 512, 1024) if suite == "standard" else (4096, 14336, 2048, 8192)
        dtypes: tuple[DType, ...] = ("float32", "float16", "bfloat16")
        for dtype in dtypes:
            for queries, before in ((prefill, 0), (1, context)):
                yield TransformerBlockCase(
                    dtype=dtype, batch=1, width=width, heads=32, kv_heads=8, hidden=hidden, queries=queries, context=before
                )

    def inputs(self, case: TransformerBlockCase, rng: np.random.Generator) -> dict[str, Array]:
        """x; the weights; ``attention_norm`` and ``mlp_norm`` [width]; k_cache and v_cache [batch, kv_heads, context + queries, head_size].

        The last ``queries`` entries of the caches are for the new tokens and hold NaN, so that who does not write them is found out.
        """
        x = EMBEDDING * rng.standard_normal((case.batch, case.queries, case.width), dtype=np.float32)
        weights = {name: _matrix(shape, rng) for name, shape in case.matrices().items()}
        norms = {name: 1 + rng.standard_normal(case.width, dtype=np.float32) / 8 for name in ("attention_norm", "mlp_norm")}
        caches = {name: _cache(case, rng) for name in ("k_cache", "v_cache")}
        return {name: rounded(array, case.dtype) for name, array in ({"x": x} | weights | norms | caches).items()}

    def reference(self, case: TransformerBlockCase, inputs: Arrays) -> dict[str, Array]:
        if case.batch * case.queries * _parameters(case) <= FULL_REFERENCE or case.queries <= SAMPLED_TOKENS:
            return {"out": _forward(case, inputs, np.arange(case.queries))}
        between = np.random.default_rng(0).choice(case.queries, SAMPLED_TOKENS - 2, replace=False)
        rows = np.unique([0, case.queries - 1, *between])
        shape = (case.batch, case.queries, case.width)
        at = np.arange(math.prod(shape)).reshape(shape)[:, rows]
        return {"out": _forward(case, inputs, rows).reshape(-1), "out.at": at.reshape(-1)}

    def cost(self, case: TransformerBlockCase, variant: str) -> Cost:  # noqa: ARG002 - both do the same
        """FLOPs: 2 a weight and token, and attention's 4·head_size for every pair of query and key that see each other."""
        tokens, size = case.batch * case.queries, ITEMSIZE[case.dtype]
        pairs = case.batch * case.heads * (case.queries * case.context + case.queries * (case.queries + 1) // 2)
        cache = 2 * case.batch * case.kv_heads * case.keys * case.head_size
        traffic = size * (_parameters(case) + 2 * case.width + cache + 2 * tokens * case.width)
        scores = 3 * 4 * case.batch * case.heads * case.queries * case.keys
        activations = size * tokens * (8 * case.width + 4 * case.hidden)
        return Cost(
            flops=2 * _parameters(case) * tokens + 4 * case.head_size * pairs,
            bytes=traffic,
            footprint=2 * traffic + scores + activations,
            amounts={"tokens": tokens},
        )

    def tolerance(self, case: TransformerBlockCase) -> float:
        return reduction_tolerance(case.dtype, REDUCTIONS * max(case.hidden, case.keys))


def rotary_tables(case: TransformerBlockCase) -> tuple[Array, Array]:
    """(cosines, sines) of the new tokens' angles, float32 [queries, head_size / 2]: a model makes them once for all its blocks."""
    angles = _angles(case)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _angles(case: TransformerBlockCase) -> Array:
    """Float64 [queries, head_size / 2]."""
    frequencies = BASE ** (-np.arange(0, case.head_size, 2) / case.head_size)
    angles: Array = np.arange(case.context, case.keys)[:, None] * frequencies
    return angles


def _matrix(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    matrix: Array = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(shape[1]))
    return matrix


def _cache(case: TransformerBlockCase, rng: np.random.Generator) -> Array:
    cache = rng.standard_normal((case.batch, case.kv_heads, case.keys, case.head_size), dtype=np.float32)
    cache[:, :, case.context :] = np.nan
    return cache


def _parameters(case: TransformerBlockCase) -> int:
    """Those of the matrices."""
    return sum(math.prod(shape) for shape in case.matrices().values())


def _forward(case: TransformerBlockCase, inputs: Arrays, rows: Array) -> Array:
    """The outputs of the new tokens ``rows`` in float64, [batch, rows, width]."""
    x = inputs["x"].astype(np.float64)
    normal = _normalised(x, inputs["attention_norm"])
    angles = _angles(case)
    k_new, v_new = (_heads(_product(normal, inputs[name]), case.kv_heads) for name in "kv")
    k = np.concatenate((inputs["k_cache"][:, :, : case.context], _rotated(k_new, angles)), 2)
    v = np.concatenate((inputs["v_cache"][:, :, : case.context], v_new), 2)
    q = _rotated(_heads(_product(normal[:, rows], inputs["q"]), case.heads), angles[rows])
    sees = causal_mask(case.queries, case.keys)[rows]
    attended = np.empty_like(q)
    for head in range(case.heads):
        group = head // (case.heads // case.kv_heads)
        scores = np.where(sees, q[:, head] @ k[:, group].mT / math.sqrt(case.head_size), -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        attended[:, head] = weights @ v[:, group] / weights.sum(-1, keepdims=True)
    h = x[:, rows] + _product(attended.swapaxes(1, 2).reshape(case.batch, len(rows), case.width), inputs["o"])
    normal = _normalised(h, inputs["mlp_norm"])
    gate = _product(normal, inputs["gate"])
    out: Array = h + _product(gate / (1 + np.exp(-gate)) * _product(normal, inputs["up"]), inputs["down"])
    return out


def _product(x: Array, matrix: Array) -> Array:
    out: Array = x @ matrix.astype(np.float64).T
    return out


def _normalised(x: Array, scale: Array) -> Array:
    normal: Array = x / np.sqrt(np.mean(x**2, -1, keepdims=True) + NORM_EPSILON) * scale
    return normal


def _heads(x: Array, heads: int) -> Array:
    """[batch, tokens, heads · size] → [batch, heads, tokens, size]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _rotated(x: Array, angles: Array) -> Array:
    """[batch, heads, tokens, size], float64, each pair of a head's halves turned by its token's angle."""
    first, second = np.split(x, 2, -1)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


WORKLOAD = TransformerBlock()
