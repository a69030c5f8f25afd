"""Many machines, one command: a real scheduler and real workers, which are killed, restarted, refused and outlived."""

import re
import signal
import subprocess

import pytest
from support.command import only_sentence, workers
from support.fleets import Fleet, free_port, wait_for

from metalbench.results.store import StoreError, open_store

pytest.importorskip("distributed")
pytestmark = pytest.mark.timeout(240)
MEASURE = ("--workload", "steady", "--launches", "2", "--budget", "0.05", "--store", "results.sqlite")
CELLS, LAUNCHES = 5, 2
LINE = re.compile(r"^\[\d+/\d+\] (\w+) · steady (.*?) · .* · launch (\d)", re.MULTILINE)


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    made.bench.configure('backends = ["numpy-cpu"]', plugins=["faulty.py", "steady.py"])
    yield made
    made.close()
    wait_for(lambda: not workers(), 20)


@pytest.fixture
def four(fleet):
    fleet.start_scheduler()
    for name in ("m1", "m2", "m3", "m4"):
        fleet.start_machine(name)
    fleet.joined("m1", "m2", "m3", "m4")
    return fleet


def stored(fleet):
    """Chip → its run and its records by size and launch; of the newest fleet run."""
    try:
        with open_store(str(fleet.folder / "results.sqlite")) as store:
            return {run.host.facts["chip"]: (run, by_cell(store.records(run.id))) for run in store.fleet("latest")}
    except StoreError:
        return {}


def by_cell(records):
    found = {(record.cell.case["size"], record.launch): record for record in records}
    assert len(found) == len(records)
    return found


def count(fleet):
    return sum(len(records) for _, records in stored(fleet).values())


def test_every_machine_measures_every_cell_and_they_stand_side_by_side(four):
    result = four.bench("run", "--fleet", four.address, *MEASURE, "--label", "shelf")
    assert result.returncode == 0, result.stdout + result.stderr
    runs = stored(four)
    assert set(runs) == {"m1", "m2", "m3", "m4"}
    assert len({run.host.key for run, _ in runs.values()}) == 4
    for run, records in runs.values():
        assert (run.state, run.label, len(records)) == ("finished", "shelf", CELLS * LAUNCHES)
        assert {record.measurement.status for record in records.values()} == {"ok"}
    assert len(set(LINE.findall(result.stdout))) == 4 * CELLS * LAUNCHES
    shown = four.bench("show", "shelf", "--store", "results.sqlite")
    assert "4 runs side by side" in shown.stdout

    result = four.bench("run", "--fleet", four.address, *MEASURE, "--any-machine", "--machine", "m[23]")
    assert result.returncode == 0, result.stdout + result.stderr
    runs = stored(four)
    assert set(runs) <= {"m2", "m3"}
    once = [key for _, records in runs.values() for key in records]
    assert len(once) == len(set(once)) == CELLS * LAUNCHES
    for run, records in runs.values():  # what each came to measure is what it had planned
        assert {cell.case["size"] for cell in run.cells()} == {size for size, _ in records}


def test_nothing_is_lost_when_machines_the_scheduler_and_the_client_go(four):
    client = four.bench.start("run", "--fleet", four.address, *MEASURE, "--launches", "6")
    wait_for(lambda: count(four) >= 6)
    four.kill("m1")
    four.kill("m2")
    wait_for(lambda: count(four) >= 14)
    four.kill("scheduler")
    four.start_scheduler()
    for name in ("m1", "m2"):
        four.start_machine(name)
    at = count(four)
    wait_for(lambda: count(four) >= at + 4)
    client.send_signal(signal.SIGINT)
    out, err = client.communicate(timeout=60)
    assert client.returncode == 130, out + err
    assert "Traceback" not in err
    before = stored(four)
    name = re.search(r"--resume (\S+)`", err)[1]
    assert {(chip, f"dtype=float32 size={size}", str(launch)) for chip, (_, own) in before.items() for size, launch in own} == set(
        LINE.findall(out)
    )
    assert "interrupted" in {run.state for run, _ in before.values()}

    wait_for(lambda: all("joined" in four.log(machine) for machine in ("m1", "m2", "m3", "m4")))
    resumed = four.bench("run", "--fleet", four.address, "--resume", name, "--store", "results.sqlite")
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    after = stored(four)
    for chip, (run, records) in after.items():
        assert (run.state, len(records)) == ("finished", CELLS * 6)
        assert all(records[key] == record for key, record in before[chip][1].items())
    assert not set(LINE.findall(resumed.stdout)) & set(LINE.findall(out))
    again = four.bench("run", "--fleet", four.address, "--resume", name, "--store", "results.sqlite")
    assert "finished already" in only_sentence(again)


