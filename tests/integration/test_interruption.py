"""Ctrl-C and SIGKILL at random moments: nothing finished is lost, no worker stays, the run can be completed."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time

import pytest
from support.command import workers

from metalbench.results.store import StoreError, open_store

ARGUMENTS = ("run", "--workload", "steady", "--backend", "numpy-cpu", "--launches", "3", "--budget", "0.05", "--store", "results.sqlite")
CELLS, LAUNCHES = 5, 3
FINISHED = re.compile(r"^\[\d+/15\] steady (.*?) · .* · launch (\d)", re.MULTILINE)


def stored(folder):
    try:
        with open_store(str(folder / "results.sqlite")) as store:
            run = store.run("latest")
            return run, {(f"dtype=float32 size={r.cell.case['size']}", r.launch): r for r in store.records(run.id)}
    except StoreError as error:  # it was stopped before the run began
        if "holds no runs yet" not in str(error):
            raise
        return None, {}


def gone(patience=10):
    """Whether all workers of this session end within ``patience`` seconds: a killed parent's notice their closed pipe."""
    deadline = time.monotonic() + patience
    while workers():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
@pytest.mark.parametrize("moment", range(10))
def test_nothing_finished_is_lost_and_resume_completes(bench, kill, moment):
    bench.configure(plugins=["faulty.py", "steady.py"])
    process = bench.start(*ARGUMENTS)
    time.sleep(random.Random(f"{kill} {moment}").uniform(0.3, 5.5))
    os.kill(process.pid, kill)
    out, err = process.communicate(timeout=60)
    # stopped by the signal itself is what happens before a line of ours runs; a shell calls that 130 too
    assert process.returncode in ({130, 0, -signal.SIGINT} if kill == signal.SIGINT else {-signal.SIGKILL, 0}), err
    assert "Traceback" not in err
    assert gone()

    run, before = stored(bench.folder)
    printed = {(name, int(launch)) for name, launch in FINISHED.findall(out)}
    assert printed <= set(before)
    if run is None or run.state == "finished":
        return
    resumed = bench("run", "--resume", run.id, "--store", "results.sqlite", "--json", "out.json")
    assert resumed.returncode == 0, resumed.stderr
    repeated = {(name, int(launch)) for name, launch in FINISHED.findall(resumed.stdout)} & set(before)
    assert not repeated
    after_run, after = stored(bench.folder)
    assert after_run.state == "finished"
    assert len(after) == CELLS * LAUNCHES
    assert all(after[key] == before[key] for key in before)
    cells = json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]
    assert [cell["status"] for cell in cells] == ["ok"] * CELLS
    assert gone()


def test_resume_alone_takes_the_last_unfinished_run_and_says_so_when_there_is_none(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    assert bench(*ARGUMENTS, "--quiet").returncode == 0
    answer = bench("run", "--resume", "--store", "results.sqlite")
    assert answer.returncode == 2
    assert answer.stderr.startswith("bench: There is no unfinished run")


def test_the_cell_in_work_when_the_machine_went_down_is_quarantined(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    assert bench(*ARGUMENTS, "--launches", "1", "--quiet").returncode == 0
    with open_store(str(bench.folder / "results.sqlite")) as store:
        run = store.run("latest")
        record = store.records(run.id)[-1]
        fresh = store.run("latest")
        again = type(run)(id="again", started=run.started + 1, label="", host=fresh.host, plan=run.plan)
        store.begin(again)
        store.mark("again", record.cell.key(), 0, "an earlier boot")
    answer = bench("run", "--resume", "--store", "results.sqlite", "--json", "out.json")
    assert answer.returncode == 1
    cells = json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]
    quarantined = [cell for cell in cells if cell["case"] == record.cell.case]
    assert [(cell["status"], "quarantined" in cell["reason"]) for cell in quarantined] == [("crashed", True)]
    assert [cell["status"] for cell in cells if cell not in quarantined] == ["ok"] * (CELLS - 1)


def test_a_cell_that_was_in_work_when_only_the_program_ended_is_measured(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    process = bench.start(*ARGUMENTS)
    for line in process.stdout:
        if line.startswith("[3/"):
            process.kill()
            break
    process.communicate()
    assert bench("run", "--resume", "--store", "results.sqlite").returncode == 0


def test_two_runs_wait_for_each_other_and_say_so(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    first = bench.start(*ARGUMENTS)
    first.stdout.readline()  # it measures
    second = bench(*ARGUMENTS)
    _, err = first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0), err + second.stderr
    assert "Another run is measuring on this machine; waiting" in second.stderr
    with open_store(str(bench.folder / "results.sqlite")) as store:
        runs = [store.records(run.id) for run in store.runs(5)]
    later, earlier = runs
    assert min(record.started for record in later) > max(record.started for record in earlier)


def interpreter(folder):
    """A Python of its own that finds the packages of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "shared.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return ("--env", f"numpy-cpu:{folder}")


def test_an_environment_that_went_before_a_resume_costs_its_own_cells(bench):
    bench.configure(plugins=["faulty.py", "steady.py"])
    environments = [*interpreter(bench.folder / "stays"), *interpreter(bench.folder / "goes")]
    process = bench.start(*ARGUMENTS, *environments)
    for line in process.stdout:
        if "launch 1" in line:
            process.send_signal(signal.SIGINT)
            break
    process.communicate()
    shutil.rmtree(bench.folder / "goes")
    answer = bench("run", "--resume", "--store", "results.sqlite", "--json", "out.json")
    assert "Traceback" not in answer.stderr
    cells = json.loads((bench.folder / "out.json").read_text("utf-8"))["cells"]
    status = {(cell["environment"], cell["status"]) for cell in cells}
    assert status == {("python:stays", "ok"), ("python:goes", "unavailable")}
    assert all(len(cell["launches"]) == LAUNCHES for cell in cells if cell["status"] == "ok")
    assert all("goes" in cell["reason"] for cell in cells if cell["status"] == "unavailable")
