"""What a backend can do here, asked of a child in its environment, and remembered until the environment changes."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from metalbench import __version__
from metalbench.harness.catalog import PACKAGE, Catalog
from metalbench.harness.environments import Environment, cache_folder, fingerprint
from metalbench.harness.executor import Ended, Worker
from metalbench.harness.host import accelerators
from metalbench.harness.protocol import Describe, Described, Event, Offer, Opened, Refused

PROBE_TIMEOUT = 120.0
PROBE_MEMORY = 8 << 30  #: bytes


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A backend's answer. ``offers`` maps each workload it can do to its variants; empty unless the status is ``ok``."""

    status: Literal["ok", "unavailable", "failed", "crashed", "timeout", "oom"]
    reason: str = ""
    facts: dict[str, str] = {}
    offers: dict[str, Offer] = {}


def probe(backends: Iterable[str], catalog: Catalog, environment: Environment, plugins: list[str]) -> dict[str, Capability]:
    """Each backend's capability, from the cache or from children that run side by side."""
    names = list(backends)
    workers: list[Worker] = []
    with ThreadPoolExecutor(max_workers=4) as pool:
        answers = [pool.submit(_cached, name, catalog, environment, plugins, workers) for name in names]
        try:
            return {name: answer.result() for name, answer in zip(names, answers, strict=True)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()
            raise


def _cached(name: str, catalog: Catalog, environment: Environment, plugins: list[str], workers: list[Worker]) -> Capability:
    framework, kind = catalog.backend(name)
    sources = [*(PACKAGE / "backends" / framework.name).glob("*"), *catalog.workload_files.values(), *map(Path, plugins)]
    stamps = sorted(f"{path}:{path.stat().st_mtime_ns}" for path in sources if path.is_file())
    identity = "|".join([__version__, name, fingerprint(environment), *sorted(accelerators()), *stamps])
    file = cache_folder() / "probes" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=Capability)
    except (OSError, msgspec.DecodeError):
        pass
    needed = framework.devices[kind].accelerator
    if needed and needed not in accelerators():
        return Capability(
            status="unavailable", reason=f"this machine has no {needed.upper() if needed == 'cuda' else needed.title()} device"
        )
    capability = _ask(name, catalog, environment, plugins, workers)
    if capability.status == "ok":  # anything else may be put right at any moment
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(".new")
        scratch.write_bytes(msgspec.json.encode(capability))
        scratch.replace(file)
    return capability


def _ask(name: str, catalog: Catalog, environment: Environment, plugins: list[str], workers: list[Worker]) -> Capability:
    framework, kind = catalog.backend(name)
    with (
        tempfile.TemporaryDirectory(prefix="metalbench-") as folder,
        Worker(framework, kind, environment, Path(folder), plugins=plugins, memory_limit=PROBE_MEMORY) as worker,
    ):
        workers.append(worker)
        answer: Event | Ended = worker.open()
        if isinstance(answer, Opened):
            answer = worker.ask(Describe(), PROBE_TIMEOUT)
        match answer:
            case Described():
                return Capability(status="ok", facts=answer.facts, offers=answer.offers)
            case Refused():
                return Capability(status=answer.status, reason=answer.reason)
            case Ended(status, reason) if status in {"crashed", "timeout", "oom"}:
                return Capability(status=status, reason=reason)
            case _:
                return Capability(status="failed", reason=f"answered {type(answer).__name__}")
