"""What only a Mac can run, tested at its seams: the calls our adapters make there exist and bind, and real errors are told apart."""

import importlib
import inspect
import sys
import warnings

import numpy as np
import pytest
from support.cases import CATALOG, diagnosed, open_device

from metalbench.backends.base import Unsupported
from metalbench.harness.witness import Witness

METAL = {"torch": "mps", "jax": "metal", "mlx": "metal", "tensorflow": "metal"}
#: Framework, function and arguments of what adapters call on a Mac, or a Mac is asked about.
CALLS = [
    ("torch", "mps.synchronize", ()),
    ("torch", "mps.current_allocated_memory", ()),
    ("torch", "mps.driver_allocated_memory", ()),
    ("torch", "mps.recommended_max_memory", ()),
    ("torch", "mps.empty_cache", ()),
    ("torch", "mps.compile_shader", ("kernel void nothing() {}",)),
    ("torch", "backends.mps.is_available", ()),
    ("jax", "devices", ("METAL",)),
    ("jax", "clear_caches", ()),
    ("tensorflow", "config.list_physical_devices", ("GPU",)),
    ("tensorflow", "config.set_soft_device_placement", (False,)),
    ("tensorflow", "config.experimental.get_memory_info", ("GPU:0",)),
    ("tensorflow", "config.experimental.reset_memory_stats", ("GPU:0",)),
    ("tensorflow", "test.experimental.sync_devices", ()),
]
#: The functions of MLX have no signature to bind: they are called.
MLX_CALLS = [
    "metal.is_available",
    "device_info",
    "get_active_memory",
    "get_peak_memory",
    "get_cache_memory",
    "reset_peak_memory",
    "clear_cache",
]


def installed(framework):
    open_device(framework)
    return importlib.import_module({"mlx": "mlx.core"}.get(framework, framework))


def adapter(framework):
    open_device(framework)
    return importlib.import_module(f"metalbench.backends.{framework}.device")


def found(framework, path):
    thing = installed(framework)
    for name in path.split("."):
        thing = getattr(thing, name)
    return thing


@pytest.fixture
def off_the_mac():
    if sys.platform == "darwin":
        pytest.skip("what the absence of Metal does is seen on other systems")


@pytest.mark.parametrize(("framework", "path", "arguments"), CALLS)
def test_what_is_called_on_a_mac_takes_the_arguments_it_gets(framework, path, arguments):
    inspect.signature(found(framework, path)).bind(*arguments)


@pytest.mark.parametrize("framework", METAL)
def test_without_its_device_an_adapter_says_so(framework, off_the_mac):
    open_device(framework)
    with pytest.raises(Unsupported, match=r"(?i)metal"):
        CATALOG.open_device(framework, METAL[framework])


@pytest.mark.parametrize(("method", "arguments"), [("wait", ({},)), ("memory", ()), ("release", ())])
def test_torch_calls_the_metal_runtime(method, arguments, off_the_mac):
    device = adapter("torch").TorchDevice("mps")
    with pytest.raises(RuntimeError, match=r"Cannot execute \w+\(\) without MPS backend"):
        getattr(device, method)(*arguments)


def test_torch_refuses_a_tensor_for_metal_in_words_it_knows(off_the_mac):
    torch = installed("torch")
    with pytest.raises(NotImplementedError, match="Could not run 'aten::") as raised:
        torch.zeros(1, device="mps")
    assert diagnosed("torch", raised.value) == "unsupported"


def test_torch_reports_what_metal_counts_and_no_peak(monkeypatch):
    device = adapter("torch").TorchDevice("mps")
    monkeypatch.setattr("torch.mps.current_allocated_memory", lambda: 3)
    monkeypatch.setattr("torch.mps.driver_allocated_memory", lambda: 5)
    device.reset_peak()
    memory = device.memory()
    assert (memory.live, memory.peak, memory.held) == (3, None, 5)


def test_torch_has_no_peak_for_metal_yet():
    """When it has one, the adapter must use it."""
    assert not hasattr(found("torch", "mps"), "max_memory_allocated")


