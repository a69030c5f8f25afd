"""The harness's medians beside each framework's own idiom, for work whose time on an accelerator is known.

    python tests/benchmarks/anchors.py [torch] [jax] [mlx] [--device cuda|cpu] [--small] [--out FILE] [--only WORDS]

The idiom shares nothing with ours but the input bytes and the process, and with it the precision policy: its own arrays, its own calls,
its own loop that waits by hand. Both sides take turns, and whoever goes second in a round goes first in the next. For PyTorch on CUDA
``event`` is the device's own time, by events around a call that is queued behind a pause, so that no launch is waited for.

Fails where the two medians of work that lasts 50 µs or more differ by more than 5 %, and where something breaks. Shorter work shows what
a call costs the harness beyond the idiom, in microseconds. Both outputs are checked against the workload's reference first; a wrong answer
is printed, and fails nothing here: it is a finding about the framework.
"""

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metalbench.backends.base import Unsupported
from metalbench.harness import stopping
from metalbench.harness.catalog import Catalog
from metalbench.harness.environments import current, worker_variables
from metalbench.harness.inputs import load, prepare
from metalbench.harness.measure import measure
from metalbench.harness.sampling import latency
from metalbench.workloads.attention import AttentionCase
from metalbench.workloads.fft import FFTCase
from metalbench.workloads.int4_matmul import Int4MatmulCase

FRAMEWORKS = ("torch", "jax", "mlx")
PLUGIN = Path(__file__).parent.parent / "plugins" / "anchors.py"
ROUNDS = 7
SECONDS = 0.2  #: a side and round
BOUND = 0.05
LEAST = 50e-6  #: seconds; a shorter median says more about launching than about the work
PAUSE = 400_000  #: cycles that the device is kept busy while an event, the work and another event are queued


class Work(NamedTuple):
    name: str
    workload: str
    variant: str
    case: Any


def works(catalog, framework, small):
    """Everything that is compared, in the order of printing."""
    suite = "quick" if small else "large"
    anchor = {}
    for case in catalog.workload("anchor").cases(suite):
        anchor.setdefault(case.work, []).append(Work(case.label(), "anchor", "native", case))
    batch, heads, length, size = (1, 2, 128, 64) if small else (4, 32, 4096, 128)
    attention = AttentionCase(
        dtype="bfloat16", batch=batch, heads=heads, kv_heads=heads, queries=length, keys=length, head_size=size, causal=True
    )
    variants = ("fused", "composed", "compiled") if framework == "jax" else ("fused", "composed")
    batch, length = (4, 1 << 12) if small else (64, 1 << 20)
    fft = FFTCase(kind="complex", batch=batch, rows=1, length=length, direction="forward")
    int4, group = "dequantize" if framework == "jax" else "native", 64 if framework == "mlx" else 128
    rows, side = ((1, 16, 64), 512) if small else ((1, 16, 512), 8192)
    weights = [Int4MatmulCase(dtype="bfloat16", m=m, n=side, k=side, group=group) for m in rows]
    return [
        *anchor["matmul"],
        *(Work(f"attention {variant} {attention.label()}", "attention", variant, attention) for variant in variants),
        Work(f"fft {fft.label()}", "fft", "native", fft),
        *(Work(f"int4 {case.label()}", "int4_matmul", int4, case) for case in weights),
        *anchor["bf16_weights"],
        *anchor["softshrink"],
        *anchor["copy"],
        *anchor["add"],
    ]


def torch_attention(work, given, on):
    import torch

    q, k, v = (on(given[name], torch.bfloat16) for name in "qkv")
    if work.variant == "fused":
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    scale, hidden = q.shape[-1] ** -0.5, torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    return lambda: ((q * scale) @ k.transpose(-2, -1)).masked_fill(hidden, -math.inf).softmax(-1) @ v


def torch_fft(work, given, on):
    import torch

    x = on(given["x"])
    return lambda: torch.fft.fft(x)


