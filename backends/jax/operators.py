"""One function of JAX for each operator that it has one for, and jax.vjp, under jit together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from metalbench.backends.base import Factory, Outputs, Step, Unsupported
from metalbench.backends.jax.device import JaxDevice
from metalbench.workloads._operators_inputs import BINS, LARGEST, LIMIT, MARGIN, REACH, REPEATS, SHIFT
from metalbench.workloads.base import Arrays
from metalbench.workloads.operators import OperatorsCase, differentiated, operands

OPERATORS: Mapping[str, Callable[..., jax.Array]] = {
    "add": jnp.add,
    "mul": jnp.multiply,
    "div": jnp.divide,
    "pow": jnp.power,
    "maximum": jnp.maximum,
    "where": jnp.where,
    "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt,
    "exp": jnp.exp,
    "log": jnp.log,
    "cos": jnp.cos,
    "erf": jax.lax.erf,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "floor": jnp.floor,
    "round": jnp.round,
    "clamp": lambda x: jnp.clip(x, -LIMIT, LIMIT),
    "signbit": jnp.signbit,
    "isnan": jnp.isnan,
    "bitwise_and": jnp.bitwise_and,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
    "sum": lambda x: jnp.sum(x, axis=-1),
    "mean": lambda x: jnp.mean(x, axis=-1),
    "var": lambda x: jnp.var(x, axis=-1),
    "amax": lambda x: jnp.max(x, axis=-1),
    "argmax": lambda x: jnp.argmax(x, axis=-1),
    "norm": lambda x: jnp.linalg.norm(x, axis=-1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=-1),
    "cumsum": lambda x: jnp.cumsum(x, axis=-1),
    "topk": lambda x: jax.lax.top_k(x, LARGEST)[0],
    "sort": jnp.sort,
    "gather": lambda x, index: jnp.take_along_axis(x, index, axis=1),
    "index_add": lambda x, index, y: x.at[index].add(y),
    "embedding": lambda weight, index: jnp.take(weight, index, axis=0),
    "one_hot": lambda index: jax.nn.one_hot(index, 256),
    "searchsorted": jnp.searchsorted,
    "histogram": lambda x: jnp.histogram(x, BINS, (-REACH, REACH))[0],
    "concat": lambda x, y: jnp.concatenate((x, y)),
    "flip": lambda x: jnp.flip(x, axis=1),
    "roll": lambda x: jnp.roll(x, SHIFT, axis=-1),
    "pad": lambda x: jnp.pad(x, MARGIN),
    "repeat_interleave": lambda x: jnp.repeat(x, REPEATS, axis=0),
    "tril": jnp.tril,
    "matmul": jnp.matmul,
    "conv1d": lambda x, weight: jax.lax.conv_general_dilated(x, weight, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
    "conv2d": lambda x, weight: jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    "conv_transpose2d": lambda x, weight: jax.lax.conv_transpose(x, weight, (2, 2), "SAME", transpose_kernel=True),
    "max_pool2d": lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
    "interpolate": lambda x: jax.image.resize(x, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], x.shape[3]), "bilinear"),
    "triangular_solve": lambda x, y: jax.scipy.linalg.solve_triangular(x, y, lower=True),
    "cholesky": jnp.linalg.cholesky,
    "inverse": jnp.linalg.inv,
}
#: Much of this JAX leaves to libraries of layers and losses, such as Flax and Optax.
LACKING: Mapping[str, str] = {
    "softshrink": "jax.nn has softshrink neither by this name nor by another",
    "linear": "jnp.matmul and an addition are two",
    "avg_pool2d": "jax.lax.reduce_window sums, and a division is another",
    "grid_sample": "jax.scipy.ndimage.map_coordinates takes one array without batch and channels",
    "layer_norm": "jax.nn.standardize neither scales nor shifts",
    "group_norm": "it is left to libraries of layers",
    "batch_norm": "it is left to libraries of layers",
    "cross_entropy": "it is left to libraries of losses",
    "mse_loss": "it is left to libraries of losses",
}


def native(device: JaxDevice, case: OperatorsCase, inputs: Arrays) -> Step:
    if case.operator in LACKING:
        raise Unsupported(f"JAX has no public function for {case.operator}: {LACKING[case.operator]}")
    function = OPERATORS[case.operator]
    given = {name: device.put(array, case.dtype if array.dtype.kind == "f" else None) for name, array in inputs.items()}
    names, derived = operands(case), differentiated(case)

    def forward(leaves: Outputs, given: Outputs) -> jax.Array:
        return function(*({**given, **leaves}[name] for name in names))

    @jax.jit
    def step(given: Outputs) -> Outputs:
        if not derived:
            return {"out": forward({}, given)}
        out, pull = jax.vjp(lambda leaves: forward(leaves, given), {name: given[name] for name in derived})
        (gradients,) = pull(given["cotangent"])
        return {"out": out, **{f"gradient.{name}": gradient for name, gradient in gradients.items()}}

    return lambda: step(given)


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
