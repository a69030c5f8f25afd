"""What macOS prints, as its users showed it in public, from Monterey on an M1 to macOS 26; names and numbers of no one's machine."""

import ctypes
import subprocess
from types import SimpleNamespace

import pytest

from metalbench.harness import macos

GPU = """+-o AGXAcceleratorG13X  <class AGXAcceleratorG13X, id 0x100000a90, registered, matched, active, busy 0 (144910 ms), retain 104>
    {
      "vendor-id" = <6b100000>
      "AGCInfo" = {"fLastSubmissionPID"=615,"fSubmissionsSinceLastCheck"=0,"fBusyCount"=0}
      "MetalPluginName" = "AGXMetalG13X"
      "IONameMatched" = "gpu,t6000"
      "GPUConfigurationVariable" = {"num_gps"=4,"gpu_gen"=13,"usc_gen"=2,"num_cores"=40,"num_mgpus"=2,"num_frags"=32}
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Alloc system memory"=23611097088,"Device Utilization %"=25}
      "model" = "Apple M1 Max"
      "gpu-core-count" = 32
      "IOClass" = "AGXAcceleratorG13X"
    }

"""
GPU_AMD = """+-o AMDRadeonX6000_AMDNavi14GraphicsAccelerator  <class AMDRadeonX6000_AMDNavi14GraphicsAccelerator, id 0x100000488>
    {
      "IOClass" = "AMDRadeonX6000_AMDNavi14GraphicsAccelerator"
      "PerformanceStatistics" = {"vramFreeBytes"=3221225472,"Device Utilization %"=17,"GPU Activity(%)"=17}
    }
"""
BATTERY = "Now drawing from 'Battery Power'\n -InternalBattery-0 (id=24313955)\t16%; discharging; 2:08 remaining present: true\n"
HELD = "Now drawing from 'AC Power'\n -InternalBattery-0 (id=23265379)\t80%; AC attached; not charging present: true\n"
DESKTOP = "Now drawing from 'AC Power'\n"
UPS = "Now drawing from 'UPS Power'\n -Back-UPS ES 700 (id=1234)\t87%; discharging; (no estimate)\n"
LAPTOP_BY_UPS = """Now drawing from 'AC Power'
 -Back-UPS ES 700 (id=1234)\t87%; charging present: true
 -InternalBattery-0 (id=7602275)\t100%; charged; 0:00 remaining present: true
"""
SETTINGS_MONTEREY = """System-wide power settings:
Currently in use:
 lidwake              1
 standby              1
 hibernatefile        /var/vm/sleepimage
 displaysleep         28
 sleep                1 (sleep prevented by sharingd)
 lowpowermode         {}
 disksleep            0
"""
SETTINGS_SEQUOIA = """System-wide power settings:
 SleepDisabled\t\t0
Currently in use:
 Sleep On Power Button 1
 powermode            {}
 standby              1
 sleep                1 (sleep prevented by powerd, caffeinate)
 displaysleep         120
"""
SETTINGS_DESKTOP_2016 = """System-wide power settings:
 DestroyFVKeyOnStandby\t\t0
Currently in use:
 standbydelay         10800
 gpuswitch            2
 sleep                0
"""
# The words "CPU Power notify" after the date go to the other stream, so that the first limit follows it on its line.
HEAT_INTEL = """Note: No thermal warning level has been recorded
Note: No performance warning level has been recorded
2021-05-02 11:51:57 +0800 \tCPU_Scheduler_Limit \t= 100
\tCPU_Available_CPUs \t= 12
\tCPU_Speed_Limit \t= 100
"""
HEAT_INTEL_HOT = """2020-06-26 12:30:37 +0200 Thermal Warning Level = 5
Note: No performance warning level has been recorded
2020-06-26 12:30:37 +0200 \tCPU_Speed_Limit \t= 28
\tCPU_Scheduler_Limit \t= 40
\tCPU_Available_CPUs \t= 8
"""
HEAT_M1 = """Note: No thermal warning level has been recorded
Note: No performance warning level has been recorded
Note: No CPU power status has been recorded
"""
KERNEL_VENTURA = """hw.model: Mac14,6
hw.memsize: 103079215104
machdep.cpu.brand_string: Apple M2 Max
debug.iogpu.wired_limit: 85899345920
"""
KERNEL_TAHOE = """hw.model: Mac16,5
hw.memsize: 137438953472
machdep.cpu.brand_string: Apple M4 Max
iogpu.wired_limit_mb: 0
"""
PROCESSES = """    1 128:07.45 /sbin/launchd
  395 1204:33.02 /System/Library/PrivateFrameworks/SkyLight.framework/Resources/WindowServer
  842   0:30.10 /Applications/Google Chrome.app/Contents/MacOS/Google Chrome
 9001   0:00.00 (python3.12)
 9002   0:00.07 -zsh
"""