def torch_int4(work, given, on):
    import torch

    x, group, codes, op = on(given["x"], torch.bfloat16), work.case.group, given["codes"], torch.ops.aten
    table = np.stack([given["scales"].T, given["offsets"].T + 8 * given["scales"].T], axis=2)
    table = on(np.ascontiguousarray(table), torch.bfloat16)  # the CPU's operator takes any strides and reads as if there were none
    if x.device.type == "cpu":
        packed = op._convert_weight_to_int4pack_for_cpu(on(codes.astype(np.int32)), 1)
        return lambda: op._weight_int4pack_mm_for_cpu(x, packed, group, table)
    packed = op._convert_weight_to_int4pack(on(codes[:, ::2] * 16 + codes[:, 1::2]), 8)
    return lambda: op._weight_int4pack_mm(x, packed, group, table)


def torch_anchor(work, given, on):
    import torch

    dtype = getattr(torch, work.case.dtype)
    on_device = {name: on(array, dtype) for name, array in given.items()}
    a, b, x, w = (on_device.get(name) for name in "abxw")
    softshrink = torch.nn.Softshrink(0.5)
    return {
        "matmul": lambda: torch.mm(a, b),
        "bf16_weights": lambda: x @ w.t(),
        "add": lambda: torch.add(a, b),
        "copy": lambda: torch.empty_like(x).copy_(x),
        "softshrink": lambda: softshrink(x),
    }[work.case.work]


def torch_idiom(kind, work, given):
    """A call that returns its output, and a wait for it."""
    import torch

    def on(array, dtype=None):
        return torch.from_numpy(np.array(array)).to(kind, dtype)

    build = {"attention": torch_attention, "fft": torch_fft, "int4_matmul": torch_int4, "anchor": torch_anchor}[work.workload]
    return build(work, given, on), (lambda _: torch.cuda.synchronize()) if kind == "cuda" else (lambda _: None)


def jax_attention(kind, work, given, on):
    import jax
    import jax.numpy as jnp

    if work.variant == "fused":
        kernel = "cudnn" if kind == "cuda" else None

        def attend(q, k, v):
            return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=kernel).transpose(0, 2, 1, 3)

        return jax.jit(attend), [on(given[name].transpose(0, 2, 1, 3), jnp.bfloat16) for name in "qkv"]
    length, size = given["q"].shape[2:]

    def composed(q, k, v, visible):
        scores = jnp.where(visible, (q * size**-0.5) @ k.swapaxes(-1, -2), -jnp.inf)
        return jax.nn.softmax(scores) @ v

    visible = on(np.tri(length, dtype=bool))
    return jax.jit(composed) if work.variant == "compiled" else composed, [*(on(given[name], jnp.bfloat16) for name in "qkv"), visible]


def jax_fft(kind, work, given, on):
    import jax

    return jax.jit(jax.numpy.fft.fft), [on(given["x"])]


def jax_int4(kind, work, given, on):
    import jax
    import jax.numpy as jnp

    @jax.jit
    def product(x, packed, scales, offsets):
        low, high = packed & 0xF, packed >> 4
        codes = jnp.stack([low, high], axis=2).reshape(scales.shape[0], scales.shape[1], -1).astype(x.dtype)
        return x @ (codes * scales[:, :, None] + offsets[:, :, None]).reshape(scales.shape[0], -1).T

    packed = given["codes"][:, ::2] + 16 * given["codes"][:, 1::2]
    x, scales, offsets = (on(given[name], jnp.bfloat16) for name in ("x", "scales", "offsets"))
    return product, [x, on(packed), scales, offsets]


def jax_anchor(kind, work, given, on):
    import jax
    import jax.numpy as jnp

    names, function = {
        "matmul": ("ab", lambda a, b: a @ b),
        "bf16_weights": ("xw", lambda x, w: x @ w.T),
        "add": ("ab", lambda a, b: a + b),
        "copy": ("x", lambda x: jnp.array(x, copy=True)),
        "softshrink": ("x", lambda x: jnp.where(jnp.abs(x) > 0.5, x - jnp.sign(x) * 0.5, 0)),
    }[work.case.work]
    return jax.jit(function), [on(given[name], work.case.dtype) for name in names]


def jax_idiom(kind, work, given):
    import jax

    def on(array, dtype=None):
        return jax.device_put(np.array(array)).astype(dtype or array.dtype).block_until_ready()

    build = {"attention": jax_attention, "fft": jax_fft, "int4_matmul": jax_int4, "anchor": jax_anchor}[work.workload]
    function, args = build(kind, work, given, on)
    return lambda: function(*args), jax.block_until_ready


