"""The machine's state: what takes the processor is found on the real machine, what is doubtful by what is known of it."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from metalbench.harness import conditions as state
from metalbench.harness.conditions import Doubt, conditions, doubts, gpu_state, heaviest

QUIET = {
    "load": "0.12",
    "busy_processes": "WindowServer 31 %",
    "power": "mains",
    "battery": "80 %",
    "low_power_mode": "off",
    "thermal": "nominal",
    "cpu_speed_limit": "100 %",
    "cpu_scheduler_limit": "100 %",
    "thermal_warning": "0",
    "rosetta": "no",
    "command_line_tools": "installed",
    "virtual_machine": "no",
    "governor": "performance",
    "gpu": "35 °C 107.24 W",
    "gpu_throttle": "none",
}


def test_a_quiet_machine_leaves_no_doubt():
    assert doubts(QUIET) == []
    assert doubts({}) == [], "what isn't known is no reason"


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ({"power": "battery"}, "battery"),
        ({"power": "ups"}, "battery"),
        ({"low_power_mode": "on"}, "Low Power Mode"),
        ({"thermal": "moderate"}, "thermal pressure is moderate"),
        ({"cpu_speed_limit": "62 %"}, "CPU speed limit is 62 %"),
        ({"cpu_scheduler_limit": "40 %"}, "CPU scheduler limit is 40 %"),
        ({"thermal_warning": "5"}, "thermal warning is 5"),
        ({"load": "1.83"}, "1.83"),
        ({"busy_processes": "mds_stores 145 %, Google Chrome 22 %"}, "mds_stores 145 %"),
        ({"busy_processes": "a 20 %, b 20 %, c 20 %"}, "a 20 %, b 20 %, c 20 %"),
        ({"rosetta": "yes"}, "Rosetta"),
        ({"command_line_tools": "missing"}, "Command Line Tools"),
        ({"virtual_machine": "yes"}, "virtual machine"),
        ({"governor": "performance powersave"}, "powersave"),
        ({"gpu_throttle": "power cap, hardware slowdown"}, "power cap, hardware slowdown"),
    ],
)
def test_each_trouble_is_one_doubt_that_names_it(condition, names):
    (doubt,) = doubts({**QUIET, **condition})
    assert isinstance(doubt, Doubt)
    assert names in doubt.problem
    for sentence in doubt:
        assert sentence.endswith(".")
        assert sentence[0].isupper()


def test_work_that_has_just_ended_is_no_trouble():
    assert doubts({**QUIET, "load": "0.83"}) == []


def test_troubles_add_up_but_one_cause_is_told_once():
    hot = {"thermal": "heavy", "cpu_speed_limit": "62 %"}
    busy = {"load": "3.10", "busy_processes": "ffmpeg 795 %"}
    found = doubts({**QUIET, **hot, **busy, "power": "battery"})
    assert len(found) == 3
    assert "3.10" not in " ".join(doubt.problem for doubt in found), "the process explains the load"


def test_heaviest_are_those_that_worked_in_between_not_before():
    before = {1: ("old", 5000.0), 2: ("busy", 10.0), 3: ("light", 1.0), 4: ("ours", 0.0), 5: ("medium", 2.0), 6: ("fourth", 0.0)}
    after = {1: ("old", 5000.0), 2: ("busy", 11.0), 3: ("light", 1.05), 4: ("ours", 0.5), 5: ("medium", 2.25), 6: ("fourth", 0.12)}
    after[7] = ("new", 0.2)
    assert heaviest(before, after, 0.5, {4}) == [("busy", 2.0), ("medium", 0.5), ("new", 0.4)]
    assert heaviest(before, before, 0.5, set()) == []
    assert heaviest({1: ("reused", 90.0)}, {1: ("reused", 0.0)}, 0.5, set()) == []


def test_another_process_at_work_is_seen_and_our_own_is_not():
    with subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE) as spinner:
        spinner.stdout.readline()  # it is in its loop
        try:
            before = state._processes()
            while (after := state._processes())[spinner.pid][1] - before[spinner.pid][1] < 0.1:
                pass
            strangers = set(after) - {spinner.pid}
            ((name, share),) = heaviest(before, after, 0.1, strangers)
            assert "python" in name.lower()
            assert share >= 0.99
            assert heaviest(before, after, 0.1, strangers | state._family()) == []
            assert os.getpid() in state._family()
        finally:
            spinner.kill()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0x0000000000000001, 35, 107.24 W\n", {"gpu": "35 °C 107.24 W", "gpu_throttle": "none"}),  # idle
        ("0x0000000000000000, 61, 612.80 W\n", {"gpu": "61 °C 612.80 W", "gpu_throttle": "none"}),
        ("0x0000000000000004, 74, 699.10 W\n", {"gpu": "74 °C 699.10 W", "gpu_throttle": "power cap"}),
        (
            "0x0000000000000048, 91, 300.00 W\n0x000000000000004C, 40, 70.00 W\n",
            {"gpu": "91 °C 300.00 W, 40 °C 70.00 W", "gpu_throttle": "hardware slowdown, hardware thermal slowdown, power cap"},
        ),
        ("[N/A], 45, [N/A]\n", {"gpu": "45 °C"}),
        ("No devices were found\n", {}),
        ("", {}),
    ],
)
def test_gpu_state(text, expected):
    assert gpu_state(text) == expected


def test_conditions_of_this_machine_are_text_and_can_be_judged():
    found = conditions()
    assert float(found["load"]) >= 0
    assert all(isinstance(value, str) and value for value in found.values())
    assert all(isinstance(doubt, Doubt) for doubt in doubts(found))


def test_conditions_gather_what_the_parts_know(monkeypatch):
    class Battery:
        power_plugged, percent = False, 87.4

    clock = iter([100.0, 100.5])
    readings = iter([{8: ("indexer", 1.0), 9: ("us", 1.0)}, {8: ("indexer", 1.6), 9: ("us", 2.0)}])
    monkeypatch.setattr(state, "load", lambda: 0.25)
    monkeypatch.setattr(state, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    monkeypatch.setattr(state, "_processes", lambda: next(readings))
    monkeypatch.setattr(state, "_family", lambda: {9})
    monkeypatch.setattr(state.psutil, "sensors_battery", Battery)
    monkeypatch.setattr(state, "_nvidia_smi", lambda: "0x0000000000000020, 88, 250.00 W\n")
    monkeypatch.setattr(sys, "platform", "linux")
    found = conditions()
    found.pop("governor", None)  # this machine's own
    assert found == {
        "load": "0.25",
        "busy_processes": "indexer 120 %",
        "power": "battery",
        "battery": "87 %",
        "gpu": "88 °C 250.00 W",
        "gpu_throttle": "software thermal slowdown",
    }


def test_on_a_mac_its_own_words_are_asked(monkeypatch):
    readings = iter([{7: ("mds_stores", 3.0)}, {7: ("mds_stores", 30.0)}])
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(state, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    monkeypatch.setattr(state.macos, "processes", lambda: next(readings))
    monkeypatch.setattr(state.macos, "conditions", lambda: {"power": "ups", "thermal": "heavy"})
    monkeypatch.setattr(state, "_family", set)
    found = conditions()
    assert found["busy_processes"].startswith("mds_stores ")
    assert (found["power"], found["thermal"]) == ("ups", "heavy")


def test_children_of_our_children_are_our_own():
    with subprocess.Popen(["/bin/sh", "-c", "/bin/sleep 600 & echo $!; wait"], stdout=subprocess.PIPE) as shell:
        grandchild = int(shell.stdout.readline())
        try:
            assert {os.getpid(), shell.pid, grandchild} <= state._family()
            assert os.getppid() not in state._family()
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_a_laptop_on_mains(monkeypatch):
    monkeypatch.setattr(state.psutil, "sensors_battery", lambda: SimpleNamespace(power_plugged=True, percent=64.6))
    assert state._power() == {"power": "mains", "battery": "65 %"}


@pytest.mark.parametrize("battery", [None, type("Unknown", (), {"power_plugged": None, "percent": 50.0})])
def test_a_machine_without_a_battery_says_nothing_of_power(monkeypatch, battery):
    monkeypatch.setattr(state.psutil, "sensors_battery", lambda: battery)
    assert state._power() == {}


@pytest.mark.parametrize(("script", "expected"), [("echo '0x04, 70, 1 W'", "0x04, 70, 1 W\n"), ("echo broken driver; exit 9", "")])
def test_nvidia_smi_is_asked_and_believed_only_if_it_succeeds(tmp_path, monkeypatch, script, expected):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state._nvidia_smi() == ""
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    command.chmod(0o755)
    assert state._nvidia_smi() == expected
