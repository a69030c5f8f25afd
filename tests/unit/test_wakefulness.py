"""Staying awake, by a caffeinate of our own making; and clocks of which one stops in sleep."""

import ctypes
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from metalbench.harness.wakefulness import LEAST_SLEEP, asleep_ns, awake, user_initiated

pytestmark = pytest.mark.timeout(30)  # a caffeinate that isn't started never writes into the pipe


@pytest.fixture
def caffeinate(tmp_path, monkeypatch):
    """A caffeinate that says into a pipe who it is and what it was asked, and then stays; gives the reader of that line."""
    pipe = tmp_path / "said"
    os.mkfifo(pipe)
    command = tmp_path / "caffeinate"
    command.write_text(f'#!/bin/sh\necho "$$ $*" > {pipe}\nexec /bin/sleep 600\n', "utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")

    def said():
        pid, *arguments = pipe.read_text("utf-8").split()  # waits until the line was written
        return int(pid), arguments

    return said


def test_the_machine_is_kept_awake_for_the_block_and_no_longer(caffeinate):
    with awake():
        pid, arguments = caffeinate()
        assert arguments == ["-dims", "-w", str(os.getpid())]
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        assert os.getpgid(pid) != os.getpgid(0), "Ctrl-C in the terminal doesn't reach it"
    assert not psutil.pid_exists(pid)


def test_an_error_in_the_block_ends_it_too(caffeinate):
    started = []

    def interrupted():
        with awake():
            started.append(caffeinate()[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not psutil.pid_exists(*started)


def test_without_caffeinate_the_block_runs_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "darwin")
    ran = False
    with awake():
        ran = True
    assert ran


def test_elsewhere_nothing_is_started(monkeypatch):
    def start(*arguments, **options):
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(sys, "platform", "linux")
    with awake():
        pass


@pytest.mark.parametrize(("answer", "done"), [(0, True), (1, False)])
def test_quality_of_service_is_set_on_a_mac(monkeypatch, answer, done):
    asked = []
    library = SimpleNamespace(pthread_set_qos_class_self_np=lambda *arguments: asked.append(arguments) or answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_initiated() is done
    assert asked == [(0x19, 0)]
    monkeypatch.setattr(sys, "platform", "linux")
    assert user_initiated() is False
    assert len(asked) == 1


def test_a_system_without_that_call_is_no_error(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    monkeypatch.setattr(sys, "platform", "darwin")
    assert user_initiated() is False


class Clocks:
    """One clock runs on in sleep, one stops; each reading takes its time, longer when the thread is interrupted."""

    def __init__(self, running, waking, delays):
        self.running, self.waking, self.delays = running, waking, iter(delays)
        self.now, self.slept = 5_000_000_000, 0

    def read(self, clock):
        self.now += next(self.delays, 100)
        return {self.running: self.now, self.waking: self.now - self.slept}[clock]

    def sleep(self, duration):
        self.now += duration
        self.slept += duration


CLOCKS = {"linux": ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"), "darwin": ("CLOCK_MONOTONIC_RAW", "CLOCK_UPTIME_RAW")}


@pytest.mark.parametrize("system", CLOCKS)
def test_sleep_shows_and_an_interrupted_reading_does_not(monkeypatch, system):
    for number, name in enumerate(CLOCKS[system], start=40):
        monkeypatch.setattr(time, name, number, raising=False)
    monkeypatch.setattr(sys, "platform", system)
    clocks = Clocks(40, 41, [100, 30_000_000])  # 30 ms away between the first two readings
    start = asleep_ns(clocks.read)
    clocks.now += 3_600_000_000_000
    assert abs(asleep_ns(clocks.read) - start) <= LEAST_SLEEP, "an hour of work is no sleep"
    clocks.sleep(2_000_000_000)
    assert asleep_ns(clocks.read) - start == pytest.approx(2_000_000_000, abs=1000)


def test_an_unknown_system_never_sleeps(monkeypatch):
    monkeypatch.setattr(sys, "platform", "sunos5")
    assert asleep_ns(lambda _: 1 / 0) == 0


@pytest.mark.skipif(sys.platform not in CLOCKS, reason="no such clocks")
def test_on_this_machine_two_readings_agree():
    first = asleep_ns()
    assert first >= 0
    assert abs(asleep_ns() - first) <= LEAST_SLEEP