def mlx_attention(work, given, on):
    import mlx.core as mx

    q, k, v = (on(given[name], mx.bfloat16) for name in "qkv")
    scale, length = q.shape[-1] ** -0.5, q.shape[2]
    if work.variant == "fused":
        return lambda: mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")
    visible, low = on(np.tri(length, dtype=bool)), on(np.array(-np.inf, np.float32), mx.bfloat16)
    return lambda: mx.softmax(mx.where(visible, (q * scale) @ k.transpose(0, 1, 3, 2), low), axis=-1) @ v


def mlx_fft(work, given, on):
    import mlx.core as mx

    x = on(given["x"])
    return lambda: mx.fft.fft(x)


def mlx_int4(work, given, on):
    import mlx.core as mx

    codes = given["codes"].astype(np.uint32).reshape(work.case.n, -1, 8)
    words = np.zeros(codes.shape[:2], np.uint32)
    for place in range(8):
        words |= codes[:, :, place] << np.uint32(4 * place)
    w, group = on(words), work.case.group
    x, scales, biases = (on(given[name], mx.bfloat16) for name in ("x", "scales", "offsets"))
    return lambda: mx.quantized_matmul(x, w, scales=scales, biases=biases, group_size=group, bits=4)


def mlx_anchor(work, given, on):
    import mlx.core as mx

    dtype = getattr(mx, work.case.dtype)
    on_device = {name: on(array, dtype) for name, array in given.items()}
    a, b, x, w = (on_device.get(name) for name in "abxw")
    if work.case.work == "copy":  # no operator copies a whole array
        halves = [on(half) for half in np.split(given["x"], 2)]
    softshrink = mx.compile(lambda x: mx.where(mx.abs(x) > 0.5, x - mx.sign(x) * 0.5, 0))
    return {
        "matmul": lambda: mx.matmul(a, b),
        "bf16_weights": lambda: mx.matmul(x, w.transpose()),
        "add": lambda: mx.add(a, b),
        "copy": lambda: mx.concatenate(halves),
        "softshrink": lambda: softshrink(x),
    }[work.case.work]


def mlx_idiom(kind, work, given):
    import mlx.core as mx

    def on(array, dtype=None):
        out = mx.array(np.array(array))
        out = out if dtype is None else out.astype(dtype)
        mx.eval(out)
        return out

    build = {"attention": mlx_attention, "fft": mlx_fft, "int4_matmul": mlx_int4, "anchor": mlx_anchor}[work.workload]
    return build(work, given, on), mx.eval


IDIOMS = {"torch": torch_idiom, "jax": jax_idiom, "mlx": mlx_idiom}


def by_hand(call, wait):
    """Median seconds of a call and the wait for it, timed one by one."""
    spans, begin = [], time.perf_counter()
    while time.perf_counter() - begin < SECONDS or len(spans) < 5:
        start = time.perf_counter()
        out = call()
        wait(out)
        spans.append(time.perf_counter() - start)
    return statistics.median(spans)


def by_events(call):
    """Median seconds between two events that were queued right before and right after the work."""
    import torch

    spans, begin = [], time.perf_counter()
    while time.perf_counter() - begin < SECONDS or len(spans) < 5:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(PAUSE)
        start.record()
        out = call()
        end.record()
        end.synchronize()
        del out
        spans.append(start.elapsed_time(end) / 1e3)
    return statistics.median(spans)


def verdict(workload, work, given, reference, fetched):
    """Whether the output is right, in words."""
    check = workload.check(work.case, given, [{"out": fetched}], reference)
    return "right" if check.ok else f"wrong: {check.detail}"


