"""MLX on the CPU, on Metal and on CUDA."""

from __future__ import annotations

import os
from importlib.metadata import version

import mlx.core as mx
import numpy as np

from metalbench.backends.base import DeviceMemory, Diagnosis, Outputs, Unsupported
from metalbench.workloads.base import Array


class MlxDevice:
    """``kind`` is "cpu", "metal" or "cuda"; the latter two are MLX's "gpu"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def put(self, array: Array, dtype: str | None = None) -> mx.array:
        out = mx.array(array) if dtype is None else mx.array(array).astype(getattr(mx, dtype))
        mx.eval(out)
        return out

    def get(self, array: mx.array) -> Array:
        host: Array = np.array(array.astype(mx.float32) if array.dtype in {mx.bfloat16, mx.float16} else array)
        return host

    def wait(self, outputs: Outputs) -> None:
        mx.eval(*outputs.values())

    def product(self, a: mx.array, b: mx.array) -> mx.array:
        return a @ b

    def memory(self) -> DeviceMemory:
        live, peak = mx.get_active_memory(), mx.get_peak_memory()
        return DeviceMemory(live=live, peak=peak, held=live + mx.get_cache_memory(), source="mx.get_peak_memory")

    def reset_peak(self) -> None:
        mx.reset_peak_memory()

    def release(self) -> None:
        mx.clear_cache()

    def facts(self) -> dict[str, str]:
        facts = {"mlx": version("mlx"), "numpy": np.__version__, "device": self.kind, "tf32": os.environ.get("MLX_ENABLE_TF32", "as built")}
        if self.kind != "cpu":
            info = mx.device_info() if hasattr(mx, "device_info") else mx.metal.device_info()  # where older releases have it
            facts["device"] = str(info.get("device_name", self.kind))
            if "max_recommended_working_set_size" in info:
                facts["working_set_limit"] = str(info["max_recommended_working_set_size"])
        return facts

    def diagnose(self, error: Exception) -> Diagnosis:
        text = str(error).lower()
        if isinstance(error, MemoryError) or any(words in text for words in ("malloc", "out of memory", "insufficient memory")):
            return "oom"
        refused = ("not implemented", "not supported", "not yet", "unsupported", "only supports", "must have type", "must promote to")
        return "unsupported" if isinstance(error, NotImplementedError) or any(words in text for words in refused) else "failed"


def open_device(kind: str) -> MlxDevice:
    """Raises Unsupported where this build of MLX has no such back-end or no device for it."""
    if kind == "metal" and not mx.metal.is_available():
        raise Unsupported("MLX sees no Metal device: mx.metal.is_available() is false")
    if kind == "cuda" and not mx.cuda.is_available():
        raise Unsupported("MLX sees no CUDA device: this build has no CUDA back-end, or there is no device")
    mx.set_default_device(mx.cpu if kind == "cpu" else mx.gpu)
    return MlxDevice(kind)
