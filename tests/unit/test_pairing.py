"""Who measures what when two sides are measured in turn, with stand-ins for the workers."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from support.records import make_cell

from metalbench.harness.cli.progress import Silent
from metalbench.harness.environments import Column, Environment
from metalbench.harness.pairing import Pairing, Side
from metalbench.harness.protocol import Begin, Finish, Take
from metalbench.results.record import Measurement


class Station:
    """Notes in ``told`` which column's worker is asked what about which cell; ``fails`` names backends whose cells crash at first."""

    budget = 0.01

    def __init__(self, name, told, fails=()):
        self.name, self.told, self.fails = name, told, fails

    def ruled_out(self, cell):
        return None

    unprepared = absence = ruled_out

    @contextmanager
    def worker(self, column):
        yield SimpleNamespace(column=column, cell=None, log_size=lambda: 0)

    def refusal(self, worker, column):
        return None

    def job(self, cell, memory, *, calls=0):
        return SimpleNamespace(cell=cell, calls=calls)

    def ask(self, worker, job, log_start):
        if isinstance(job, Begin):
            worker.cell = job.measure.cell
        self.told.append((self.name, type(job), worker.column.key, worker.cell.column))
        if worker.cell.backend in self.fails:
            return Measurement(status="crashed"), False
        return (Measurement(status="ok", spans_ns=[1]), True) if isinstance(job, Finish) else (3, True)


class Ledger:
    def __init__(self):
        self.kept = {}

    def is_done(self, cell, launch):
        return (cell.key(), launch) in self.kept or any(k == cell.key() and m.status == "crashed" for (k, _), m in self.kept.items())

    def keep(self, cell, launch, measurement):
        self.kept[cell.key(), launch] = measurement

    def mark(self, cell, launch):
        pass


def sides(fails=()):
    """Two environments that serve the same backends in opposite order."""
    told, made = [], []
    for name, backends in (("old", ["mlx-cpu", "torch-cpu"]), ("new", ["torch-cpu", "mlx-cpu"])):
        columns = {(backend, name): Column(backend, Environment(name, "python")) for backend in backends}
        cells = [make_cell(backend=backend, environment=name, size=size) for backend in ("torch-cpu", "mlx-cpu") for size in (1, 2)]
        made.append(Side(columns, cells, Station(name, told, fails if name == "new" else ()), Ledger()))
    return tuple(made), told


def test_each_cell_is_measured_by_its_own_column_s_worker_on_either_side():
    both, told = sides()
    pairing = Pairing(both, Silent(), seed=1)
    for pair in range(3):
        pairing.measure(pair, range(4))
    assert {worker for _, _, worker, _ in told} == {(b, e) for b in ("torch-cpu", "mlx-cpu") for e in ("old", "new")}
    assert all(worker == cell for _, _, worker, cell in told)
    for side in both:
        assert sorted(side.ledger.kept) == sorted((cell.key(), pair) for cell in side.cells for pair in range(3))


def test_turns_are_abba_or_baab():
    both, told = sides()
    Pairing(both, Silent(), seed=2).measure(0, [0])
    turns = "".join({"old": "A", "new": "B"}[side] for side, job, _, _ in told if job is Take)
    assert len(turns) % 4 == 0
    assert {turns[at : at + 4] for at in range(0, len(turns), 4)} in ({"ABBA"}, {"BAAB"})
    assert len(turns) >= 16


@pytest.mark.parametrize("seed", range(4))
def test_a_cell_that_crashes_on_one_side_costs_no_other(seed):
    both, _ = sides(fails=["mlx-cpu"])
    pairing = Pairing(both, Silent(), seed=seed)
    for pair in range(2):
        pairing.measure(pair, range(4))
    old, new = both
    crashed = [cell.key() for cell in new.cells if cell.backend == "mlx-cpu"]
    assert sorted(key for (key, _), found in new.ledger.kept.items() if found.status == "crashed") == sorted(crashed)
    assert {(cell.key(), pair) for cell in new.cells if cell.backend == "torch-cpu" for pair in range(2)} <= set(new.ledger.kept)
    assert {(cell.key(), 0) for cell in old.cells} <= set(old.ledger.kept), "the other side's status is known"
