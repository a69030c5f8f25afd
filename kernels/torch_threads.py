"""Where PyTorch's own threads are found, for a kernel that PyTorch knows nothing of."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch

from metalbench.backends.base import Unsupported


@functools.cache
def parallel_for() -> int:
    """The address of ``at::parallel_for`` as a C function (torch/csrc/stable/c/shim.h). Raises Unsupported where PyTorch has none."""
    (own,) = (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")
    try:
        function = ctypes.CDLL(str(own)).torch_parallel_for
    except AttributeError:
        raise Unsupported(f"PyTorch {torch.__version__} lends its threads to no kernel: torch_parallel_for came with 2.10") from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0
