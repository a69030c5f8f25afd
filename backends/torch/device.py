"""PyTorch on the CPU, on Metal (MPS) and on CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from metalbench.backends.base import DeviceMemory, Diagnosis, Outputs, Unsupported
from metalbench.workloads.base import Array

LOW_PRECISION = (torch.float16, torch.bfloat16)


class TorchDevice:
    """``kind`` is "cpu", "mps" or "cuda"."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.torch_device = torch.device(kind)

    def put(self, array: Array, dtype: str | None = None) -> torch.Tensor:
        tensor = torch.tensor(array).to(self.torch_device, getattr(torch, dtype) if dtype else None)
        self.wait({})
        return tensor

    def get(self, array: torch.Tensor | Array) -> Array:
        if isinstance(array, np.ndarray):
            return array
        host = array.detach().float() if array.dtype in LOW_PRECISION else array.detach()
        numpy: Array = host.cpu().numpy()
        return numpy

    def wait(self, outputs: Outputs) -> None:  # noqa: ARG002 - PyTorch waits for a device, not for an array
        if self.kind == "mps":
            torch.mps.synchronize()
        elif self.kind == "cuda":
            torch.cuda.synchronize()  # on the CPU an operator returns when it is done

    def product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b

    def memory(self) -> DeviceMemory:
        if self.kind == "mps":
            live, held = torch.mps.current_allocated_memory(), torch.mps.driver_allocated_memory()
            return DeviceMemory(live=live, held=held, source="torch.mps counts what is live and held, no peak")
        if self.kind == "cuda":
            peak, live = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated()
            return DeviceMemory(live=live, peak=peak, held=torch.cuda.memory_reserved(), source="torch.cuda.max_memory_allocated")
        return DeviceMemory(source="PyTorch counts no memory on the CPU")

    def reset_peak(self) -> None:
        if self.kind == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def release(self) -> None:
        if self.kind == "mps":
            torch.mps.empty_cache()
        elif self.kind == "cuda":
            torch.cuda.empty_cache()

    def device_spans(self, call: Callable[[], object], count: int) -> list[float]:
        """On CUDA only: Metal's events are unreliable in many releases (pytorch#162872)."""
        if self.kind != "cuda":
            return []
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for begin, end in events:
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1e6 for begin, end in events]

    def watch(self, call: Callable[[], object]) -> list[str]:
        """PyTorch warns of the first fallback in a process only, unless told otherwise; who reads warnings finds the operator named."""
        always = torch.is_warn_always_enabled()
        torch.set_warn_always(self.kind == "mps")
        try:
            call()
        finally:
            torch.set_warn_always(always)
        return []

    def facts(self) -> dict[str, str]:
        name = torch.cuda.get_device_name() if self.kind == "cuda" else self.kind
        threads = str(torch.get_num_threads())
        limit = {"working_set_limit": str(torch.mps.recommended_max_memory())} if self.kind == "mps" else {}
        return {
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "device": name,
            "threads": threads,
            "matmul_precision": torch.get_float32_matmul_precision(),
            **limit,
        }

    def diagnose(self, error: Exception) -> Diagnosis:
        text = str(error).lower()
        exhausted = ("out of memory", "can't allocate memory", "invalid buffer size")
        if isinstance(error, torch.OutOfMemoryError) or any(words in text for words in exhausted):
            return "oom"
        if isinstance(error, TypeError) and "mps framework doesn't support" not in text:
            return "failed"  # of Python's making, "unsupported operand" among them
        refused = (
            "not implemented",
            "not support",
            "unsupported",
            "doesn't support",
            "larger than currently supported",
            "could not run 'aten::",
        )
        return "unsupported" if isinstance(error, NotImplementedError) or any(words in text for words in refused) else "failed"


def open_device(kind: str) -> TorchDevice:
    """Raises Unsupported where PyTorch sees no such device: its symbols exist everywhere."""
    if kind == "mps" and not torch.backends.mps.is_available():
        raise Unsupported("PyTorch sees no Metal device: torch.backends.mps.is_available() is false")
    if kind == "cuda" and not torch.cuda.is_available():
        raise Unsupported("PyTorch sees no CUDA device: this build of torch may be for the CPU only")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    matmul: Any = torch.backends.cuda.matmul
    matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
    return TorchDevice(kind)