def compare(catalog, device, framework, kind, work, root):
    """What is found of one work."""
    workload = catalog.workload(work.workload)
    given, reference = load(prepare(workload, work.case, 0, catalog.workload_files[work.workload], root))
    step = catalog.implementation(framework, work.workload).variants[work.variant](device, work.case, given)
    run = latency(device, step)
    call, wait = IDIOMS[framework](kind, work, given)

    out = call()
    wait(out)
    answers = [np.array(device.get(array)) for array in (run(1)["out"], out)]
    checks = dict(zip(("harness", "idiom"), (verdict(workload, work, given, reference, answer) for answer in answers), strict=True))
    del out, answers

    def ours():
        timing = measure(run, [stopping.Budget(SECONDS * 1e9)], warmup=SECONDS / 5)
        return statistics.median(timing.spans) / timing.calls / 1e9

    def theirs():
        return by_hand(call, wait)

    ours(), theirs()
    pairs = []
    for index in range(ROUNDS):
        first, second = (ours, theirs) if index % 2 else (theirs, ours)
        a, b = first(), second()
        pairs.append((a, b) if index % 2 else (b, a))
    harness, idiom = (statistics.median(side) for side in zip(*pairs, strict=True))
    return {
        "harness_s": harness,
        "idiom_s": idiom,
        "ratio": statistics.median(a / b for a, b in pairs),
        "extra_s": statistics.median(a - b for a, b in pairs),
        "event_s": by_events(call) if framework == "torch" and kind == "cuda" else None,
        "rounds": pairs,
        "checks": checks,
    }


def line(record):
    """(the work's line, whether it is as it must be)."""
    head = f"{record['framework']:6} {record['work']:46}"
    if "reason" in record:
        return f"{head} {record['reason']}", record["unsupported"]
    long, near = record["idiom_s"] >= LEAST, abs(record["ratio"] - 1) <= BOUND
    parts = [
        f"harness {record['harness_s'] * 1e3:9.4f} ms",
        f"idiom {record['idiom_s'] * 1e3:9.4f} ms",
        f"ratio {record['ratio']:.3f}{'' if near or not long else ' (beyond 5 %)'}",
        *([] if long else [f"{record['extra_s'] * 1e6:+.2f} µs a call"]),
        *([] if record["event_s"] is None else [f"event {record['event_s'] * 1e3:.4f} ms"]),
        *(f"{side} {words}" for side, words in record["checks"].items() if words != "right"),
    ]
    return f"{head} {'  '.join(parts)}", near or not long


def child(framework, options, root):
    """All works of one framework, in this process."""
    catalog = Catalog([PLUGIN])
    device = catalog.open_device(framework, options.device)
    gc.collect()
    gc.freeze()  # as a worker does
    facts = device.facts()
    print(f"{framework:6} " + ", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    good = True
    for work in chosen(catalog, framework, options):
        record = {"framework": framework, "device": options.device, "work": work.name, "variant": work.variant, "facts": facts}
        try:
            record |= compare(catalog, device, framework, options.device, work, root)
        except Exception as error:  # noqa: BLE001 - frameworks raise what they like; the other works go on
            unsupported = isinstance(error, Unsupported) or device.diagnose(error) == "unsupported"
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            record |= {"unsupported": unsupported, "reason": f"{'unsupported' if unsupported else 'FAILED'}: {reason}"}
        text, as_it_must = line(record)
        print(text, flush=True)
        good &= as_it_must
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        gc.collect()
        device.release()
    return good


def chosen(catalog, framework, options):
    return [work for work in works(catalog, framework, options.small) if not options.only or options.only in work.name]


def parent(options):
    """Inputs and references for all, then a process a framework, one after the other."""
    if options.out:
        options.out.write_text("", "utf-8")
    catalog = Catalog([PLUGIN])
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        needed = {(work.workload, work.case) for framework in options.frameworks for work in chosen(catalog, framework, options)}
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            for done in [
                pool.submit(prepare, catalog.workload(name), case, 0, catalog.workload_files[name], Path(folder)) for name, case in needed
            ]:
                done.result()
        print(f"inputs and references of {len(needed)} cases took {time.perf_counter() - begin:.1f} s", flush=True)
        status = 0
        for framework in options.frameworks:
            variables = worker_variables(catalog.frameworks[framework], options.device, current())
            command = [sys.executable, __file__, *sys.argv[1:], "--child", framework, "--root", folder]
            status = max(status, subprocess.run(command, env=variables, check=False).returncode != 0)
        print(f"all of it took {time.perf_counter() - begin:.0f} s", flush=True)
    return status


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("frameworks", nargs="*", default=FRAMEWORKS, choices=FRAMEWORKS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--out", type=lambda path: Path(path).resolve(), help="a file for one JSON line a work")
    parser.add_argument("--only", default="", help="works whose name contains this")
    parser.add_argument("--child", choices=FRAMEWORKS, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sys.exit(not child(asked.child, asked, asked.root) if asked.child else parent(asked))
