"""Change points of simulated series, ours and others': prints false alarms and steps found, and fails where ours miss their bounds.

    python tests/benchmarks/change_points.py          the table; a few minutes
    python tests/benchmarks/change_points.py bounds   what noise reaches: the constants in results/scans.py, a few minutes

Noise has a standard deviation of 2 %; steps come four points before the end. Other methods are tried where they are installed:
``ruptures``, ``apache-otava`` and ``asv`` (Otava without its dependencies, which want an older NumPy).
"""

import importlib.util
import math
import sys
import time

import numpy as np

from metalbench.results import changepoints, scans

SD = 0.02
POINTS = 60
AFTER = 4
NULLS, STEPPED, OTHERS = 4000, 2000, 500  #: series: ours without a step, ours with one, and for each other method
STEPS = (0.03, 0.05, 0.10)
FALSE_ALARMS = 0.01
FOUND = {0.05: 0.80, 0.10: 0.95}  #: within one point
SECONDS = 1.5  #: for a series of 2000 points


def normal(rng, shape):
    return rng.normal(0, SD, shape)


def heavy(rng, shape):
    """Student's t with 3 degrees of freedom, whose variance is 3."""
    return rng.standard_t(3, shape) * SD / math.sqrt(3)


def bimodal(rng, shape):
    """Each point on one of two levels, two standard deviations apart."""
    return rng.choice([-SD, SD], shape)


def drifting(rng, shape):
    """Normal, on a straight line that rises by one standard deviation over the series."""
    return normal(rng, shape) + np.linspace(0, SD, shape[-1])


def wandering(rng, shape):
    """Normal, on a random walk that ends one standard deviation away on average."""
    return normal(rng, shape) + np.cumsum(rng.normal(0, SD / math.sqrt(shape[-1]), shape), axis=-1)


NOISES = {"normal": normal, "t, 3 degrees": heavy, "bimodal": bimodal, "drifting": drifting, "random walk": wandering}
BOUNDED = ("normal", "t, 3 degrees")


def ours(values):
    return [change.start for change in changepoints.change_points(values)]


def otava(values):
    """E-divisive in windows, then a t-test, as it comes."""
    from otava.analysis import compute_change_points

    return [point.index for point in compute_change_points(list(values))[0]]


def asv(values):
    """An L1 fit of pieces, their number by an information criterion."""
    from asv.step_detect import detect_steps

    return [left for left, *_ in detect_steps(list(values))][1:]


def pelt(values):
    """Least squares of pieces, penalised by 4 σ² log n; σ from the median difference of neighbours."""
    import ruptures

    logs = np.log(values)
    deviation = 1.4826 * np.median(np.abs(np.diff(logs))) / math.sqrt(2)
    fit = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(logs)
    return fit.predict(pen=4 * deviation**2 * math.log(len(logs)))[:-1]


METHODS = {"metalbench": (ours, None), "Otava": (otava, "otava"), "asv": (asv, "asv"), "PELT": (pelt, "ruptures")}


def simulate(method, noise, count, points=POINTS, step=0.0, seed=0):
    """Shares of the series with any change, with one within a point of the step, and with one within three."""
    rng = np.random.default_rng([seed, points, round(1000 * step)])
    place = points - AFTER
    series = np.exp(noise(rng, (count, points)) + math.log1p(step) * (np.arange(points) >= place))
    found = [method(row.tolist()) for row in series]
    within = [sum(any(abs(index - place) <= reach for index in indices) for indices in found) / count for reach in (1, 3)]
    return sum(map(bool, found)) / count, *within


def table():
    """Print it; whether ours meet their bounds."""
    good = True
    print(f"{POINTS} points, steps {AFTER} before the end; false alarms, then found within 1 point / within 3, in % of series\n")
    print(f"| method | noise | no step | {' | '.join(f'{step:.0%}' for step in STEPS)} |\n| --- | --- | --- | --- | --- | --- |")
    for name, (method, module) in METHODS.items():
        if module and not importlib.util.find_spec(module):
            print(f"| {name} | not installed | | | | |")
            continue
        for noise, draw in NOISES.items():
            alarms = simulate(method, draw, NULLS if method is ours else OTHERS)[0]
            shares = {step: simulate(method, draw, STEPPED if method is ours else OTHERS, step=step)[1:] for step in STEPS}
            fields = [f"{near:.1%} / {wide:.1%}" for near, wide in shares.values()]
            print(f"| {name} | {noise} | {alarms:.2%} | {' | '.join(fields)} |", flush=True)
            if method is ours and noise in BOUNDED:
                good &= alarms <= FALSE_ALARMS and all(shares[step][0] >= bound for step, bound in FOUND.items())
    return good


def lengths():
    """False alarms at other lengths, and the time that the longest takes; whether they meet their bounds."""
    good = True
    print(f"\n| points | {' | '.join(BOUNDED)} | bimodal |\n| --- | --- | --- | --- |")
    for points in (8, 12, 20, 30, 120, 300):
        shares = [simulate(ours, NOISES[noise], NULLS // 2, points, seed=1)[0] for noise in (*BOUNDED, "bimodal")]
        good &= max(shares[:2]) <= 1.5 * FALSE_ALARMS  # of 2000 series, for a true rate of 1 % at the most
        print(f"| {points} | {' | '.join(f'{share:.2%}' for share in shares)} |", flush=True)
    rng = np.random.default_rng(2)
    levels = {
        "no step": np.zeros(2000),
        "a step every 100": np.arange(2000) // 100 * 0.05,
        "a step every 20": np.arange(2000) // 20 % 2 * 0.1,
    }
    for name, level in levels.items():
        series = np.exp(level + normal(rng, 2000)).tolist()
        begin = time.perf_counter()
        found = ours(series)
        seconds = time.perf_counter() - begin
        print(f"\n2000 points, {name}: {len(found)} changes in {seconds:.2f} s", end="")
        good &= seconds < SECONDS
    print()
    return good


def bounds():
    """What noise reaches, by length: the largest of the noises' quantiles, to be rounded up."""
    rng = np.random.default_rng(7)
    floor = math.log1p(0.01)
    for points in scans.LENGTHS:
        steps, pulses = [], []
        for noise in (normal, heavy, bimodal)[: 3 if points >= 12 else 2]:
            batches = [noise(rng, (max(1, 500_000 // points), points)) for _ in range(20 if points < 200 else 40)]
            found = [scans.step_scan(scans.step_sums(batch, floor))[1] for batch in batches]
            steps.append(np.quantile(np.concatenate(found), 0.995))
            found = [scans.pulse_scan(scans.pulse_sums(batch, floor))[2] for batch in batches[:16]]
            pulses.append(np.quantile(np.concatenate(found), 0.999))
        print(f"{points:5} points: step {max(steps):.2f}, pulse {max(pulses):.2f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["bounds"]:
        bounds()
    else:
        results = [table(), lengths()]
        sys.exit(not all(results))