@pytest.mark.parametrize(
    ("text", "cores"),
    [(GPU, "32"), (GPU.replace("= 32", "= <28000000>"), "40"), (GPU_AMD, None), ("", None), (GPU.replace("gpu-core-count", "model"), None)],
)
def test_gpu_cores_are_those_enabled_not_those_on_the_die(text, cores):
    assert macos.gpu_cores(text) == cores


@pytest.mark.parametrize(
    ("text", "source", "level"),
    [
        (BATTERY, "battery", "16 %"),
        (HELD, "mains", "80 %"),
        (DESKTOP, "mains", None),
        (UPS, "ups", None),
        (LAPTOP_BY_UPS, "mains", "100 %"),
        (DESKTOP.replace("Now", "Currently"), "mains", None),  # before 10.7
        ("", None, None),
    ],
)
def test_power(text, source, level):
    assert macos.power_source(text) == source
    assert macos.battery_level(text) == level


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (SETTINGS_MONTEREY.format(1), "low"),
        (SETTINGS_MONTEREY.format(0), "automatic"),
        (SETTINGS_SEQUOIA.format(1), "low"),
        (SETTINGS_SEQUOIA.format(0), "automatic"),
        (SETTINGS_SEQUOIA.format(2), "high"),
        (SETTINGS_SEQUOIA.format(0) + " lowpowermode         1\n", "low"),
        (SETTINGS_DESKTOP_2016, None),
        ("", None),
    ],
)
def test_power_mode_by_either_name(text, mode):
    assert macos.power_mode(text) == mode


def test_thermal_limits():
    assert macos.thermal_limits(HEAT_INTEL) == {"cpu_speed_limit": "100 %", "cpu_scheduler_limit": "100 %"}
    assert macos.thermal_limits(HEAT_INTEL_HOT) == {"cpu_speed_limit": "28 %", "cpu_scheduler_limit": "40 %", "thermal_warning": "5"}
    assert macos.thermal_limits(HEAT_M1) == {}, "no record is no statement"


def test_gpu_limit_is_in_mebibytes_on_every_system():
    assert macos.gpu_limit_mib(macos.sysctl_values(KERNEL_VENTURA)) == "81920"
    assert macos.gpu_limit_mib(macos.sysctl_values(KERNEL_TAHOE)) == "default"
    assert macos.gpu_limit_mib({"iogpu.wired_limit_mb": "98304"}) == "98304"
    assert macos.gpu_limit_mib({"debug.iogpu.wired_limit": "0"}) == "default"
    assert macos.gpu_limit_mib({}) is None


def test_rosetta_needs_both_an_intel_python_and_a_translating_kernel():
    assert macos.translated({"sysctl.proc_translated": "1"}, "x86_64") == "yes"
    assert macos.translated({"sysctl.proc_translated": "1"}, "arm64") == "no", "only the shell is translated"
    assert macos.translated({"sysctl.proc_translated": "0"}, "arm64") == "no"
    assert macos.translated({}, "x86_64") is None, "an Intel Mac knows no such name"


def test_processes_by_name_and_seconds():
    assert macos.process_seconds(PROCESSES) == {
        1: ("launchd", pytest.approx(7687.45)),
        395: ("WindowServer", pytest.approx(72273.02)),
        842: ("Google Chrome", pytest.approx(30.10)),
        9001: ("(python3.12)", 0.0),
        9002: ("-zsh", pytest.approx(0.07)),
    }


