"""Autoregressive decode through an attention layer: one token after the other, each attending to itself and to all before it.

For token t with hidden state x_t: q, k, v = x_t·Wq, x_t·Wk, x_t·Wv, split into heads; k and v join those of the tokens before it;
out_t = concat_heads(softmax(q·Kᵀ / √head_size)·V)·Wo. The hidden states are given, so that no sampling decides the work, but a token is
begun as if the one before it had to be known: one step of the framework each, never a causal attention over all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from metalbench.workloads.base import (
    ITEMSIZE,
    Array,
    Arrays,
    Case,
    Check,
    Cost,
    DType,
    Suite,
    Workload,
    compared,
    reduction_tolerance,
    rounded,
)


class KvCacheCase(Case, frozen=True, kw_only=True):
    """One call decodes ``tokens`` tokens of ``batch`` sequences from an empty cache. ``heads`` is a multiple of ``kv_heads``.

    ``capacity`` is the length for which a cache is allocated beforehand, as a server does for the longest text that it takes. A cache
    that is written in place can't hold more tokens; to try is an error.
    """

    batch: int
    heads: int
    kv_heads: int
    head_size: int
    tokens: int
    capacity: int

    @property
    def width(self) -> int:
        """Of the hidden states."""
        return self.heads * self.head_size

    def cache_shape(self) -> tuple[int, int, int, int]:
        """Of the preallocated keys, and of the values."""
        return self.batch, self.kv_heads, self.capacity, self.head_size

    def label(self) -> str:
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads}/{self.kv_heads}"
        return f"{self.batch}×{heads}×{self.tokens}:{self.capacity}×{self.head_size} {self.dtype}"


def require_room(position: int, capacity: int) -> None:
    """Raises IndexError where a cache has no such position. No framework does: it writes over the last one, or nothing at all."""
    if position >= capacity:
        raise IndexError(f"position {position} is past the end of a KV cache preallocated for {capacity} tokens")


class KvCache(Workload[KvCacheCase]):
    """Every token has to be right by itself: later ones are means of more values and so smaller, and one would hide in the norm of all.

    Tolerance: four products over ``width`` terms and an attention over max(tokens, head_size) meet in a token, each with the common
    error. Scores are of order one, so that a relative error of q or k moves the probabilities, and with them the result, by as much as
    one of v does. The errors are independent, and add up in squares.
    """

    name = "kv_cache"
    version = 1
    case_type = KvCacheCase
    variants = {
        "in_place": "keys and values are written into a cache allocated beforehand",
        "concatenate": "keys and values are appended to the cache, which is a new tensor for every token",
        "recompute": "no cache: for every token the keys and values of all tokens so far are computed anew",
    }

    def cases(self, suite: Suite) -> Iterable[KvCacheCase]:
        """Lengths that span a factor of four, to see how time grows; where shapes are compiled, each length is a program of its own.

        None in ``quick``.
        """
        if suite == "quick":
            return []
        if suite == "documents":
            return [_case("float32", 16, 2, 2, 64, tokens, 128) for tokens in (32, 64, 128)]
        batch, heads, kv_heads, size, longest = (8, 16, 16, 64, 128) if suite == "standard" else (16, 32, 8, 128, 256)
        lengths = [_case("float32", batch, heads, kv_heads, size, tokens, longest) for tokens in (longest // 4, longest // 2, longest)]
        low: tuple[DType, ...] = ("float16", "bfloat16")
        return lengths + [_case(dtype, batch, heads, kv_heads, size, longest, longest) for dtype in low]

    def inputs(self, case: KvCacheCase, rng: np.random.Generator) -> dict[str, Array]:
        """x [batch, tokens, width] and weights [in, out] that keep its variance: wq and wo [width, width], wk and wv [width, kv width]."""
        kv_width = case.kv_heads * case.head_size
        x = rng.standard_normal((case.batch, case.tokens, case.width), dtype=np.float32)
        shapes = {
            "wq": (case.width, case.width),
            "wk": (case.width, kv_width),
            "wv": (case.width, kv_width),
            "wo": (case.width, case.width),
        }
        weights = {name: rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(case.width)) for name, shape in shapes.items()}
        return {name: rounded(array, case.dtype) for name, array in {"x": x, **weights}.items()}

    def reference(self, case: KvCacheCase, inputs: Arrays) -> dict[str, Array]:
        """out [batch, tokens, width], all tokens at once: row t of a causal attention is what decoding finds for token t."""
        later = np.triu(np.ones((case.tokens, case.tokens), bool), 1)
        x, wq, wk, wv, wo = (inputs[name].astype(np.float64) for name in ("x", "wq", "wk", "wv", "wo"))
        out = np.empty(x.shape)
        for sequence, hidden in enumerate(x):
            q, k, v = (_split(hidden @ weight, case.head_size) for weight in (wq, wk, wv))
            k, v = (np.repeat(array, case.heads // case.kv_heads, axis=0) for array in (k, v))
            scores = np.where(later, -np.inf, q @ k.swapaxes(1, 2) / math.sqrt(case.head_size))
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            attended = weights @ v / weights.sum(-1, keepdims=True)
            out[sequence] = attended.swapaxes(0, 1).reshape(case.tokens, case.width) @ wo
        return {"out": out}

    def cost(self, case: KvCacheCase, variant: str) -> Cost:
        """FLOPs of decoding with a cache, however it is done: 2 a weight and token, and 4·d for every pair of query and key."""
        size, tokens = ITEMSIZE[case.dtype], case.batch * case.tokens
        weights = 2 * case.width * (case.width + case.kv_heads * case.head_size)
        pairs = case.batch * case.heads * case.tokens * (case.tokens + 1) // 2
        traffic = size * (weights + 2 * tokens * case.width)
        position = size * case.batch * case.kv_heads * case.head_size  # of keys, and as much of values
        cached = 2 * position * (case.capacity if variant == "in_place" else 2 * case.tokens)  # the others have an old and a new one
        return Cost(
            flops=2 * tokens * weights + 4 * pairs * case.head_size,
            bytes=traffic,
            footprint=2 * traffic + cached,
            amounts={"tokens": tokens},
        )

    def tolerance(self, case: KvCacheCase) -> float:
        product = reduction_tolerance(case.dtype, case.width)
        attention = reduction_tolerance(case.dtype, max(case.tokens, case.head_size))
        return math.sqrt(4 * product**2 + attention**2)

    def check(self, case: KvCacheCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:  # noqa: ARG002 - the contract's arguments
        """Each token against its reference; the worst one counts, and is named."""
        (out,) = outputs
        if out["out"].shape != reference["out"].shape:
            shapes = f"out is {out['out'].shape}, not {reference['out'].shape}"
            return Check(ok=False, error=math.inf, tolerance=self.tolerance(case), detail=shapes)
        return compared(_by_token(out), _by_token(reference), self.tolerance(case))


def _case(dtype: DType, batch: int, heads: int, kv_heads: int, head_size: int, tokens: int, capacity: int) -> KvCacheCase:
    return KvCacheCase(dtype=dtype, batch=batch, heads=heads, kv_heads=kv_heads, head_size=head_size, tokens=tokens, capacity=capacity)


def _split(rows: Array, head_size: int) -> Array:
    """[tokens, heads · head_size] as [heads, tokens, head_size]."""
    return rows.reshape(len(rows), -1, head_size).swapaxes(0, 1)


def _by_token(arrays: Arrays) -> dict[str, Array]:
    return {f"token {position}": arrays["out"][:, position] for position in range(arrays["out"].shape[1])}


WORKLOAD = KvCache()
