"""What a backend can do in an environment, asked of a child there, and remembered until the environment changes."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from metalbench import __version__
from metalbench.harness.capability import Capability, obstacle, remedy
from metalbench.harness.catalog import PACKAGE, Catalog
from metalbench.harness.environments import Column, cache_folder, fingerprint
from metalbench.harness.executor import Ended, Worker
from metalbench.harness.host import accelerators
from metalbench.harness.protocol import Describe, Described, Event, Opened, Refused
from metalbench.harness.recipes import Recipes

PROBE_TIMEOUT = 180.0  #: seconds, on a cold disk
PROBE_MEMORY = 8 << 30  #: bytes


class Prober:
    """Asks backends what they can do. ``patience``: seconds after which one that has not answered is left."""

    def __init__(self, catalog: Catalog, recipes: Recipes, plugins: list[str], patience: float = PROBE_TIMEOUT) -> None:
        self._catalog, self._recipes, self._plugins = catalog, recipes, plugins
        self._deadline = time.monotonic() + patience
        self._patience = patience
        self._workers: list[Worker] = []

    def probe(self, columns: Iterable[Column]) -> dict[tuple[str, str], Capability]:
        """Each column's capability by its key, from the cache or from children that run side by side."""
        asked = {column.key: column for column in columns}
        with ThreadPoolExecutor(max_workers=8) as pool:
            answers = {key: pool.submit(self._capability, column) for key, column in asked.items()}
            try:
                return {key: answer.result() for key, answer in answers.items()}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in self._workers:
                    worker.kill()
                raise

    def _capability(self, column: Column) -> Capability:
        found = obstacle(column, self._catalog, self._recipes) or self._cached(column)
        if found.status == "ok" or found.remedy:
            return found
        return msgspec.structs.replace(found, remedy=remedy(found.cause, column, self._catalog, self._recipes))

    def _cached(self, column: Column) -> Capability:
        framework, _ = self._catalog.backend(column.backend)
        own = sorted((PACKAGE / "backends" / framework.name).glob("*"))
        sources = [*own, *self._catalog.workload_files.values(), *map(Path, self._plugins)]
        stamps = sorted(f"{path}:{path.stat().st_mtime_ns}" for path in sources if path.is_file())
        identity = "|".join([__version__, column.backend, fingerprint(column.environment), *sorted(accelerators()), *stamps])
        file = cache_folder() / "probes" / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.json"
        try:
            return msgspec.json.decode(file.read_bytes(), type=Capability)
        except (OSError, msgspec.DecodeError):
            pass
        capability = self._ask(column)
        if capability.status == "ok":  # anything else may be put right at any moment
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as scratch:
                scratch.write(msgspec.json.encode(capability))
            Path(scratch.name).replace(file)
        return capability

    def _ask(self, column: Column) -> Capability:
        framework, kind = self._catalog.backend(column.backend)
        with (
            tempfile.TemporaryDirectory(prefix="metalbench-") as folder,
            Worker(framework, kind, column.environment, Path(folder), plugins=self._plugins, memory_limit=PROBE_MEMORY) as worker,
        ):
            self._workers.append(worker)
            answer: Event | Ended = worker.open(self._time_left())
            if isinstance(answer, Opened):
                answer = worker.ask(Describe(), self._time_left())
        match answer:
            case Described():
                return Capability(status="ok", facts=answer.facts, offers=answer.offers, absent=answer.absent)
            case Refused():
                return Capability(status=answer.status, cause=answer.cause, reason=answer.reason)
            case Ended("timeout", _):
                reason = f"{framework.title} gave no answer within {self._patience:g} s"
                return Capability(status="timeout", cause="no answer", reason=reason)
            case Ended(status, reason) if status in {"crashed", "oom"}:
                return Capability(status=status, cause="crash", reason=reason)
            case _:
                return Capability(status="failed", cause="broken", reason=f"answered {type(answer).__name__}")

    def _time_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0.1)