class Notifications:
    """The part of libSystem that hands out states published under a name."""

    def __init__(self, level, registering=0, getting=0):
        self.level, self.registering, self.getting, self.tokens = level, registering, getting, []

    def notify_register_check(self, name, token):
        assert name == b"com.apple.system.thermalpressurelevel"
        token._obj.value = 77
        if not self.registering:
            self.tokens.append(77)
        return self.registering

    def notify_get_state(self, token, level):
        assert token.value in self.tokens
        level._obj.value = self.level
        return self.getting

    def notify_cancel(self, token):
        self.tokens.remove(token.value)


def test_thermal_pressure_is_asked_anew_each_time(monkeypatch):
    system = Notifications(0)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: system)
    for system.level, expected in [(0, "nominal"), (2, "heavy"), (1, "moderate"), (4, "sleeping"), (30, None)]:
        assert macos.thermal_state() == expected
        assert system.tokens == [], "each reading gives back its registration"


@pytest.mark.parametrize("system", [Notifications(2, registering=9), Notifications(2, getting=9), SimpleNamespace()])
def test_thermal_pressure_is_unknown_where_the_system_gives_none(monkeypatch, system):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: system)
    assert macos.thermal_state() is None


@pytest.fixture
def mac(tmp_path, monkeypatch):
    """A PATH of its own, and a way to put commands on it that print a text and end with a status."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(macos, "thermal_state", lambda: "nominal")
    monkeypatch.setattr(macos.platform, "machine", lambda: "arm64")

    def command(name, cases, status=0):
        branches = "".join(f"'{arguments}') /bin/cat <<'END'\n{text.rstrip()}\nEND\n;;\n" for arguments, text in cases.items())
        file = tmp_path / name
        file.write_text(f'#!/bin/sh\ncase "$*" in\n{branches}*) exit 64;;\nesac\nexit {status}\n', "utf-8")
        file.chmod(0o755)

    return command


def test_a_laptop_in_all(mac, tmp_path):
    mac("sysctl", {f"-i {' '.join(macos.FACTS)}": KERNEL_TAHOE, "-i sysctl.proc_translated kern.hv_vmm_present": "kern.hv_vmm_present: 0"})
    mac("sw_vers", {"-productVersion": "26.5", "-buildVersion": "25F71"})
    mac("ioreg", {"-r -d 1 -w 0 -c IOAccelerator": GPU})
    mac("pmset", {"-g": SETTINGS_SEQUOIA.format(2), "-g batt": HELD, "-g therm": HEAT_M1})
    mac("xcode-select", {"-p": str(tmp_path)})
    assert macos.hardware() == {
        "model": "Mac16,5",
        "chip": "Apple M4 Max",
        "memory_gib": "128",
        "version": "26.5",
        "build": "25F71",
        "gpu_cores": "32",
        "gpu_limit_mib": "default",
    }
    assert macos.conditions() == {
        "power": "mains",
        "battery": "80 %",
        "low_power_mode": "off",
        "high_power_mode": "on",
        "thermal": "nominal",
        "command_line_tools": "installed",
        "virtual_machine": "no",
    }


def test_a_system_without_these_commands_has_no_facts(mac):
    assert macos.hardware() == {}
    assert macos.conditions() == {"thermal": "nominal"}
    assert macos.processes() == {}


def test_what_a_failing_command_printed_is_no_fact(mac):
    mac("pmset", {"-g": SETTINGS_MONTEREY.format(1), "-g batt": BATTERY, "-g therm": HEAT_INTEL_HOT}, status=1)
    assert macos.conditions() == {"thermal": "nominal"}


def test_a_hanging_command_is_given_up(mac, monkeypatch):
    def run(*arguments, timeout, **options):
        raise subprocess.TimeoutExpired(arguments, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert macos.hardware() == {}
    assert macos.conditions() == {"thermal": "nominal"}


@pytest.mark.parametrize(("path", "status"), [("", 2), ("/Library/Developer/CommandLineTools gone in the upgrade", 0)])
def test_command_line_tools_missing(mac, path, status):
    mac("xcode-select", {"-p": path}, status)
    assert macos.conditions()["command_line_tools"] == "missing"
