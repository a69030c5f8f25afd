"""JAX on the CPU, on Metal and on CUDA."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import jax
import jax.numpy as jnp
import numpy as np

from metalbench.backends.base import DeviceMemory, Diagnosis, Outputs, Unsupported
from metalbench.workloads.base import Array

PLATFORMS = {"cpu": ["cpu"], "metal": ["METAL", "mps", "metal"], "cuda": ["cuda"]}  #: Metal's rival plug-ins each have a name of their own
PLUGINS = ("jax-metal", "jax-mps", "metaljax", "jax-metallib", "applejax")


class JaxDevice:
    """``kind`` is "cpu", "metal" or "cuda"; everything a step makes lives on that device."""

    def __init__(self, kind: str, device: jax.Device) -> None:
        self.kind = kind
        self.jax_device = device
        self._product = jax.jit(jnp.matmul)

    def put(self, array: Array, dtype: str | None = None) -> jax.Array:
        private = np.array(array)  # on the CPU JAX may keep the array it is given
        return jax.device_put(jnp.asarray(private, dtype), self.jax_device).block_until_ready()

    def get(self, array: jax.Array) -> Array:
        host = np.asarray(array)
        return host.astype(np.float32) if host.dtype.itemsize == 2 else host

    def wait(self, outputs: Outputs) -> None:
        for array in outputs.values():  # to take them apart as a tree would cost microseconds
            if not isinstance(array, np.ndarray):
                array.block_until_ready()

    def product(self, a: jax.Array, b: jax.Array) -> jax.Array:
        product: jax.Array = self._product(a, b)
        return product

    def memory(self) -> DeviceMemory:
        try:
            stats = self.jax_device.memory_stats()
        except jax.errors.JaxRuntimeError as error:  # a plug-in need not count
            return DeviceMemory(source=f"JAX counts no memory on {self.jax_device.platform}: {error}")
        if not stats:
            return DeviceMemory(source=f"JAX counts no memory on {self.jax_device.platform}")
        live, peak, held = stats.get("bytes_in_use"), stats.get("peak_bytes_in_use"), stats.get("pool_bytes")
        return DeviceMemory(live=live, peak=peak, held=held, source="memory_stats(): the process's peak, it can't be reset")

    def reset_peak(self) -> None:
        pass

    def release(self) -> None:
        jax.clear_caches()

    def facts(self) -> dict[str, str]:
        versions = {"jax": jax.__version__, "jaxlib": version("jaxlib"), "numpy": np.__version__}
        for plugin in PLUGINS if self.kind == "metal" else ():
            with suppress(PackageNotFoundError):
                versions[plugin] = version(plugin)
        return {**versions, "device": self.jax_device.device_kind, "matmul_precision": str(jax.config.jax_default_matmul_precision)}

    def diagnose(self, error: Exception) -> Diagnosis:
        text = str(error)
        if "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower():
            return "oom"
        refused = ("UNIMPLEMENTED", "not implemented", "not supported", "Unsupported", "failed to legalize")
        return "unsupported" if isinstance(error, NotImplementedError) or any(words in text for words in refused) else "failed"


def open_device(kind: str) -> JaxDevice:
    """Raises Unsupported where JAX has no such platform."""
    jax.config.update("jax_default_matmul_precision", "highest")
    asked = jax.config.jax_platforms
    if asked and "cpu" not in asked:
        jax.config.update("jax_platforms", f"{asked},cpu")  # beside the accelerator, for what is sent there on purpose
    chosen = os.environ.get("JAX_PLATFORMS", "")
    names = [chosen] if kind == "metal" and chosen in PLATFORMS[kind] else PLATFORMS[kind]
    reasons = []
    for name in names:
        try:
            device = jax.devices(name)[0]
        except RuntimeError as error:
            reasons.append(str(error))
            continue
        jax.config.update("jax_default_device", device)
        return JaxDevice(kind, device)
    raise Unsupported(f"JAX has no {kind} device: {'; '.join(reasons)}")
