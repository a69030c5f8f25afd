"""Change points: planted steps are found where they are, noise and spikes are not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metalbench.results.changepoints import change_points, outside

SD = 0.02


def series(*levels, sd=SD, seed=0):
    """Times with ``levels``, each of (points, level), and normal noise."""
    rng = np.random.default_rng(seed)
    return np.concatenate([level * np.exp(rng.normal(0, sd, points)) for points, level in levels])


def places(values, **options):
    return [change.start for change in change_points(list(values), **options)]


@pytest.mark.parametrize(
    ("levels", "steps"),
    [
        ([(40, 100), (20, 120)], [40]),
        ([(20, 100), (20, 90), (20, 110)], [20, 40]),
        ([(26, 100), (5, 115), (29, 100)], [26, 31]),
        ([(12, 100), (12, 120)] * 4, [12, 24, 36, 48, 60, 72, 84]),
        ([(20, 1e6), (20, 1e3), (20, 1e9)], [20, 40]),
        ([(6, 100), (4, 130)], [6]),
        ([(1500, 100), (4, 112)], [1500]),
    ],
    ids=["one", "both directions", "there and back", "to and fro", "vast", "short", "long"],
)
def test_every_step_is_found_where_it_is_and_no_other(levels, steps):
    found = [places(series(*levels, seed=seed)) for seed in range(20)]
    assert sum(len(indices) == len(steps) for indices in found) >= 19
    near = [abs(index - step) <= 1 for indices in found if len(indices) == len(steps) for index, step in zip(indices, steps, strict=True)]
    assert np.mean(near) >= 0.95


@pytest.mark.parametrize("direction", [1.2, 1 / 1.2])
def test_a_change_tells_its_size(direction):
    (change,) = change_points(list(series((40, 100), (20, 100 * direction))))
    assert change.ratio == pytest.approx(direction, rel=0.02)
    assert change.low < direction < change.high
    assert change.high / change.low < 1.06
    assert change.strength > 1.2


def test_intervals_cover_the_truth():
    found = [change for seed in range(200) for change in change_points(list(series((40, 100), (20, 120), seed=seed)))]
    assert len(found) >= 200
    assert 0.88 < np.mean([change.low < 1.2 < change.high for change in found]) < 0.995


@pytest.mark.parametrize("place", [0, 1, 30, 57, 58, 59])
@pytest.mark.parametrize("size", [2.0, 0.5])
@pytest.mark.parametrize("sd", [SD, 0.0001, 0.0])
def test_a_spike_is_no_step(place, size, sd):
    values = series((60, 100), sd=sd, seed=6)
    assert places(values) == []
    values[place] *= size
    assert places(values) == []


def test_a_spike_beside_a_step_hides_nothing():
    values = series((40, 100), (20, 115))
    values[[10, 30, 50]] *= 3
    assert places(values) == [40]


@pytest.mark.parametrize("noise", ["normal", "t, 3 degrees", "bimodal"])
@pytest.mark.parametrize("points", [20, 60])
def test_noise_alone_raises_few_alarms(noise, points):
    """At most 1 % of series: more than 11 of 500 would happen by luck in one of 200 tests."""
    rng = np.random.default_rng(11)
    shape = (500, points)
    draws = {
        "normal": lambda: rng.normal(0, SD, shape),
        "t, 3 degrees": lambda: rng.standard_t(3, shape) * SD / math.sqrt(3),
        "bimodal": lambda: rng.choice([-SD, SD], shape),
    }
    assert sum(bool(places(row)) for row in np.exp(draws[noise]())) <= 11


def test_a_step_is_found_in_noise_of_two_levels():
    values = np.random.default_rng(3).choice([98.0, 102.0], 60) * np.repeat([1.0, 1.1], [54, 6])
    assert places(values) == [54]


def test_a_drift_is_no_step():
    values = np.exp(np.linspace(0, 0.3, 200)) * series((200, 100))
    assert places(values) == []


def test_what_is_too_small_matters_only_when_asked():
    values = series((30, 100), (30, 100.5), sd=0.0001)
    assert places(values) == []
    assert places(values, smallest=0.002) == [30]
    assert places([1000] * 30 + [1001] * 30) == []
    assert places([1000] * 30 + [1100] * 30) == [30]
    assert places([7] * 100) == []


@pytest.mark.parametrize("size", range(9))
def test_short_series_are_no_error(size):
    assert places(series((size, 100))) == []


def test_two_runs_far_outside_are_a_new_level_and_one_is_not():
    values = list(series((30, 100)))
    assert places([*values, 150]) == []
    assert places([*values, 150, 152]) == [30]
    assert places([*values, 150, 66]) == []


def test_what_lies_outside_of_a_level():
    level = list(series((30, 100)))
    assert outside(level, 112)
    assert outside(level, 88)
    assert not outside(level, 103)
    assert not outside(level[:5], 200), "five points are not a level yet"
    assert not outside([100] * 30, 100.9), "less than the smallest change"
    assert outside([100] * 30, 101.1)
    assert not outside([100, 104] * 15, 104)
    assert not outside([100] * 26 + [120] * 4, 120), "the level has been there often enough"


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_only_times_are_taken(value):
    with pytest.raises(ValueError, match="positive"):
        change_points([1.0, value, 2.0])


times = st.lists(st.floats(1e2, 1e9), min_size=1, max_size=40)


@given(values=times, power=st.integers(-20, 20))
def test_the_unit_changes_nothing(values, power):
    """A power of two: the logarithms are then rounded alike enough for no tie to be broken otherwise."""
    first, second = change_points(values), change_points([value * 2.0**power for value in values])
    assert [change.start for change in first] == [change.start for change in second]
    assert [change.ratio for change in first] == pytest.approx([change.ratio for change in second])


@given(values=times)
def test_the_answer_is_always_the_same_and_in_order(values):
    first = change_points(values)
    assert first == change_points(values)
    indices = [change.start for change in first]
    assert indices == sorted(set(indices))
    assert all(0 < index < len(values) for index in indices)
    for change in first:
        assert change.low <= change.ratio <= change.high
        assert abs(math.log(change.ratio)) >= math.log(1.01) - 1e-12
