"""TensorFlow on the CPU, on Metal and on CUDA."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from metalbench.backends.base import DeviceMemory, Diagnosis, Outputs, Unsupported
from metalbench.workloads.base import Array

FLOATING = {dtype.as_datatype_enum for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)}


class TensorflowDevice:
    """``kind`` is "cpu", "metal" or "cuda". On the latter two TensorFlow places by itself what has a kernel there."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "CPU:0" if kind == "cpu" else "GPU:0"

    def function(self, function: Callable[..., Any], *, jit: bool = False) -> Callable[..., Any]:
        """``tf.function``, through XLA where asked for and where the device has it: the Metal plug-in has not."""
        compiled: Callable[..., Any] = tf.function(function, jit_compile=(jit and self.kind != "metal") or None, autograph=False)
        return compiled

    def put(self, array: Array, dtype: str | None = None) -> tf.Tensor:
        with tf.device(self.name):
            tensor = tf.identity(tf.cast(tf.constant(array), dtype) if dtype else tf.constant(array))
        self.wait({})
        return tensor

    def get(self, array: tf.Tensor | Array) -> Array:
        if isinstance(array, np.ndarray):
            return array
        host: Array = np.asarray(array.numpy())  # by itself np.asarray refuses a bfloat16 that stands alone
        return host.astype(np.float32) if host.dtype.itemsize == 2 else host

    def wait(self, outputs: Outputs) -> None:  # noqa: ARG002 - TensorFlow waits for devices, not for a tensor
        if self.kind != "cpu":
            tf.test.experimental.sync_devices()  # on the CPU an operator returns when it is done, and this would cost 30 µs

    def product(self, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.linalg.matmul(a, b)

    def memory(self) -> DeviceMemory:
        if self.kind == "cpu":
            return DeviceMemory(source="TensorFlow counts no memory on the CPU")
        try:
            info = tf.config.experimental.get_memory_info(self.name)
        except (ValueError, tf.errors.OpError) as error:  # a pluggable device need not count
            return DeviceMemory(source=f"TensorFlow counts no memory on this device: {error}")
        return DeviceMemory(live=info["current"], peak=info["peak"], source="tf.config.experimental.get_memory_info")

    def reset_peak(self) -> None:
        if self.kind == "cpu":
            return
        with contextlib.suppress(ValueError, tf.errors.OpError):  # memory() says why there is no counter
            tf.config.experimental.reset_memory_stats(self.name)

    def release(self) -> None:
        pass  # TensorFlow gives nothing back before it ends

    def watch(self, call: Callable[[], object]) -> list[str]:
        """Operators on real or complex numbers that were placed on the CPU: what has no kernel on the device goes there silently.

        TensorFlow tells where it placed operators when it makes their kernels, so those that it keeps are dropped first.
        """
        if self.kind == "cpu":
            call()
            return []
        runtime = context.context()
        runtime.clear_kernel_cache()
        runtime.enable_run_metadata()
        try:
            call()
            graphs = runtime.export_run_metadata().partition_graphs
        finally:
            runtime.disable_run_metadata()
        placed = (node for graph in graphs for node in graph.node if node.op != "Const" and not node.op.startswith("_"))
        return list(dict.fromkeys(n.op for n in placed if "CPU" in n.device and any(a.type in FLOATING for a in n.attr.values())))

    def facts(self) -> dict[str, str]:
        versions = {"tensorflow": tf.__version__, "keras": keras.__version__, "numpy": np.__version__}
        return {**versions, "device": self.name, "tf32": str(tf.config.experimental.tensor_float_32_execution_enabled())}

    def diagnose(self, error: Exception) -> Diagnosis:
        if isinstance(error, tf.errors.ResourceExhaustedError):
            return "oom"
        refused = (
            "not supported",
            "unsupported",
            "no opkernel",
            "no registered",
            "could not find device",
            "not implemented",
            "could not satisfy",
            "not in list of allowed values",  # a dtype of an operator, before there is a node of it
        )
        if isinstance(error, tf.errors.UnimplementedError | NotImplementedError):
            return "unsupported"
        return "unsupported" if any(words in str(error).lower() for words in refused) else "failed"


def open_device(kind: str) -> TensorflowDevice:
    """Raises Unsupported where TensorFlow lists no GPU for a kind that needs one."""
    gpus = tf.config.list_physical_devices("GPU")
    if kind == "cpu":
        tf.config.set_visible_devices([], "GPU")
    elif not gpus:
        raise Unsupported(f"TensorFlow lists no GPU: the plug-in or the libraries for {kind} are missing")
    tf.config.set_soft_device_placement(True)  # what has no kernel on the device runs on the CPU, and watch() names it
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return TensorflowDevice(kind)
