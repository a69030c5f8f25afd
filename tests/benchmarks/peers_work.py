"""The work of ``tests/plugins/paced.py`` as the whole of a project that other tools measure: see ``peers.py``."""

from pathlib import Path

import numpy as np

COUNT = int(Path(__file__).with_name("count.txt").read_text("utf-8"))
A = np.random.default_rng(0).standard_normal((24, 24)).astype(np.float32)


def product(a, b):
    return a @ b


def work():
    for _ in range(COUNT):
        out = product(A, A)
    return out


def test_work(benchmark):
    benchmark(work)
