"""What a framework did instead of what it was asked is named: another device, another kernel."""

import numpy as np
import pytest
from support.cases import ACCELERATOR, CATALOG, attention, data, open_device

from metalbench.backends.base import EventDevice, Told, WatchedDevice

pytestmark = pytest.mark.skipif(bool(ACCELERATOR), reason="it is what the CPU has to tell")


def test_tensorflow_names_the_operators_that_it_placed_on_the_cpu():
    """Here everything is placed there; a device that claims to be another must say so, again in every cell of a process."""
    open_device("tensorflow")
    import tensorflow as tf

    from metalbench.backends.tensorflow.device import TensorflowDevice

    device = TensorflowDevice("metal")
    a = tf.ones((8, 8))
    compiled = tf.function(lambda x: tf.nn.softmax(tf.linalg.matmul(x, x)))
    for _ in range(2):
        assert set(device.watch(lambda: compiled(a))) == {"MatMul", "Softmax"}
        assert device.watch(lambda: tf.signal.fft(tf.cast(a, tf.complex64))) == ["Cast", "FFT"]
    assert device.watch(lambda: tf.range(3) + 1) == []  # counting is the host's work on any device


def test_a_cpu_has_nowhere_to_fall_back_from():
    device = open_device("tensorflow")
    assert isinstance(device, WatchedDevice)
    eye, called = device.put(np.eye(2, dtype=np.float32)), []
    assert device.watch(lambda: called.append(device.product(eye, eye))) == []
    assert called


def test_pytorch_repeats_its_warning_while_it_is_watched():
    """PyTorch's own switch, on a device that can fall back; off again afterwards, when calls are timed."""
    open_device("torch")
    import torch

    from metalbench.backends.torch.device import TorchDevice

    seen = []
    TorchDevice("mps").watch(lambda: seen.append(torch.is_warn_always_enabled()))
    assert (seen, torch.is_warn_always_enabled()) == ([True], False)


def test_pytorchs_fused_attention_says_which_kernel_it_chose():
    device = open_device("torch")
    from torch.nn.attention import SDPBackend, sdpa_kernel

    case = attention("float32", 4, 4, 64, 64, causal=True)
    build = CATALOG.implementation("torch", "attention").variants["fused"]
    chosen = build(device, case, data("attention", case)[0])
    assert isinstance(chosen, Told)
    assert chosen.ran == "flash attention"
    with sdpa_kernel([SDPBackend.MATH]):
        assert build(device, case, data("attention", case)[0]).ran == "math"


def test_jaxs_fused_attention_says_which_implementation_it_took():
    device = open_device("jax")
    case = attention("float32", 4, 4, 64, 64, causal=True)
    assert CATALOG.implementation("jax", "attention").variants["fused"](device, case, data("attention", case)[0]).ran == "xla"


def test_events_are_believed_on_cuda_only():
    device = open_device("torch")
    assert isinstance(device, EventDevice)
    assert device.device_spans(lambda: pytest.fail("nothing to time"), 3) == []
