"""Stores of made records that several tests share: what a small team may have measured on three machines, and texts that want to be markup.

Times follow a law of peaks, an efficiency a variant and a cost a call, with noise that is the same whenever it is drawn.
"""

import msgspec
import numpy as np
from support.cases import CATALOG, fft, roofline
from support.pages import HOSTILE
from support.records import make_cell, timed

from metalbench.results.record import Energy, Host, Measurement, Memory, Record, Run
from metalbench.results.store import open_store
from metalbench.workloads.attention import AttentionCase

DAY = 86400.0
NOVEMBER = 1_793_498_400.0  #: the first, 2026, at two in the morning UTC


def _host(key, chip, cores, memory, system, **more):
    return Host(key=key, facts={"chip": chip, "cores": str(cores), "memory_gib": str(memory), "system": system, **more})


MAC = _host("mac", "Apple M4 Pro", 14, 48, "Darwin 25.1.0", gpu_cores="20", build="25B78", accelerators="metal")
SERVER = _host("server", "AMD EPYC", 16, 64, "Linux 6.12.0", build="#1 SMP", accelerators="none")
CENTRE = _host("centre", "NVIDIA H200", 64, 512, "Linux 6.8.0", build="#40", gpu="H200", accelerators="cuda")

VERSIONS = {
    "torch": {"torch": "2.13.0"},
    "jax": {"jax": "0.10.2", "jaxlib": "0.10.2"},
    "mlx": {"mlx": "0.32.4"},
    "tf": {"tensorflow": "2.21.0"},
}
#: backend → FLOP/s in float32, bytes/s, ns a call
SPEEDS = {
    "torch-mps": (5.5e12, 2.3e11, 60e3),
    "jax-metal": (3.1e12, 2.0e11, 150e3),
    "mlx-metal": (6.0e12, 2.4e11, 90e3),
    "tf-metal": (2.4e12, 1.6e11, 220e3),
    "torch-cpu": (4.5e11, 4.0e10, 8e3),
    "jax-cpu": (5.0e11, 3.5e10, 25e3),
    "mlx-cpu": (6.0e10, 2.0e10, 12e3),
    "tf-cpu": (3.5e11, 3.2e10, 60e3),
    "torch-cuda": (4.9e13, 4.1e12, 9e3),
    "jax-cuda": (4.7e13, 4.0e12, 30e3),
    "mlx-cuda": (3.0e13, 3.6e12, 14e3),
    "tf-cuda": (3.5e13, 3.3e12, 50e3),
}
EFFICIENCY = {"fused": 0.55, "composed": 0.18, "compiled": 0.25, "native": 0.8}
LAUNCHES, SAMPLES = 5, 24
LOAD = ("0.03", "0.31", "0.08", "0.12", "0.05")


def attention(queries, dtype="float32"):
    return AttentionCase(dtype=dtype, batch=1, heads=8, kv_heads=8, queries=queries, keys=queries, head_size=64, causal=True)


def cell(backend, workload, case, variant):
    return make_cell(backend, variant, workload=workload, case=case.parameters())


def record(own, launch, started, factor=1.0, seed=0, **changes):
    """A launch of a cell as its backend's speed has it, ``factor`` times slower."""
    case = msgspec.convert(own.case, CATALOG.workload(own.workload).case_type)
    cost = CATALOG.workload(own.workload).cost(case, own.variant)
    flops, traffic, call = SPEEDS[own.backend]
    flops *= {"float32": 1, "float16": 1.9, "bfloat16": 1.8}[case.dtype]
    ns = factor * (1e9 * max(cost.flops / flops, cost.bytes / traffic) / EFFICIENCY[own.variant] + call)
    rng = np.random.default_rng([seed, launch, int(own.key()[:8], 16)])
    spans = ns * np.exp(rng.normal(0, 0.01) + np.abs(rng.normal(0, 0.02, SAMPLES)))
    found = {
        "default_variant": own.variant in {"fused", "native"}, "first_call_ns": round(40 * ns + 2e8), "compile_cache": "filled",
        "empty_call_ns": call / 4, "warmup_calls": 40, "warmup_settled": True, "stop": "precision", "max_error": 1.2e-7, "tolerance": 4e-6,
        "flops": cost.flops, "bytes": cost.bytes, "facts": VERSIONS[own.backend.split("-")[0]] | {"numpy": "2.4.6"},
        "sentinel_size": 256, "sentinel_before_ns": 210_000, "sentinel_after_ns": 212_000, "conditions": {"load": LOAD[launch % 5]},
        "log": f"{own.backend} is ready\n" if launch == 0 else "",
    } | changes  # fmt: skip
    if launch == 0:
        peak = Memory(process_peak=(300 << 20) + 2 * cost.footprint, process_source="the kernel", device_source="not counted")
        found["memory"] = peak
    return msgspec.structs.replace(timed(own, launch, spans, **found), started=started)