def test_warnings_that_torch_did_something_else_are_read():
    """Autocast disables itself for a dtype that it lacks, on any machine; the other two texts are what PyTorch 2.13 says."""
    torch = installed("torch")
    with Witness(CATALOG.frameworks.values()) as witness:
        warnings.warn(FALLBACK, UserWarning, stacklevel=1)
    assert witness.verdict() == ("fallback", "ran on the CPU instead: aten::linalg_svd")
    with Witness(CATALOG.frameworks.values()) as witness:
        warnings.warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", UserWarning, stacklevel=1)
        torch.autocast("mps", dtype=torch.float32)
    status, reason = witness.verdict()
    assert status == "failed"
    assert "torch.cuda.amp.GradScaler is enabled" in reason
    assert "In MPS autocast, but the target dtype" in reason


@pytest.mark.parametrize(("kind", "count"), [("mps", 2), ("cpu", 0)])
def test_torch_warns_of_every_fallback_on_metal(kind, count):
    """A fallback is warned of once in a process, for all operators together; so is another feature, which stands in for it here."""
    torch = installed("torch")
    device = adapter("torch").TorchDevice(kind)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.nested.nested_tensor([torch.zeros(2)])
        caught.clear()
        for _ in range(2):
            device.watch(lambda: torch.nested.nested_tensor([torch.zeros(2)]))
    assert len(caught) == count
    assert not torch.is_warn_always_enabled()


@pytest.mark.parametrize("path", MLX_CALLS)
def test_mlx_answers_without_arguments(path):
    found("mlx", path)()


def test_mlx_counts_memory_in_the_same_way_on_every_device():
    device = adapter("mlx").MlxDevice("metal")
    device.release()
    device.reset_peak()
    kept = device.put(np.ones(1 << 16, dtype=np.float32))
    memory = device.memory()
    assert memory.live >= kept.nbytes
    assert memory.peak >= memory.live
    assert memory.held >= memory.live
    assert set(device.facts()) == {"mlx", "numpy", "device", "tf32"}


@pytest.mark.parametrize("mask", [None, "causal"])
def test_mlx_has_the_fused_attention_that_is_asked_for(mask):
    mx = installed("mlx")
    q, k = mx.ones((1, 4, 3, 64)), mx.ones((1, 2, 5, 64))  # four query heads share two key heads
    assert mx.fast.scaled_dot_product_attention(q, k, k, scale=0.125, mask=mask).shape == q.shape


def test_mlx_has_no_gpu_to_fall_back_to(off_the_mac):
    mx = installed("mlx")
    if mx.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match="Cannot set gpu device without gpu backend"):
        mx.set_default_device(mx.gpu)


def test_jax_looks_for_the_platform_that_apple_registers(monkeypatch):
    """Platforms are compared letter by letter, and Apple's plug-in registers "METAL"."""
    module, asked = adapter("jax"), []

    def devices(platform):
        asked.append(platform)
        raise RuntimeError(f"Unknown backend {platform}. Available backends are ['cpu']")

    monkeypatch.setattr("jax.devices", devices)
    with pytest.raises(Unsupported, match="Unknown backend"):
        module.open_device("metal")
    assert "METAL" in asked


class Counting:
    platform = "METAL"

    def __init__(self, stats):
        self.memory_stats = lambda: stats


def test_jax_reports_the_counters_that_a_plug_in_has():
    jax = adapter("jax")
    assert installed("jax").devices("cpu")[0].memory_stats() is None
    memory = jax.JaxDevice("metal", Counting({"bytes_in_use": 3, "peak_bytes_in_use": 7, "bytes_limit": 9, "pool_bytes": 5})).memory()
    assert (memory.live, memory.peak, memory.held) == (3, 7, 5)
    for nothing in (None, {}):
        memory = jax.JaxDevice("metal", Counting(nothing)).memory()
        assert (memory.live, memory.peak, memory.held) == (None, None, None)
        assert "METAL" in memory.source


def test_tensorflow_counts_no_memory_where_the_device_does_not(off_the_mac):
    device = adapter("tensorflow").TensorflowDevice("metal")
    if installed("tensorflow").config.list_physical_devices("GPU"):
        pytest.skip("there is a GPU, and it may count")
    device.reset_peak()
    memory = device.memory()
    assert (memory.live, memory.peak) == (None, None)
    assert "GPU:0" in memory.source


def test_tensorflow_waits_for_devices_even_if_there_is_none():
    adapter("tensorflow").TensorflowDevice("metal").wait({})


