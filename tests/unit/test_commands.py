"""The commands that repeat a cell, read back by what reads the command line."""

import shlex
from itertools import pairwise

import msgspec
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from support.records import make_cell, make_run

from metalbench.harness import columns, environments
from metalbench.harness.catalog import Catalog
from metalbench.harness.cli import context, repro, run
from metalbench.harness.cli.options import case_filter
from metalbench.harness.recipes import Recipes
from metalbench.results import commands
from metalbench.workloads.base import matches

scalars = st.one_of(st.text(max_size=8), st.text("a,= É", max_size=4), st.integers(), st.booleans(), st.floats(allow_nan=False))
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)


def planned(cells, **options):
    plan = {"cells": cells, "options": {"suite": "quick"} | options}
    return msgspec.structs.replace(make_run(cells), plan=msgspec.Raw(msgspec.json.encode(plan)))


def values(line, option):
    return [value for name, value in pairwise(line) if name == option]


@given(case=st.dictionaries(names, scalars, min_size=1, max_size=5), others=st.dictionaries(names, scalars, min_size=1, max_size=5))
def test_the_filters_admit_the_case_and_no_other(case, others):
    cell = make_cell(case=case)
    filters = [case_filter(text) for text in context.split(values(commands.repeated(planned([cell]), cell), "--case"))]
    assert matches(case, filters)
    for name, value in filters:
        assert str(case[name]).lower() == value.lower()
    left_out = [value for name, value in case.items() if name not in dict(filters)]
    assert all(isinstance(value, str) and (not value.strip() or "," in value or value != value.strip()) for value in left_out)


@pytest.mark.parametrize("name", ["torch-mps", "torch-cpu:torch==2.12.1", "torch-cpu:torch==2.12.1 numpy<2.5"])
def test_an_environment_is_named_as_it_was(name):
    backend = name.partition(":")[0]
    cell = make_cell(backend=backend, environment=name)
    assert chosen(cell, []) == [cell.column]


def test_an_environment_that_was_a_path_is_the_path_again(tmp_path):
    python = tmp_path / "a folder" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    (wanted,) = columns.parse(f"torch-cpu:{python}", Catalog(), Recipes())
    cell = make_cell(environment=wanted.column.environment.name)
    assert cell.environment.startswith("python:")
    assert chosen(cell, [wanted.column]) == [cell.column]


def chosen(cell, known):
    """The columns that the command line names."""
    line = shlex.split(shlex.join(commands.repeated(planned([cell], columns=known), cell)))
    found = columns.choose(values(line, "--backend"), values(line, "--env"), Catalog(), Recipes())
    return [wanted.column.key for wanted in found]


def test_packages_from_places_that_the_name_does_not_tell_are_taken_where_they_are():
    """Such a name ends with a hash of an index or a folder, from which nothing can be installed."""
    cell = make_cell(environment="torch-cpu:torch 3af2b1")
    column = environments.Column("torch-cpu", environments.Environment(cell.environment, "/made/bin/python"))
    assert values(commands.repeated(planned([cell], columns=[column]), cell), "--env") == ["torch-cpu:/made/bin/python"]


def test_what_is_taken_by_itself_is_not_named():
    cell = make_cell(environment="current", variant="default", protocol="latency-cold", case={"size": 8, "causal": True})
    line = shlex.join(commands.repeated(planned([cell], launches=4, budget=0.25, data_seed=3), cell))
    assert line == (
        "bench run --suite quick --workload w --case size=8,causal=true --backend torch-cpu --protocol latency-cold "
        "--launches 4 --budget 0.25 --seed 3"
    )


def understood(line):
    """What the command's own parser makes of the line; what was not given is left out, and ``each``, which is on where nothing is."""
    app = typer.Typer()
    for name, command in (("run", run.run), ("repro", repro.repro)):
        app.command(name)(command)
    command = typer.main.get_command(app).commands[line[1]]
    return {
        name: value
        for name, value in command.make_context(line[1], line[2:]).params.items()
        if value not in (None, False, "", ()) and name != "each"
    }


@pytest.mark.parametrize("word", ["--store=x", "-o", "-q", "--", "--resume", "$(reboot)", "a b"])
def test_no_word_of_a_record_becomes_an_option(word):
    cell = make_cell(backend=word, workload=word, variant=word, case={"size": word})
    measured = msgspec.structs.replace(planned([cell]), id=word)
    chosen = {"suite": "quick", "protocol": "latency", "case": (f"size={word}",)}
    assert understood(commands.repeated(measured, cell)) == chosen | dict.fromkeys(("backend", "workload", "variant"), (word,))
    script = commands.script(measured, cell)
    assert script == [] if word.startswith("-") else understood(script) == {"run": word, "cell": cell.key()}


@pytest.mark.parametrize(
    "place", ["--index-url https://x/ torch", "torch@https://x/", "torch --pre", "https://x/t.whl", "/usr --index-url=x torch", "git+ssh:x"]
)
def test_no_word_of_a_record_becomes_a_place_to_install_from(place):
    cell = make_cell(environment=f"torch-cpu:{place}")
    column = environments.Column("torch-cpu", environments.Environment(cell.environment, place))
    measured = planned([cell], columns=[column])
    assert commands.repeated(measured, cell) == commands.with_peaks(measured, cell) == []


def test_a_run_of_another_tool_has_no_command():
    cell = make_cell()
    foreign = msgspec.structs.replace(make_run([cell]), plan=msgspec.Raw(msgspec.json.encode({"cells": [cell]})))
    assert commands.repeated(foreign, cell) == commands.with_peaks(foreign, cell) == commands.script(foreign, cell) == []


def test_a_kernel_of_somebodys_own_is_given_by_its_folder_or_not_at_all():
    cell = make_cell(variant="kernel:mine")
    assert commands.repeated(planned([cell]), cell) == commands.script(planned([cell]), cell) == []