def run(name, began, host, cells, label="", **changes):
    options = {"launches": LAUNCHES, "suite": "standard", "budget": 2.0}
    plan = msgspec.Raw(msgspec.json.encode({"cells": cells, "options": options}))
    return Run(**({"id": name, "started": began, "label": label, "host": host, "plan": plan, "state": "finished"} | changes))


def measured(this, factors=(), seed=0, **changes):
    """The run with all its launches; ``factors``: cell → how many times slower."""
    factors = dict(factors)
    records = [
        record(own, launch, this.started + 5.0 * launch + 0.01 * place, factors.get(own.key(), 1.0), seed, **changes)
        for launch in range(LAUNCHES)
        for place, own in enumerate(this.cells())
    ]
    return this, records


def _grid(backends):
    """Two workloads in several cases, dtypes and variants, and the peaks that they are fractions of."""
    for backend in backends:
        for dtype in ("float32", "float16"):
            for queries in (128, 512, 2048):
                for variant in ("fused", "composed"):
                    yield cell(backend, "attention", attention(queries, dtype), variant)
        for length in (1009, 16384):
            yield cell(backend, "fft", fft("complex", 1, length, "forward"), "native")
        for kind, dtype, size in (("copy", "float32", 1 << 26), ("matmul", "float32", 2048), ("matmul", "float16", 2048)):
            yield cell(backend, "roofline", roofline(kind, dtype, size), "native")


MAC_RUN = "20261105-113600-a001"


def mac():
    """One run of four backends, with energy, and a backend that runs an operator elsewhere."""
    cells = list(_grid(("torch-mps", "jax-metal", "mlx-metal", "tf-metal")))
    this, records = measured(run(MAC_RUN, NOVEMBER + 4.4 * DAY, MAC, cells, "the new Mac", revision="c" * 40))
    return this, [_on_the_mac(found) for found in records]


def _on_the_mac(found):
    changes = {"energy": Energy(joules_per_call=0.004, calls=300, seconds=1.1, source="zeus-apple-silicon")} if found.launch == 0 else {}
    if found.cell.backend == "tf-metal" and found.cell.workload == "fft":
        changes |= {"status": "fallback", "reason": "RFFT ran on the CPU"}
    return msgspec.structs.replace(found, measurement=msgspec.structs.replace(found.measurement, **changes))


NIGHTS = [f"202611{day:02}-020000-b0{day:02}" for day in range(1, 13)]
STEP = 8  #: the night, counted from 0, from which on ``SLOWED`` is slower by 30 % and ``SPED`` faster by 20 %
NIGHTLY = [
    cell(backend, workload, case, variant)
    for workload, case, variant in (("fft", fft("complex", 1, 16384, "forward"), "native"), ("attention", attention(512), "fused"))
    for backend in ("torch-cpu", "jax-cpu", "mlx-cpu", "tf-cpu")
]
SLOWED, SPED, UNCHANGED = NIGHTLY[0], NIGHTLY[5], NIGHTLY[2]
LATE = NIGHTLY[-1]  #: slower by 15 % on the last night


def nights():
    """Twelve runs of a machine, a night each: two cells step, PyTorch becomes another release, and the last night makes one a suspect."""
    found = []
    for night, name in enumerate(NIGHTS):
        this = run(name, NOVEMBER + night * DAY, SERVER, NIGHTLY, f"night {night + 1}", revision=f"{night + 1:040x}")
        factors = {SLOWED.key(): 1.3, SPED.key(): 0.8} if night >= STEP else {}
        factors[LATE.key()] = 1.15 if name == NIGHTS[-1] else 1.0
        made, records = measured(this, factors, seed=100 + night)
        found.append((made, [_with_torch(own, "2.13.0" if night >= STEP else "2.12.1") for own in records]))
    return found


def _with_torch(found, version):
    if found.cell.backend != "torch-cpu":
        return found
    facts = found.measurement.facts | {"torch": version}
    return msgspec.structs.replace(found, measurement=msgspec.structs.replace(found.measurement, facts=facts))


IN_TURN = ("20261111-140000-d001", "20261111-140001-d002")


def in_turn():
    """Two runs of the server that were measured beside each other; the candidate is slower in one cell."""
    cells = [SLOWED, SPED]
    sides = []
    for place, (name, beside) in enumerate((IN_TURN, IN_TURN[::-1])):
        this = run(name, NOVEMBER + 10.5 * DAY + place, SERVER, cells, ("base", "candidate")[place], beside=beside)
        sides.append(measured(this, {SLOWED.key(): 1.0 + 0.2 * place}, seed=200 + place))
    return sides


