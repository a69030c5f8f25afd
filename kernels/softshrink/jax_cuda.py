"""Softshrink in JAX on CUDA, in Pallas by way of Triton."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.experimental.pallas import triton

from metalbench.backends.base import Unsupported

ELEMENTS, WARPS = 2048, 4  #: of a program: the fastest of those tried on an H200

if not hasattr(triton, "CompilerParams"):
    raise Unsupported(f"the Pallas of JAX {jax.__version__} is too old for the kernel: it has no triton.CompilerParams")


@partial(jax.jit, static_argnames=("threshold", "interpret"))
def softshrink(x: jax.Array, threshold: float = 0.5, *, interpret: bool = False) -> jax.Array:
    """x in float32, float16 or bfloat16, of any shape → the same shape and dtype. ``threshold`` ≥ 0. Interpreted, it needs no GPU."""
    if not x.size:  # CUDA starts no empty grid
        return x

    def kernel(x_ref, y_ref) -> None:  # type: ignore[no-untyped-def]  # JAX has no public name for a Ref's type
        at = pallas.program_id(0) * ELEMENTS + jnp.arange(ELEMENTS)
        inside = at < x.size
        wide = triton.load(x_ref.at[at], mask=inside, other=0).astype(jnp.float32)
        shrunk = jnp.where(wide > threshold, wide - threshold, jnp.where(wide < -threshold, wide + threshold, wide * 0))  # · 0 keeps NaN
        triton.store(y_ref.at[at], shrunk.astype(x.dtype), mask=inside)

    flat: jax.Array = pallas.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((x.size,), x.dtype),
        grid=(pallas.cdiv(x.size, ELEMENTS),),
        compiler_params=triton.CompilerParams(num_warps=WARPS),
        interpret=interpret,
    )(x.reshape(-1))
    return flat.reshape(x.shape)
