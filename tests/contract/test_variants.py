"""Every workload × backend × variant × dtype gives the right answer, or says why it can't."""

import numpy as np
import pytest
from support.cases import (
    ACCELERATOR,
    CATALOG,
    DTYPES,
    FRAMEWORKS,
    SLOW_TO_BUILD,
    TELLING,
    THOROUGH,
    attention,
    block,
    custom_op,
    data,
    dispatch,
    fft,
    int4,
    open_device,
    quantized,
    roofline,
    verdict,
)

from metalbench.backends.base import StatefulStep, Unsupported

WORKLOADS = list(TELLING)
COMBINATIONS = [
    pytest.param(framework, workload, case, variant, id=f"{framework}-{workload}-{variant}-{case.label()}")
    for framework in FRAMEWORKS
    for workload in WORKLOADS
    for variant in CATALOG.workload(workload).variants
    for case in TELLING[workload] + (THOROUGH[workload] if variant not in SLOW_TO_BUILD else [])
    if variant != "naive" or case.has_product
]

#: What a framework can't do on the CPU, in its own words or in ours where it has no operator at all; last a word of the case, or any.
UNSUPPORTED = {
    ("jax", "int4_matmul", "native", None): "no operator",
    ("tensorflow", "int4_matmul", "native", None): "no operator",
    ("torch", "quantized_matmul", "native", "lookup4"): "no operator",
    ("torch", "quantized_matmul", "uint4", None): "not implemented",
    ("jax", "quantized_matmul", "native", None): "no operator",
    ("mlx", "quantized_matmul", "native", "lookup4"): "no operator",
    ("mlx", "quantized_matmul", "uint4", None): "no type of 4 bits",
    ("tensorflow", "quantized_matmul", "native", None): "no operator",
    **{
        (framework, "quantized_matmul", "uint4", scheme): "linear 4-bit codes"
        for framework in ("jax", "tensorflow")
        for scheme in ("int8", "lookup4")
    },
    **{("tensorflow", own, "kernel", None): "no hand-written kernel" for own in ("int4_matmul", "custom_op")},
    ("jax", "attention", "fused", "float16"): "is not supported by dot_general on CPU",
    ("jax", "transformer_block", "compiled", "float16"): "is not supported by dot_general on CPU",
    ("jax", "custom_op", "builtin", None): "no operator",
    **{(framework, "custom_op", "fallback", None): "nothing to fall back from" for framework in FRAMEWORKS},
}
#: Releases before which that was otherwise.
SINCE = {("jax", workload, variant, "float16"): (0, 6) for workload, variant in (("attention", "fused"), ("transformer_block", "compiled"))}
#: Defects of frameworks on the CPU, named in the README: MLX's product by packed weights, and TensorFlow's einsum, on which Keras's
#: attention is built, accumulate in 16 bit. Their error grows with the length of the sum, so that short ones may pass.
#: TensorFlow's product in bfloat16 cuts off what it should round: twice the error, too much where products follow one another.
DEFECTS = {
    ("mlx", "int4_matmul", "native"): [int4(dtype, 1, 64) for dtype in ("float16", "bfloat16")],
    ("mlx", "quantized_matmul", "native"): [quantized(dtype, "int8", 128) for dtype in ("float16", "bfloat16")],
    ("tensorflow", "attention", "fused"): [attention(dtype, 4, 1, 16, 512, causal=False) for dtype in ("float16", "bfloat16")],
    ("tensorflow", "transformer_block", "eager"): [block("bfloat16", 1, 300)],
}


@pytest.mark.parametrize(("framework", "workload", "case", "variant"), COMBINATIONS)
def test_a_variant_is_right_or_says_why_not(framework, workload, case, variant):
    device = open_device(framework)
    if ACCELERATOR:  # what it can't do is not written down here, but must be said
        try:
            check = verdict(framework, workload, case, variant)
        except Exception as error:
            if not isinstance(error, Unsupported) and device.diagnose(error) != "unsupported":
                raise
            return
        assert check.ok, check
        return
    words = (None, *case.parameters().values())
    where = next((key for word in words if (key := (framework, workload, variant, word)) in UNSUPPORTED), None)
    release = tuple(map(int, device.facts()[framework].split(".")[:2])) if where in SINCE else ()
    reason = UNSUPPORTED[where] if where is not None and release >= SINCE.get(where, ()) else None
    if reason is not None:
        with pytest.raises(Exception, match=reason) as raised:
            verdict(framework, workload, case, variant)
        assert isinstance(raised.value, Unsupported) or device.diagnose(raised.value) == "unsupported"
        return
    check = verdict(framework, workload, case, variant)
    defective = (framework, workload, variant) in DEFECTS and case.dtype != "float32"
    assert check.ok or defective, check


@pytest.mark.skipif(bool(ACCELERATOR), reason="they are defects on the CPU")
@pytest.mark.parametrize(
    ("framework", "workload", "variant", "case"), [(*where, case) for where, cases in DEFECTS.items() for case in cases]
)
def test_a_defect_of_a_framework_is_shown_as_wrong(framework, workload, variant, case):
    check = verdict(framework, workload, case, variant)
    assert not check.ok, f"{framework} has mended this: take it off the list here and out of the README"
    assert check.error < 1  # wrong by its precision, not by our packing


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_backend_answers_for_every_variant_and_names_its_own_choice(framework, workload):
    open_device(framework)
    implementation = CATALOG.implementation(framework, workload)
    assert list(implementation.variants) == list(CATALOG.workload(workload).variants)
    assert implementation.default in implementation.variants


