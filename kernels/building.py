"""Shared libraries from C++ and CUDA sources. Each is built once, outside of any clock, and kept by a hash of all that goes into it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from metalbench.backends.base import Unsupported

CUDA = ("nvcc", "-O3", "-std=c++17", "-arch=native", "-Xcompiler=-fPIC", "-shared")
# Clang takes no -march=native on Apple silicon.
THIS_CPU = "-mcpu=native" if platform.machine() in {"arm64", "aarch64"} else "-march=native"
CPU = ("c++", "-O3", "-std=c++20", THIS_CPU, "-fPIC", "-shared", "-pthread")
TIMEOUT = 240  #: seconds; a source that takes longer is taken for broken


@functools.cache
def library(source: Path, instance: str, compiler: tuple[str, ...] = CUDA, included: tuple[str, ...] = ()) -> ctypes.CDLL:
    """What ``built`` has built, loaded."""
    return ctypes.CDLL(str(built(source, instance, compiler, included)))


def built(source: Path, instance: str, compiler: tuple[str, ...], included: tuple[str, ...] = ()) -> Path:
    """``source`` with the lines ``instance`` after it, compiled. ``included``: folders of headers beside the source's own.

    Raises Unsupported where there is no such compiler, RuntimeError with its words where it refuses the source.
    """
    found = shutil.which(compiler[0])
    if found is None:
        raise Unsupported(f"the kernel {source.name} needs the compiler {compiler[0]}, which is not on the PATH")
    text = f'#include "{source.name}"\n{instance}\n'
    beside = [file for folder in (source.parent, Path(__file__).parent) for file in sorted(folder.iterdir())]
    headers = [file.read_text("utf-8") for file in beside if file.suffix in {".cu", ".cuh", ".cpp", ".h"}]
    stamp, machine = Path(found).stat(), platform.node()  # "native" is another CPU or GPU on another machine that shares the cache
    parts = [text, repr((compiler, found, stamp.st_mtime_ns, included, machine)), *headers]
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
    made = _folder() / f"{source.stem}-{key}.so"
    if not made.exists():
        _compile([found, *compiler[1:], f"-I{source.parent}", *(f"-I{folder}" for folder in included)], text, source.suffix, made)
    return made


def _folder() -> Path:
    """Where the worker keeps compiled code; elsewhere a folder that lives as long as the process."""
    kept = os.environ.get("METALBENCH_COMPILE_CACHE")
    folder = Path(kept) / "kernels" if kept else _scratch()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="kernels-"))


def _compile(command: Sequence[str], text: str, suffix: str, built: Path) -> None:
    """Into ``built``, whole or not at all, also when two processes do it at once."""
    with tempfile.TemporaryDirectory(dir=built.parent) as scratch:
        unit, made = Path(scratch) / f"unit{suffix}", Path(scratch) / built.name
        unit.write_text(text, "utf-8")
        answer = subprocess.run([*command, "-o", str(made), str(unit)], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if answer.returncode:
            raise RuntimeError(f"{Path(command[0]).name} refuses {built.stem}: {answer.stderr.strip()[-1000:]}")
        made.replace(built)
