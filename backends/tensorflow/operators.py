"""One function or layer of TensorFlow or Keras for each operator that they have one for, and tf.GradientTape, in a tf.function together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from metalbench.backends.base import Factory, Outputs, Step, Unsupported
from metalbench.backends.tensorflow.device import TensorflowDevice
from metalbench.workloads._operators_inputs import BINS, EPSILON, GROUPS, LARGEST, LIMIT, MARGIN, REACH, REPEATS, SHIFT, THRESHOLD
from metalbench.workloads.base import Arrays
from metalbench.workloads.operators import OperatorsCase, differentiated, operands

OPERATORS: Mapping[str, Callable[..., tf.Tensor]] = {
    "add": tf.math.add,
    "mul": tf.math.multiply,
    "div": tf.math.divide,
    "pow": tf.math.pow,
    "maximum": tf.math.maximum,
    "where": tf.where,
    "sqrt": tf.math.sqrt,
    "rsqrt": tf.math.rsqrt,
    "exp": tf.math.exp,
    "log": tf.math.log,
    "cos": tf.math.cos,
    "erf": tf.math.erf,
    "tanh": tf.math.tanh,
    "sigmoid": tf.math.sigmoid,
    "floor": tf.math.floor,
    "round": tf.math.round,
    "clamp": lambda x: tf.clip_by_value(x, -LIMIT, LIMIT),
    "signbit": keras.ops.signbit,
    "isnan": tf.math.is_nan,
    "bitwise_and": tf.bitwise.bitwise_and,
    "relu": tf.nn.relu,
    "silu": tf.nn.silu,
    "gelu": tf.nn.gelu,
    "softshrink": lambda x: keras.ops.soft_shrink(x, THRESHOLD),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "sum": lambda x: tf.math.reduce_sum(x, axis=-1),
    "mean": lambda x: tf.math.reduce_mean(x, axis=-1),
    "var": lambda x: tf.math.reduce_variance(x, axis=-1),
    "amax": lambda x: tf.math.reduce_max(x, axis=-1),
    "argmax": lambda x: tf.math.argmax(x, axis=-1),
    "norm": lambda x: tf.norm(x, axis=-1),
    "logsumexp": lambda x: tf.math.reduce_logsumexp(x, axis=-1),
    "cumsum": lambda x: tf.math.cumsum(x, axis=-1),
    "topk": lambda x: tf.math.top_k(x, LARGEST).values,
    "sort": tf.sort,
    "gather": lambda x, index: tf.gather(x, index, axis=1, batch_dims=1),
    "index_add": lambda x, index, y: tf.tensor_scatter_nd_add(x, index[:, None], y),
    "embedding": tf.nn.embedding_lookup,
    "one_hot": lambda index: tf.one_hot(index, 256),
    "searchsorted": tf.searchsorted,
    "histogram": lambda x: tf.histogram_fixed_width(x, tf.constant((-REACH, REACH), x.dtype), BINS),
    "concat": lambda x, y: tf.concat((x, y), axis=0),
    "flip": lambda x: tf.reverse(x, axis=(1,)),
    "roll": lambda x: tf.roll(x, SHIFT, axis=-1),
    "pad": lambda x: tf.pad(x, MARGIN),
    "repeat_interleave": lambda x: tf.repeat(x, REPEATS, axis=0),
    "tril": lambda x: tf.linalg.band_part(x, -1, 0),
    "matmul": tf.linalg.matmul,
    "conv1d": lambda x, weight: tf.nn.conv1d(x, weight, 1, "SAME"),
    "conv2d": lambda x, weight: tf.nn.conv2d(x, weight, 1, "SAME"),
    "conv_transpose2d": lambda x, weight: tf.nn.conv2d_transpose(
        x, weight, (x.shape[0], 2 * x.shape[1], 2 * x.shape[2], weight.shape[2]), 2
    ),
    "max_pool2d": lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"),
    "avg_pool2d": lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"),
    "interpolate": lambda x: tf.image.resize(x, (2 * x.shape[1], 2 * x.shape[2])),
    "layer_norm": lambda x, weight, bias: keras.ops.layer_normalization(x, weight, bias, epsilon=EPSILON),
    "batch_norm": lambda x, mean, variance, weight, bias: tf.nn.batch_normalization(x, mean, variance, bias, weight, EPSILON),
    "cross_entropy": lambda x, index: tf.nn.sparse_softmax_cross_entropy_with_logits(index, x),
    "mse_loss": lambda x, y: keras.losses.MeanSquaredError(dtype=x.dtype.name)(y, x),
    "triangular_solve": tf.linalg.triangular_solve,
    "cholesky": tf.linalg.cholesky,
    "inverse": tf.linalg.inv,
}
#: What Keras has layers for and no functions. The second axis of a weight is the output's.
LAYERS: Mapping[str, Callable[[tf.Tensor, str], keras.layers.Layer]] = {
    "linear": lambda weight, dtype: keras.layers.Dense(weight.shape[1], dtype=dtype),
    "group_norm": lambda weight, dtype: keras.layers.GroupNormalization(GROUPS, epsilon=EPSILON, dtype=dtype),  # noqa: ARG005 - it has as many as the image has channels
}
LACKING: Mapping[str, str] = {"grid_sample": "keras.ops.image.map_coordinates takes one array without batch and channels"}


def native(device: TensorflowDevice, case: OperatorsCase, inputs: Arrays) -> Step:
    if case.operator in LACKING:
        raise Unsupported(f"TensorFlow has no public function for {case.operator}: {LACKING[case.operator]}")
    given = {name: device.put(array, case.dtype if array.dtype.kind == "f" else None) for name, array in inputs.items()}
    function = OPERATORS[case.operator] if case.operator in OPERATORS else _layer(case, given["x"], given["weight"])
    names, derived = operands(case), differentiated(case)

    @device.function
    def step(given: Outputs) -> Outputs:
        leaves = {name: given[name] for name in derived}
        with tf.GradientTape() as tape:
            tape.watch(leaves)
            out = function(*(given[name] for name in names))
        if not derived:
            return {"out": out}
        gradients = tape.gradient(out, leaves, output_gradients=tf.cast(given["cotangent"], out.dtype))
        # that of rows taken is a list of rows; others give the whole table
        return {"out": out, **{f"gradient.{name}": tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}}

    return lambda: step(given)


def _layer(case: OperatorsCase, x: tf.Tensor, weight: tf.Tensor) -> Callable[..., tf.Tensor]:
    """The layer as a function of its parameters."""
    layer = LAYERS[case.operator](weight, case.dtype)
    layer.build(x.shape)
    return lambda x, weight, bias: layer.stateless_call((weight, bias), (), x)[0]


VARIANTS: Mapping[str, Factory] = {"native": native}
DEFAULT = "native"
