"""The harness's median against an independent timer, interleaved in one process a framework: prints the ratio, fails beyond 3 %.

    python tests/benchmarks/timers.py [framework …]

The independent side shares nothing with ours: work written by hand, timed by ``torch.utils.benchmark``, or by a loop that waits by hand.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from metalbench.harness import stopping
from metalbench.harness.catalog import Catalog
from metalbench.harness.inputs import load, prepare
from metalbench.harness.measure import measure
from metalbench.harness.sampling import latency
from metalbench.workloads.attention import AttentionCase

CASE = AttentionCase(batch=1, heads=4, kv_heads=4, queries=256, keys=256, head_size=64, causal=True)
ROUNDS = 41
SECONDS = 0.15
BOUND = 0.03


def by_hand(call):
    """Median seconds of ``call``, timed one by one."""
    spans, begin = [], time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        call()
        spans.append(time.perf_counter() - start)
    return statistics.median(spans)


def torch_timer(inputs):
    import torch
    from torch.utils.benchmark import Timer

    q, k, v = (torch.from_numpy(np.array(inputs[name])) for name in "qkv")
    attend = torch.nn.functional.scaled_dot_product_attention
    timer = Timer(
        "attend(q, k, v, is_causal=True)", globals={"attend": attend, "q": q, "k": k, "v": v}, num_threads=torch.get_num_threads()
    )
    return lambda: timer.blocked_autorange(min_run_time=SECONDS).median


def jax_timer(inputs):
    import jax

    q, k, v = (jax.numpy.asarray(np.array(inputs[name].swapaxes(1, 2))) for name in "qkv")
    attend = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True).swapaxes(1, 2))
    return lambda: by_hand(lambda: attend(q, k, v).block_until_ready())


def mlx_timer(inputs):
    import mlx.core as mx

    q, k, v = (mx.array(inputs[name]) for name in "qkv")
    return lambda: by_hand(lambda: mx.eval(mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")))


def tensorflow_timer(inputs):
    import keras
    import tensorflow as tf

    q, k, v = (tf.constant(inputs[name].swapaxes(1, 2)) for name in "qkv")
    mask = tf.constant(np.tri(CASE.queries, dtype=bool)[None, None])
    attend = tf.function(lambda q, k, v, mask: tf.transpose(keras.ops.dot_product_attention(q, k, v, mask=mask), (0, 2, 1, 3)))
    return lambda: by_hand(lambda: attend(q, k, v, mask))


TIMERS = {"torch": torch_timer, "jax": jax_timer, "mlx": mlx_timer, "tensorflow": tensorflow_timer}


def compare(framework):
    catalog = Catalog()
    device = catalog.open_device(framework, "cpu")
    workload = catalog.workload("attention")
    with tempfile.TemporaryDirectory() as folder:
        inputs, _ = load(prepare(workload, CASE, 0, catalog.workload_files["attention"], Path(folder)))
        step = catalog.implementation(framework, "attention").variants["fused"](device, CASE, inputs)
        work, theirs = latency(device, step), TIMERS[framework](inputs)

        def ours():
            timing = measure(work, [stopping.Budget(SECONDS * 1e9)], warmup=SECONDS / 5)
            return statistics.median(timing.spans) / timing.calls / 1e9

        ours(), theirs()
        pairs = []
        for index in range(ROUNDS):  # whoever goes second in a round goes first in the next
            first, second = (ours, theirs) if index % 2 else (theirs, ours)
            a, b = first(), second()
            pairs.append((a, b) if index % 2 else (b, a))
    ratio = statistics.median(a / b for a, b in pairs)
    ours_ms, theirs_ms = (statistics.median(side) * 1e3 for side in zip(*pairs, strict=True))
    print(f"{framework:10}  harness {ours_ms:.3f} ms  independent {theirs_ms:.3f} ms  ratio {ratio:.3f}")
    return abs(ratio - 1) <= BOUND


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(not compare(sys.argv[1]))
    chosen = sys.argv[1:] or list(TIMERS)
    sys.exit(max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in chosen))