def test_cells_of_a_machine_that_went_are_measured_by_another(four):
    client = four.bench.start("run", "--fleet", four.address, *MEASURE, "--any-machine", "--launches", "4")
    wait_for(lambda: count(four) >= 4)
    four.kill("m1")
    four.kill("m2")
    out, err = client.communicate(timeout=120)
    assert client.returncode == 0, out + err
    once = [key for _, records in stored(four).values() for key in records]
    assert len(once) == len(set(once)) == CELLS * 4


def test_a_plain_connection_to_a_fleet_with_certificates_is_refused(tmp_path):
    folder = tmp_path / "certificates"
    fleet = Fleet(tmp_path, folder)
    fleet.bench.configure('backends = ["numpy-cpu"]', plugins=["faulty.py", "steady.py"])
    assert fleet.bench("fleet", "certificates", str(folder)).returncode == 0
    assert (folder / "client-key.pem").stat().st_mode & 0o077 == 0
    assert "holds certificates already" in only_sentence(fleet.bench("fleet", "certificates", str(folder)))
    strangers = tmp_path / "strangers"
    fleet.bench("fleet", "certificates", str(strangers))
    try:
        fleet.start_scheduler()
        fleet.start_machine("m1")
        fleet.joined("m1")
        plain = fleet.address.replace("tls", "tcp")
        assert "--tls DIR is needed" in only_sentence(fleet.bench("run", "--fleet", plain, *MEASURE))
        assert "No scheduler answers" in only_sentence(fleet.bench("run", "--fleet", plain, "--tls", str(strangers), *MEASURE))
        assert "wants certificates" in only_sentence(fleet.bench("run", "--fleet", fleet.address, *MEASURE))
        result = fleet.bench("run", "--fleet", plain, "--tls", str(folder), *MEASURE)
        assert result.returncode == 0, result.stdout + result.stderr
    finally:
        fleet.close()


def test_other_versions_and_other_plugins_are_refused_in_one_sentence(fleet):
    fleet.start_scheduler()
    fleet.start_machine("old", "--version", "0.0.1")
    assert fleet.processes["old"].wait(60) == 2
    (sentence,) = fleet.log("old").strip().splitlines()
    assert "has other versions: metalbench 0.1" in sentence
    assert "0.0.1 here" in sentence

    fleet.start_machine("m1")
    fleet.joined("m1")
    fleet.bench.configure('backends = ["numpy-cpu"]', plugins=["faulty.py", "steady.py", "paced.py"])
    sentence = only_sentence(fleet.bench("run", "--fleet", fleet.address, *MEASURE))
    assert "paced.py missing there" in sentence
    assert "No machine of the fleet is called 'm7'" in only_sentence(
        fleet.bench("run", "--fleet", fleet.address, "--machine", "m7", *MEASURE)
    )


def test_a_scheduler_and_a_worker_listen_to_strangers_only_when_told_so(bench):
    for command in (("fleet", "scheduler", "--host", "0.0.0.0"), ("worker", "192.0.2.1:8786")):
        assert "--tls DIR" in only_sentence(bench(*command))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--machine", "m1"), "--fleet ADDRESS"),
        (("--fleet", "here", "--json", "out.json"), "--json"),
        (("--fleet", "here", "--resume", "--machine", "m1"), "--resume"),
        (("--fleet", "here", "--kernel", "mine"), "--kernel is for this machine"),
        (("--fleet", "http://here"), "not the address of a scheduler"),
    ],
)
def test_options_that_mean_nothing_together(bench, options, words):
    assert words in only_sentence(bench("run", *options))


def test_a_scheduler_that_is_not_there(bench):
    assert "No scheduler answers" in only_sentence(bench("run", "--fleet", f"127.0.0.1:{free_port()}"))


def test_a_worker_waits_for_its_scheduler(fleet):
    fleet.start_machine("m1")
    wait_for(lambda: "waiting for one" in fleet.log("m1"))
    fleet.start_scheduler()
    fleet.joined("m1")
    with pytest.raises(subprocess.TimeoutExpired):
        fleet.processes["m1"].wait(0.1)
