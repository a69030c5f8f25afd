"""The command ``bench`` as a user runs it, and the workers it leaves behind, if any."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

PLUGINS = Path(__file__).parent.parent / "plugins"
MARK = "METALBENCH_TEST"  #: a variable that all processes of one test session have


class Bench:
    """The command in a folder of its own, as a user runs it."""

    def __init__(self, folder):
        self.folder = folder

    def configure(self, text="", plugins=()):
        files = ", ".join(f"'{PLUGINS / name}'" for name in plugins)
        (self.folder / "bench.toml").write_text(f"plugins = [{files}]\n{text}", "utf-8")

    def start(self, *arguments, cwd_below="", **options):
        command = [sys.executable, "-m", "metalbench.harness.cli.main", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder / cwd_below, text=True, encoding="utf-8", stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
        )

    def __call__(self, *arguments, timeout=240, **options):
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def only_sentence(result):
    assert result.returncode == 2, result.stdout + result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("bench: ")
    return lines[0]


def workers():
    """The worker processes that this test session has alive."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if "metalbench.harness.worker" in (process.info["cmdline"] or []):
            try:
                if process.environ().get(MARK) == os.environ[MARK] and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                pass
    return found