CENTRE_RUN = "20261104-091200-c001"
#: status → its reason, of the run on which everything goes wrong that can
FAULTS = {
    "wrong": "error 3.1e-02 where 4.0e-06 is tolerated",
    "fallback": "softmax ran on the CPU",
    "unsupported": "float16 isn't implemented for this operator",
    "unavailable": "tensorflow isn't installed",
    "failed": "RuntimeError: invalid argument",
    "crashed": "the worker was killed by signal 11",
    "timeout": "no answer within 60 s",
    "oom": "22 GiB asked for, 16 GiB free",
}


def centre():
    """One run that was interrupted, with a cell of every status and one that was planned and never measured."""
    backends = ("torch-cuda", "jax-cuda", "mlx-cuda", "tf-cuda")
    cells = [cell(name, "attention", attention(queries), "fused") for queries in (128, 512, 2048) for name in backends]
    this = run(CENTRE_RUN, NOVEMBER + 3.3 * DAY, CENTRE, cells, "what goes wrong", state="interrupted")
    faults = dict(zip([own.key() for own in cells[1 : 1 + len(FAULTS)]], FAULTS, strict=True))
    records = [_faulty(found, faults.get(found.cell.key(), "ok")) for found in measured(this)[1] if found.cell != cells[-1]]
    return this, [found for found in records if found.launch == 0 or found.measurement.spans_ns]


def _faulty(found, status):
    if status == "ok":
        return found
    if status in {"wrong", "fallback"}:
        return msgspec.structs.replace(found, measurement=msgspec.structs.replace(found.measurement, status=status, reason=FAULTS[status]))
    log = f"before\n{FAULTS[status]}\nthe end\n"
    return msgspec.structs.replace(found, measurement=Measurement(status=status, reason=FAULTS[status], log=log))


def ordinary():
    """All of these: twelve nights and a pair in turn on a server, a data centre's run, a Mac's. The last night is the newest."""
    return [*nights(), *in_turn(), centre(), mac()]


HOSTILE_RUNS = (HOSTILE, f"second {HOSTILE}")
FORMULA = '=HYPERLINK("http://evil.example", "a label")'  #: what a spreadsheet would run


def hostile():
    """Two runs of a machine in which every text that may be anybody's wants to be markup; the names of columns differ."""
    names = dict.fromkeys(("workload", "variant", "environment"), HOSTILE)
    backends = (HOSTILE, """the "quoted" 'plug-in'""")
    cells = [
        make_cell(**names | {"backend": backend, "case": {HOSTILE: HOSTILE, "dtype": HOSTILE, "size": size}})
        for backend in backends
        for size in (64, 128)
    ]
    host = Host(key=HOSTILE, facts={"name": HOSTILE, "chip": HOSTILE, "cores": HOSTILE, "memory_gib": HOSTILE, "system": HOSTILE})
    labels = (FORMULA, HOSTILE)
    return [_hostile(run(name, NOVEMBER + at, host, cells, labels[at], revision=HOSTILE), at) for at, name in enumerate(HOSTILE_RUNS)]


def _hostile(this, place):
    said = dict.fromkeys(("reason", "log", "ran", "stop", "compile_cache"), HOSTILE)
    said |= {name: {HOSTILE: HOSTILE} for name in ("facts", "conditions")}
    said |= {"memory": Memory(process_peak=1 << 20, process_source=HOSTILE, device_source=HOSTILE), "figures": {HOSTILE: 1.0}}
    said |= {"energy": Energy(joules_per_call=1.0, calls=1, seconds=1.0, source=HOSTILE), "max_error": 1e-7, "tolerance": 1e-6}
    records = [
        timed(own, launch, [1e6 * (1 + place) * size + 1e3 * launch + sample for sample in range(5)], flops=10**6, bytes=10**5, **said)
        for size, own in enumerate(this.cells(), 1)
        for launch in range(LAUNCHES)
    ]
    last = this.cells()[-1]
    failed = Record(cell=last, launch=0, started=1.0, measurement=Measurement(status="crashed", reason=HOSTILE, log=HOSTILE))
    return this, [*(found for found in records if found.cell != last), failed]


def fill(place, pairs):
    """The store at ``place`` with these runs, each with its records."""
    with open_store(str(place)) as store:
        for this, records in pairs:
            store.receive(this, records)
    return str(place)


def growing(place, count):
    """A store with a run of which ``count`` launches are measured; the run, and the records that are still to come."""
    this, records = measured(run("20261121-090000-e001", NOVEMBER + 20 * DAY, SERVER, [SLOWED, SPED, UNCHANGED], state="running"))
    fill(place, [(this, records[:count])])
    return this, records[count:]
