"""Inputs and references, made once a case on the parent's side and memory-mapped by every worker: all backends get the same bytes.

A folder holds one ``.npy`` file an array. Its name is a hash of what the arrays depend on: workload, version, case, seed, and the
source of the workload's file and of every module of ``workloads`` that it imports, or that these do, so that an edit makes new ones.
"""

from __future__ import annotations

import ast
import hashlib
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from metalbench.harness.once import made_once
from metalbench.workloads.base import Array, Arrays, Case, Workload

WORKLOADS = Path(__file__).parent.parent / "workloads"


def prepare(workload: Workload[Any], case: Case, seed: int, source: Path, root: Path) -> Path:
    """The folder with the case's inputs and reference below ``root``, made if it isn't there. A half-made one never shows."""
    identity = [workload.name, workload.version, case.parameters(), seed, hashlib.sha256(_code(source)).hexdigest()]
    key = hashlib.sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()

    def make(folder: Path) -> None:
        inputs = workload.inputs(case, np.random.default_rng([seed, int(key[:8], 16)]))
        _write(folder / "inputs", inputs)
        _write(folder / "reference", workload.reference(case, inputs))

    return made_once(root / key[:32], make)


def load(folder: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """(inputs, reference), read-only memory maps."""
    return _read(folder / "inputs"), _read(folder / "reference")


def trim(root: Path, limit: int) -> None:
    """Remove the least recently used folders until the rest takes at most ``limit`` bytes."""
    folders = sorted((folder for folder in root.glob("*") if folder.is_dir()), key=lambda folder: folder.stat().st_mtime, reverse=True)
    total = 0
    for folder in folders:
        total += sum(file.stat().st_size for file in folder.rglob("*.npy"))
        if total > limit:
            shutil.rmtree(folder, ignore_errors=True)


def _code(source: Path) -> bytes:
    """The text of a workload's file and of the modules of ``workloads`` that it depends on."""
    texts: dict[Path, bytes] = {}
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file not in texts:
            texts[file] = file.read_bytes()
            waiting += [path for name in _imported(texts[file]) if (path := WORKLOADS / f"{name}.py").is_file()]
    return b"".join(texts[file] for file in sorted(texts))


@cache  # asked for every cell, of the same few files
def _imported(text: bytes) -> set[str]:
    """The names of the modules of ``workloads`` that a source imports anywhere."""
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return {name.split(".")[2] for name in names if name.startswith("metalbench.workloads.")}


def _write(folder: Path, arrays: Arrays) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)


def _read(folder: Path) -> dict[str, Array]:
    return {file.name.removesuffix(".npy"): np.load(file, mmap_mode="r") for file in sorted(folder.glob("*.npy"))}