def test_the_quantization_error_is_reported_beside_the_error():
    check = verdict("torch", "int4_matmul", TELLING["int4_matmul"][0], "native")
    assert 0.03 < check.figures["quantization_error"] < 0.3  # 4 bits over a range of about six deviations
    assert check.error < 1e-5


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_step_starts_afresh_when_reset(framework):
    device = open_device(framework)
    case = TELLING["amp_step"][0]
    own = CATALOG.workload("amp_step")
    inputs = own.inputs(case, np.random.default_rng(0))
    implementation = CATALOG.implementation(framework, "amp_step")
    step = implementation.variants[implementation.default](device, case, inputs)
    first = float(device.get(step()["loss"]))
    for _ in range(3):
        step()
    step.reset()
    assert float(device.get(step()["loss"])) == pytest.approx(first, rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize(
    "case",
    [
        fft("real", 1, 64, "forward"),
        fft("complex", 12, 64, "forward"),
        fft("complex", 1, 64, "roundtrip"),
        fft("complex", 1, 8193, "forward"),
    ],
)
def test_a_transform_that_is_made_as_no_product_says_so(framework, case):
    device = open_device(framework)
    with pytest.raises(Unsupported, match="one-dimensional complex forward transform of up to 8192 points"):
        CATALOG.implementation(framework, "fft").variants["naive"](device, case, data("fft", case)[0])


@pytest.mark.skipif(bool(ACCELERATOR), reason="there the variant is measured")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_fallback_by_way_of_the_cpu_is_right(framework, dtype, monkeypatch):
    """Built here as for an accelerator, which is the CPU itself."""
    device, case = open_device(framework), custom_op(dtype, 1000)
    with monkeypatch.context() as patch:
        patch.setattr(device, "kind", "accelerator")
        patch.setattr(device, "wait", lambda outputs: None)  # there is no accelerator to wait for
        step = CATALOG.implementation(framework, "custom_op").variants["fallback"](device, case, data("custom_op", case)[0])
    out = step()
    device.wait(out)
    inputs, reference = data("custom_op", case)
    check = CATALOG.workload("custom_op").check(case, inputs, [{name: device.get(array) for name, array in out.items()}], reference)
    assert check.ok, check


@pytest.mark.parametrize("kind", ["empty", "tiny"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_dispatched_call_makes_an_array(framework, kind, monkeypatch):
    """Else a lazy framework would have nothing to evaluate, and the others nothing to call."""
    device, case, put = open_device(framework), dispatch(kind), []
    honest = device.put
    monkeypatch.setattr(device, "put", lambda *arguments: put.append(honest(*arguments)) or put[-1])
    step = CATALOG.implementation(framework, "dispatch").variants["native"](device, case, data("dispatch", case)[0])
    made = [step()["out"] for _ in range(3)]
    assert len({id(array) for array in put + made}) == len(put) + 3


def in_place(array):
    """A framework's array on the CPU as NumPy sees it, without a copy."""
    match type(array).__module__.partition(".")[0]:
        case "torch":
            return array.numpy()
        case "mlx":
            return np.array(array, copy=False)
        case "tensorflow":
            return np.asarray(memoryview(array.value() if hasattr(array, "assign") else array))
        case _:
            return np.asarray(array)


@pytest.mark.skipif(bool(ACCELERATOR), reason="NumPy sees the CPU's memory only")
@pytest.mark.parametrize("kind", ["cpu", "accelerator"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_copy_is_no_second_name_for_the_same_memory(framework, kind, monkeypatch):
    """Its check can't tell: what shares memory is equal. What is done on an accelerator is built here on the CPU."""
    device, case, put = open_device(framework), roofline("copy", "float32", 1 << 16), []
    honest = device.put
    with monkeypatch.context() as patch:
        patch.setattr(device, "kind", kind)
        patch.setattr(device, "wait", lambda outputs: None)  # there is no accelerator to wait for
        patch.setattr(device, "put", lambda *arguments: put.append(honest(*arguments)) or put[-1])
        step = CATALOG.implementation(framework, "roofline").variants["native"](device, case, data("roofline", case)[0])
    (x,) = put
    assert np.shares_memory(in_place(x), in_place(x))
    for _ in range(3):
        out = step()["out"]
        device.wait({"out": out})
        assert np.array_equal(in_place(out), in_place(x))
        assert not np.shares_memory(in_place(out), in_place(x))


@pytest.mark.skipif(bool(ACCELERATOR), reason="there outputs are new")
@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_a_copy_on_the_cpu_pages_in_no_memory(framework):
    """Every call writes the same place. Reset, that holds nothing: a check then finds what later calls did, not the first one."""
    device, case = open_device(framework), roofline("copy", "float32", 1 << 16)
    step = CATALOG.implementation(framework, "roofline").variants["native"](device, case, data("roofline", case)[0])
    assert isinstance(step, StatefulStep)
    places, kept = set(), []
    for _ in range(4):
        kept.append(step()["out"])
        device.wait({"out": kept[-1]})
        places.add(in_place(kept[-1]).ctypes.data)
    assert len(places) == 1
    step.reset()
    if framework != "jax":  # whose arrays don't change: the next call is given another one to write
        assert not np.array(device.get(kept[-1])).any()
    assert np.array_equal(device.get(step()["out"]), data("roofline", case)[0]["x"])
