"""How often the verdicts are wrong, and how often they find what is there. Fails beyond what README promises.

python tests/benchmarks/verdicts.py resampled [--launches 30] [--store FILE]   comparisons of launches of identical cells, shuffled
python tests/benchmarks/verdicts.py live-compare [--tries 100]                 runs of identical cells, one after the other
python tests/benchmarks/verdicts.py live-ab [--tries 100]                      the same side by side
python tests/benchmarks/verdicts.py found [--tries 40]                         slowdowns of 6 % and 10 % by `bench ab`
python tests/benchmarks/verdicts.py simulated                                  one cell of forty slower by 5 %, in normal noise of 2 %
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from metalbench.results import sequential
from metalbench.results.comparison import compare
from metalbench.results.contrast import unpaired
from metalbench.results.evidence import log_ratios
from metalbench.results.record import Record
from metalbench.results.shuffles import of_launches
from metalbench.results.store import open_store
from metalbench.results.summary import summarise
from metalbench.results.verdicts import THRESHOLD, Evidence, judge

BENCH = str(Path(sys.executable).with_name("bench"))
PLUGINS = Path(__file__).parent.parent / "plugins"
COMPARISONS = 1000
ALARMS = 0.01  #: of comparisons of equals
PACED = ("--workload", "paced", "--backend", "numpy-cpu")


def bench(folder, *arguments):
    answer = subprocess.run([BENCH, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def workplace():
    folder = Path(tempfile.mkdtemp(prefix="verdicts-"))
    plugins = [str(PLUGINS / name) for name in ("faulty.py", "paced.py")]
    (folder / "bench.toml").write_text(f'plugins = {json.dumps(plugins)}\nstore = "results.sqlite"\n', "utf-8")
    return folder


def alarmed(verdicts):
    return bool({"slower", "faster"} & set(verdicts))


def resampled(launches, place):
    """Launches drawn from one run make two sides of five and of ten, and two neighbouring stretches of them as well."""
    if place is None:
        place = str(workplace() / "results.sqlite")
        bench(Path(place).parent, "run", "--suite", "quick", "--launches", str(launches), "--label", "pool", "--quiet")
    with open_store(place) as store:
        run = store.run("latest")
        records = store.records(run.id)
    by_launch = {}
    for record in records:
        if record.measurement.spans_ns:
            by_launch.setdefault(record.launch, []).append(record)
    rng = np.random.default_rng(0)
    rates = []
    for size in (5, 10):
        alarms = 0
        for _ in range(COMPARISONS):
            drawn = rng.permutation(sorted(by_launch))[: 2 * size]
            found = compare((run, side(by_launch, drawn[:size])), (run, side(by_launch, drawn[size:])))
            alarms += alarmed(change.time.verdict for change in found.changes if change.time)
        rates.append(alarms / COMPARISONS)
        print(f"{COMPARISONS} comparisons of {size} against {size} of {len(by_launch)} launches of {len(found.changes)} cells: "
              f"{alarms} with an alarm", flush=True)  # fmt: skip
    alarms = 0
    for _ in range(COMPARISONS):
        drawn = np.array([rng.choice(sorted(by_launch), 2, replace=False) for _ in range(16)])
        sides = [summarise(run, side(by_launch, column)) for column in drawn.T]
        judged = sequential.verdicts(dict(enumerate(zip(*sides, strict=True))), 16, threshold=THRESHOLD, family=len(sides[0]))
        alarms += alarmed(found.verdict for found in judged.values())
    rates.append(alarms / COMPARISONS)
    print(f"{COMPARISONS} contests of up to 16 pairs of them, four looks each: {alarms} with an alarm", flush=True)
    return max(rates) <= ALARMS


def side(by_launch, drawn):
    """The launches as a run of their own has them, numbered from 0."""
    return [
        Record(cell=record.cell, launch=number, started=record.started, measurement=record.measurement)
        for number, launch in enumerate(drawn)
        for record in by_launch[launch]
    ]


def live_compare(tries):
    folder = workplace()
    measured = ("--variant", "base", *PACED, "--budget", "0.05", "--launches", "5", "--quiet")
    bench(folder, "run", *measured)
    alarms = 0
    for _ in range(tries):
        bench(folder, "run", *measured)
        document = json.loads(bench(folder, "compare", "latest~1", "latest", "--format", "json"))
        alarms += alarmed(cell["time"]["verdict"] for cell in document["cells"])
    print(f"{tries} × bench compare of equals, one run after the other: {alarms} with an alarm")
    return alarms <= max(1, ALARMS * tries)


def live_ab(tries):
    folder, alarms = workplace(), 0
    sides = ("--base", "base", "--candidate", "equal", *PACED, "--case", "size=12,size=24")
    for _ in range(tries):
        document = json.loads(bench(folder, "ab", *sides, "--budget", "0.05", "--format", "json", "--quiet"))
        alarms += alarmed(cell["time"]["verdict"] for cell in document["cells"])
    print(f"{tries} × bench ab of equals: {alarms} with an alarm")
    return alarms <= max(1, ALARMS * tries)


def found(tries):
    folder = workplace()
    good = True
    for variant, least in (("slower6", 0.95), ("slower10", 0.99)):
        verdicts, seconds = Counter(), []
        for _ in range(tries):
            begin = time.perf_counter()
            arguments = ("--base", "base", "--candidate", variant, *PACED, "--case", "size=24", "--format", "json", "--quiet")
            (cell,) = json.loads(bench(folder, "ab", *arguments))["cells"]
            seconds.append(time.perf_counter() - begin)
            verdicts[cell["time"]["verdict"]] += 1
        print(f"bench ab, {variant}: {dict(verdicts)} of {tries}, median {np.median(seconds):.0f} s to the verdict", flush=True)
        good &= verdicts["slower"] >= least * tries
    print("pairs deviate by {:.1f} % in the medians of all samples, by {:.1f} % turn by turn".format(*deviation(folder)))
    return good


def deviation(folder):
    """How far pairs of the contests in a store lie apart, in %: by the medians of all their samples, and turn by turn."""
    ratios = {"all": [], "turns": []}
    with open_store(str(folder / "results.sqlite")) as store:
        for summary in store.runs():
            run = store.run(summary.id)
            if not run.id.endswith("-base"):
                continue
            (base,), (candidate,) = ([*summarise(own, store.records(own.id))] for own in (run, store.run(run.beside)))
            whole = [math.log(candidate.by_launch[launch] / ns) for launch, ns in base.by_launch.items()]
            turned = [*log_ratios(base, candidate).values()]
            ratios["all"].append(np.std(whole, ddof=1))
            ratios["turns"].append(np.std(turned, ddof=1))
    return tuple(100 * float(np.median(ratios[how])) for how in ("all", "turns"))


def simulated():
    rng = np.random.default_rng(0)
    for launches in (5, 10, 15):
        counts = Counter()
        for _ in range(COMPARISONS):
            base, candidate = (0.02 * rng.standard_normal((40, launches)) for _ in range(2))
            candidate[0] += math.log(1.05)
            shares = of_launches(base, candidate)
            contrasts = [unpaired(np.exp(a), np.exp(b)) for a, b in zip(base, candidate, strict=True)]
            evidence = [Evidence(contrast, share, shares.least) for contrast, share in zip(contrasts, shares.shares, strict=True)]
            counts["by both"] += judge(evidence)[0].verdict == "slower"
            counts["by Student's t alone"] += judge([Evidence(contrast) for contrast in contrasts])[0].verdict == "slower"
        told = ", ".join(f"{how} {count / COMPARISONS:.0%}" for how, count in counts.items())
        print(f"{launches} launches a side find 5 % in one of 40 cells: {told}", flush=True)
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["resampled", "live-compare", "live-ab", "found", "simulated"])
    parser.add_argument("--tries", type=int)
    parser.add_argument("--launches", type=int, default=30)
    parser.add_argument("--store")
    given = parser.parse_args()
    does = {
        "resampled": lambda: resampled(given.launches, given.store),
        "live-compare": lambda: live_compare(given.tries or 100),
        "live-ab": lambda: live_ab(given.tries or 100),
        "found": lambda: found(given.tries or 40),
        "simulated": simulated,
    }
    sys.exit(not does[given.what]())
