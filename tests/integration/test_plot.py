"""`bench plot` as a user runs it, on stores of known contents: any chart as a file, and one sentence where there is none."""

import xml.etree.ElementTree as ET

import msgspec
import pytest
from support.command import only_sentence
from support.records import make_cell, make_run, timed

from metalbench.harness.host import host
from metalbench.results.charts.kinds import NAMES
from metalbench.results.store import open_store

ONE = ("--case", "size=8", "--backend", "torch-cpu")


@pytest.fixture
def stored(bench):
    """Two runs on this machine, of two sizes by two backends, the second a fifth slower."""
    bench.configure('store = "results.sqlite"')
    cells = [make_cell(backend, size=size, case={"size": size}) for backend in ("torch-cpu", "jax-cpu") for size in (8, 16)]
    with open_store(str(bench.folder / "results.sqlite")) as store:
        for number, (name, factor) in enumerate((("before", 1.0), ("after", 1.2))):
            records = [
                timed(cell, launch, [cell.case["size"] * 1e5 * factor * (1 + launch / 1000)] * 3) for cell in cells for launch in range(6)
            ]
            run = msgspec.structs.replace(make_run(cells, name=name, started=1e9 + number), host=host(), state="finished")
            store.receive(run, records)
    return bench


CHARTS = {
    "heatmap": ("heatmap",),
    "scaling": ("scaling",),
    "roofline": ("roofline", "before"),
    "distribution": ("distribution", *ONE),
    "sequence": ("sequence", "before", *ONE),
    "history": ("history", *ONE),
    "intervals": ("intervals", "--base", "before"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_can_be_had_as_a_file(stored, name):
    drawn = stored("plot", *CHARTS[name], "-o", "chart.svg")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout.startswith("chart.svg: ")
    texts = [element.text for element in ET.fromstring((stored.folder / "chart.svg").read_bytes()).iter() if element.text]
    title = drawn.stdout.removeprefix("chart.svg: ").strip()
    assert any(title.startswith(text) for text in texts), "its title is in the picture"


def test_the_help_names_them_all(bench):
    told = bench("plot", "--help").stdout
    assert all(name in told for name in NAMES)


def test_the_ending_says_as_what(stored):
    assert stored("plot", "heatmap", "--output", "chart.PNG").returncode == 0
    assert (stored.folder / "chart.PNG").read_bytes().startswith(b"\x89PNG\r\n")


def test_a_chart_of_one_cell_names_it_and_a_file_may_be_its_source(stored):
    stored("export", "jsonl", "before", "-o", "runs.jsonl")
    drawn = stored("plot", "distribution", "runs.jsonl", *ONE, "--store", "empty.sqlite", "-o", "chart.svg")
    assert drawn.returncode == 0, drawn.stderr
    assert "w size=8 · torch-cpu · fused. Samples by launch" in drawn.stdout


def test_intervals_are_those_that_compare_draws(stored):
    assert stored("plot", "intervals", "after", "--base", "before", "-o", "plot.svg").returncode == 0
    assert stored("compare", "before", "after", "--svg", "compare.svg").returncode == 0
    assert (stored.folder / "plot.svg").read_bytes() == (stored.folder / "compare.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("scalling", "-o", "c.svg"), "There is no chart called 'scalling'; did you mean scaling"),
        (("heatmap", "-o", "c.pdf"), "let it end in .svg or .png"),
        (("heatmap", "-o", "no/where.svg"), "no/where.svg can't be written"),
        (("heatmap", "nightly", "-o", "c.svg"), "no run called 'nightly'"),
        (("heatmap", "--workload", "other", "-o", "c.svg"), "Run after has timed no cell that these options admit"),
        (("distribution", "-o", "c.svg"), "These options admit 4 cells: w size=8 · torch-cpu · fused; "),
        (("history", "-o", "c.svg"), "These options admit 4 series: "),
        (("history", "--workload", "other", "-o", "c.svg"), "no series of the machine of run after"),
        (("scaling", "--case", "size=8", "-o", "c.svg"), "lacks cells that differ in their sizes alone"),
        (("intervals", "-o", "c.svg"), "name that by --base"),
        (("heatmap", "--base", "before", "-o", "c.svg"), "heatmap is of one run"),
        (("intervals", "--base", "before", "--workload", "other", "-o", "c.svg"), "have timed no cell both that these options admit"),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_file(stored, arguments, words):
    assert words in only_sentence(stored("plot", *arguments))
    assert not list(stored.folder.glob("c.*"))


def test_another_machine_needs_across(stored):
    cell = make_cell(case={"size": 8})
    with open_store(str(stored.folder / "results.sqlite")) as store:
        run = msgspec.structs.replace(make_run([cell], name="there", started=2e9), host=msgspec.structs.replace(host(), key="elsewhere"))
        store.receive(run, [timed(cell, launch, [10**6]) for launch in range(5)])
    assert "--across" in only_sentence(stored("plot", "intervals", "there", "--base", "before", "-o", "c.svg"))
    assert stored("plot", "intervals", "there", "--base", "before", "--across", "-o", "c.svg").returncode == 0


def test_several_families_are_named_so_that_one_can_be_chosen(stored):
    cells = [make_cell(case={"size": size, "kind": kind}) for kind in ("real", "complex") for size in (8, 16)]
    with open_store(str(stored.folder / "results.sqlite")) as store:
        run = msgspec.structs.replace(make_run(cells, name="kinds", started=2e9), host=host())
        store.receive(run, [timed(cell, 0, [10**6]) for cell in cells])
    sentence = only_sentence(stored("plot", "scaling", "-o", "c.svg"))
    assert "2 charts: w: time of a call by size; kind=real; w: time of a call by size; kind=complex" in sentence
    assert stored("plot", "scaling", "--case", "kind=real", "-o", "c.svg").returncode == 0