def test_tensorflow_asks_no_compiler_of_the_metal_plug_in():
    module = adapter("tensorflow")
    wanted = {kind: module.TensorflowDevice(kind).function(abs, jit=True).get_concrete_function(1.0) for kind in ("cpu", "metal")}
    compiled = {kind: function.function_def.attr["_XlaMustCompile"].b for kind, function in wanted.items()}
    assert compiled == {"cpu": True, "metal": False}


def test_tensorflow_says_in_words_that_are_known_that_it_has_no_kernel():
    """There is no product of bytes on the CPU either: eager and in a function, TensorFlow's own errors."""
    tf = installed("tensorflow")
    byte = tf.constant([[1]], tf.uint8)

    def product():
        return tf.raw_ops.MatMul(a=byte, b=byte)

    for call, words in ((product, "Could not find device for node"), (tf.function(product, autograph=False), "No OpKernel was registered")):
        with pytest.raises(tf.errors.OpError, match=words) as raised:
            call()
        assert diagnosed("tensorflow", raised.value) == "unsupported"


#: What frameworks really said, as (framework, class, text, diagnosis). Where a text comes from a release's own strings, the
#: numbers in it are ours.
FALLBACK = (  # PyTorch 2.13 with PYTORCH_ENABLE_MPS_FALLBACK=1, and for a few operators without it
    "The operator 'aten::linalg_svd' is not currently supported on the MPS backend and will fall back to run on the CPU."
    " This may have performance implications."
)
NOT_IMPLEMENTED = (  # PyTorch 2.6 to 2.13
    "The operator 'aten::mode' is not currently implemented for the MPS device. If you want this op to be considered for addition please"
    " comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that resulted in missing op as well as commit hash"
    " 2236df1770800ffea5697b11b0bb0d910b2e59e1. As a temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1`"
    " to use the CPU as a fallback for this op. WARNING: this will be slower than running natively on MPS."
)
NOT_IMPLEMENTED_BEFORE = (  # pytorch/pytorch#136148, PyTorch 2.0
    "The operator 'aten::isin.Tensor_Tensor_out' is not currently implemented for the MPS device. If you want this op to be added in"
    " priority during the prototype phase of this feature, please comment on https://github.com/pytorch/pytorch/issues/77764. As a"
    " temporary fix, you can set the environment variable `PYTORCH_ENABLE_MPS_FALLBACK=1` to use the CPU as a fallback for this op."
    " WARNING: this will be slower than running natively on MPS."
)
MPS_OOM = (  # pytorch/pytorch#130112
    "MPS backend out of memory (MPS allocated: 5.50 GB, other allocations: 14.76 GB, max allowed: 20.40 GB). Tried to allocate 147.24 MB"
    " on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure)."
)
MPS_OOM_UNLIMITED = (  # the same with that ratio set to 0, from PyTorch 2.13
    "MPS backend out of memory (MPS allocated: 5.50 GiB, other allocations: 14.76 GiB). Tried to allocate 147.24 MiB on shared pool."
)
MPS_TOO_MANY = (  # pytorch/pytorch#141909
    "Output size of the matrix multiplication is larger than currently supported by the MPS backend: 72250,72250, needs to be less than"
    " 2**32 elements"
)
MPS_FLOAT64 = (  # PyTorch 2.13, a TypeError there
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64. Please use float32 instead."
)
MLX_BUFFER = (  # lmstudio-ai/lmstudio-bug-tracker#2240
    "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the maximum allowed buffer size of 30150672384 bytes."
)
MLX_FFT = (  # MLX 0.32.4
    "[FFT] GPU FFT is not supported for size 33554432, the largest supported size is 16777216. Run the FFT on the CPU stream instead."
)
MLX_COMMAND = "[METAL] Command buffer execution failed: "
TF_OOM = (  # ddangelov/Top2Vec#232, the Metal plug-in's allocator
    "OOM when allocating tensor with shape[114389,320] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator Simple"
    " allocator [[{{node EncoderDNN/EmbeddingLookup}}]]"
)
TF_NO_KERNEL = (  # mrdbourke/tensorflow-deep-learning#298, the Metal plug-in
    "No registered 'RngReadAndSkip' OpKernel for 'GPU' devices compatible with node {{node RngReadAndSkip}}\n"
    "\t.  Registered:  device='CPU'\n [Op:RngReadAndSkip]"
)
TF_NO_PLACE = (  # tensorflow/tensorflow#53026, the Metal plug-in, in a function
    "Cannot assign a device for operation loader/GeneratorDataset: Could not satisfy explicit device specification '/device:GPU:0' because"
    " no supported kernel for GPU devices is available."
)
TF_NO_DEVICE = (  # TensorFlow 2.21, eager with soft placement off
    "Could not satisfy device specification '/job:localhost/replica:0/task:0/device:GPU:0'. enable_soft_placement=0. Supported device"
    " types [CPU]. All available devices [/job:localhost/replica:0/task:0/device:CPU:0, /job:localhost/replica:0/task:0/device:GPU:0]."
)
#: XLA's error, jax-metal first. The class goes by several names.
XLA = [
    ("UNIMPLEMENTED: default_memory_space is not supported.", "unsupported"),  # jax-ml/jax#27062
    ("UNKNOWN:XLB/src/base.py:209:0: error: failed to legalize operation 'mhlo.custom_call'", "unsupported"),  # jax-ml/jax#16287
    ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 7406166528 bytes.", "oom"),  # google-deepmind/alphafold#1023
    ("RESOURCE_EXHAUSTED: Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0", "oom"),  # ai-models-graphcast#18
    ("RESOURCE_EXHAUSTED: Out of memory allocating 70368744177664 bytes.", "oom"),  # JAX 0.10
    ("INTERNAL: Failed to execute XLA Runtime executable: run time error", "failed"),  # jaxleyverse/jaxley#53
]
ERRORS = [
    ("torch", RuntimeError, MPS_OOM, "oom"),
    ("torch", RuntimeError, MPS_OOM_UNLIMITED, "oom"),
    ("torch", NotImplementedError, NOT_IMPLEMENTED, "unsupported"),
    ("torch", NotImplementedError, NOT_IMPLEMENTED_BEFORE, "unsupported"),
    ("torch", RuntimeError, "MPSGaph does not support tensor dims larger than INT_MAX", "unsupported"),  # pytorch/pytorch#164415
    ("torch", TypeError, "unsupported operand type(s) for +: 'int' and 'str'", "failed"),
    *(("jax", "errors.JaxRuntimeError", text, diagnosis) for text, diagnosis in XLA),
    ("mlx", RuntimeError, MLX_BUFFER, "oom"),
    ("mlx", RuntimeError, "[metal::malloc] Resource limit (499000) exceeded.", "oom"),  # MLX 0.32.4
    ("mlx", RuntimeError, "[malloc_or_wait] Unable to allocate 9663676416 bytes.", "oom"),  # ml-explore/mlx#63
    ("mlx", RuntimeError, "[malloc] Unable to allocate 9663676416 bytes.", "oom"),  # MLX 0.32.4
    ("mlx", RuntimeError, MLX_COMMAND + "Invalid Resource (00000009:kIOGPUCommandBufferCallbackErrorInvalidResource)", "failed"),
    ("mlx", RuntimeError, MLX_FFT, "unsupported"),
    ("tensorflow", "errors.ResourceExhaustedError", TF_OOM, "oom"),
    ("torch", RuntimeError, "Invalid buffer size: 19.45 GB", "oom"),  # pytorch/pytorch#141909
    ("torch", RuntimeError, MPS_TOO_MANY, "unsupported"),
    ("torch", TypeError, MPS_FLOAT64, "unsupported"),
    ("mlx", RuntimeError, MLX_COMMAND + "Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)", "oom"),  # mlx#479
    ("tensorflow", "errors.NotFoundError", TF_NO_KERNEL, "unsupported"),
    ("tensorflow", "errors.InvalidArgumentError", TF_NO_PLACE, "unsupported"),
    ("tensorflow", "errors.InvalidArgumentError", TF_NO_DEVICE, "unsupported"),
]


def made(framework, kind, text):
    """An exception of the framework's own class."""
    if isinstance(kind, type):
        return kind(text)
    own = found(framework, kind)
    return own(None, None, text) if framework == "tensorflow" else own(text)


@pytest.mark.parametrize(("framework", "kind", "text", "diagnosis"), ERRORS)
def test_a_real_error_is_told_apart(framework, kind, text, diagnosis):
    open_device(framework)
    assert diagnosed(framework, made(framework, kind, text)) == diagnosis
