"""jax.numpy.fft and jnp.matmul under jit."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Step, Unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads.base import Arrays
from metalbench.workloads.fft import NOT_NAIVE, FFTCase, dft_matrix


def native(device: JaxDevice, case: FFTCase, inputs: Arrays) -> Step:
    x = device.put(inputs["x"])
    axes = tuple(range(1, x.ndim))
    forward, inverse = (jnp.fft.rfftn, jnp.fft.irfftn) if case.kind == "real" else (jnp.fft.fftn, jnp.fft.ifftn)

    @jax.jit
    def transform(x: jax.Array) -> jax.Array:
        spectrum: jax.Array = forward(x, axes=axes)
        if case.direction == "forward":
            return spectrum
        back: jax.Array = inverse(spectrum, s=x.shape[1:], axes=axes)
        return back

    return lambda: {"out": transform(x)}


def naive(device: JaxDevice, case: FFTCase, inputs: Arrays) -> Step:
    if not case.has_product:
        raise Unsupported(NOT_NAIVE)
    x, matrix = device.put(inputs["x"]), device.put(dft_matrix(case.length))
    return lambda: {"naive": device.product(x, matrix)}


VARIANTS: Mapping[str, Factory] = {"native": native, "naive": naive}
DEFAULT = "native"
