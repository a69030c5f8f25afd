"""What lora_step starts from: text with the statistics of plain text, frozen matrices as they are stored, and adapters."""

from __future__ import annotations

import math

import numpy as np

from metalbench.workloads.base import Array, Arrays, DType, rounded
from metalbench.workloads.int4_matmul import dequantize, pack_bytes, quantize
from metalbench.workloads.quantized_matmul import quantize_bytes

RANK = 8
GROUP = 64  #: weights that share a scale
PARTS = ("codes", "scales", "offsets")
SCALE_BITS = {"int8": 1, "int4": 4}  #: significant bits of a scale, so that every dtype holds a weight exactly (quantized_matmul)
COMPANY = 4  #: words that often follow a word


def text(rows: int, length: int, vocabulary: int, rng: np.random.Generator) -> Array:
    """Sequences of words, int32 [rows, length]: word r is as frequent as 1 / (r + 2.7) (Zipf's law in the form of Mandelbrot, 1953).

    Every other word on average is one of a few that the word before it keeps company with.
    """
    frequencies = 1 / (np.arange(vocabulary) + 2.7)
    frequencies /= frequencies.sum()
    company = rng.choice(vocabulary, (vocabulary, COMPANY), p=frequencies)
    words = rng.choice(vocabulary, (rows, length), p=frequencies)
    follows, which = rng.random(words.shape) < 0.5, rng.integers(COMPANY, size=words.shape)
    for place in range(1, length):
        words[:, place] = np.where(follows[:, place], company[words[:, place - 1], which[:, place]], words[:, place])
    return words.astype(np.int32)


def matrix(name: str, shape: tuple[int, int], base: str, dtype: DType, rng: np.random.Generator) -> dict[str, Array]:
    """The arrays that a frozen matrix [out, in] is given as."""
    whole = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(shape[1]))
    if base == "dense":
        return {name: rounded(whole, dtype)}
    arrays = (quantize_bytes if base == "int8" else quantize)(whole, GROUP, SCALE_BITS[base])
    return {f"{name}.{part}": array for part, array in zip(PARTS, arrays, strict=False)}


def parts(name: str, inputs: Arrays) -> list[Array]:
    """What a frozen matrix is stored as: itself; codes and scales of 8 bits; or codes, scales and offsets of 4."""
    return [inputs[name]] if name in inputs else [inputs[f"{name}.{part}"] for part in PARTS if f"{name}.{part}" in inputs]


def packed_parts(name: str, inputs: Arrays) -> list[Array]:
    """As ``parts``, with two codes of 4 bits in a byte, the even one in the low half, and scales and offsets [out, in / GROUP, 1]."""
    codes, *shared = parts(name, inputs)
    return [pack_bytes(codes) if len(shared) == 2 else codes, *(array[..., None] for array in shared)]


def whole(name: str, inputs: Arrays) -> Array:
    """The frozen array in float64."""
    codes, *shared = parts(name, inputs)
    if not shared:
        return codes.astype(np.float64)
    return dequantize(codes, shared[0], shared[1] if len(shared) == 2 else np.zeros_like(shared[0]))


def adapter(shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """A [RANK, in] as it starts, even in ±1/√in; B [out, RANK] such that what it adds is a third of what the frozen matrix gives."""
    if shape[0] == RANK:
        return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(math.sqrt(shape[1]))
    return 0.05 * rng.standard_normal(shape, dtype=np.float32)
