"""The two that stay up: a scheduler, which is Dask's, and a machine that joins it, and joins again whenever it went away."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from typing import Any

from distributed import Client, Scheduler, Security, Worker

from metalbench.harness.errors import UsageError
from metalbench.harness.fleet.machine import EXTENSION, Machine
from metalbench.harness.fleet.messages import difference, versions
from metalbench.harness.fleet.security import is_local
from metalbench.harness.host import host

VERSIONS, MACHINES = "metalbench", "machines"  #: where a scheduler's metadata say who it is, and who joined
AGAIN = 1.0  #: seconds between attempts to join
LOCAL = "127.0.0.1"


async def serve(place: str, port: int, security: Security, dashboard: int, on_ready: Callable[[str, str], None]) -> None:
    """Run a scheduler until it is cancelled; ``on_ready`` hears its address and its dashboard's, which only this machine reaches.

    UsageError where it can't listen there.
    """
    protocol = "tls" if security.require_encryption else "tcp"
    scheduler = Scheduler(
        host=place, port=port, protocol=protocol, security=security, dashboard=True, dashboard_address=f"{LOCAL}:{dashboard}"
    )
    try:
        await scheduler
    except OSError as error:
        raise UsageError(
            f"The scheduler can't listen on {place}:{port}: {error.strerror or error}; choose another --host or --port."
        ) from error
    try:
        scheduler.task_metadata[VERSIONS] = versions()
        on_ready(scheduler.address, f"http://{LOCAL}:{scheduler.http_server.port}/status")
        await scheduler.finished()
    finally:
        await scheduler.close()


async def join(address: str, security: Security, machine: Machine, say: Callable[[str], None]) -> None:
    """Be a machine of the fleet until cancelled. UsageError where the scheduler is of another version, or isn't ours."""
    resources = tokens(machine)
    said = ""

    def tell(sentence: str) -> None:
        nonlocal said
        if sentence != said:
            say(sentence)
        said = sentence

    with tempfile.TemporaryDirectory(prefix="metalbench-") as folder:
        while True:
            try:
                await _introduce(address, security)
                await _work(address, security, machine, resources, folder, tell)
                tell(f"The scheduler at {address} has gone; waiting for it to come back.")
            except (OSError, TimeoutError):
                tell(f"There is no scheduler at {address} that can be spoken to; waiting for one.")
            except ValueError as error:  # so Dask's worker says that it is not let in
                if "name taken" not in str(error):
                    raise
                tell(f"A machine like this one ({host().key}) is in the fleet already; waiting for it to leave.")
            await asyncio.sleep(AGAIN)


def tokens(machine: Machine) -> dict[str, float]:
    """The worker's resources: the machine can do one thing at a time, as itself, on each backend that works here."""
    return {"accelerator": 1.0, own_token(host().key): 1.0} | {backend_token(backend): 1.0 for backend in machine.backends()}


def own_token(machine: str) -> str:
    """What only the machine with this key has: unlike its worker's address it stays when the worker is started again."""
    return f"machine:{machine}"


def backend_token(backend: str) -> str:
    return f"backend:{backend}"


def check(theirs: Any, address: str) -> None:
    """UsageError unless the scheduler with these versions is of ours."""
    if theirs is None:
        raise UsageError(f"The scheduler at {address} is not one of metalbench; start it by `bench fleet scheduler`.")
    if different := difference(versions(), theirs):
        raise UsageError(f"The fleet at {address} has other versions: {different}; install the same on all its machines.")


async def _introduce(address: str, security: Security) -> None:
    async with Client(address, security=security, asynchronous=True, set_as_default=False) as client:
        check(await client.get_metadata([VERSIONS], None), address)
        await client.set_metadata([MACHINES, host().key], host().facts)


async def _work(
    address: str, security: Security, machine: Machine, resources: dict[str, float], folder: str, tell: Callable[[str], None]
) -> None:
    """Until the scheduler goes away."""
    place = address.partition("://")[2].rpartition(":")[0].strip("[]")
    worker = Worker(
        address,
        name=host().key,
        nthreads=1,
        resources=resources,
        security=security,
        host=LOCAL if is_local(place) else None,  # else others have to reach it
        dashboard_address=f"{LOCAL}:0",
        memory_limit=0,
        local_directory=folder,
    )
    worker.extensions[EXTENSION] = machine
    try:
        await worker
        backends = ", ".join(name.partition(":")[2] for name in resources if name.startswith("backend:")) or "no backend"
        tell(f"{host().key} has joined {address} with {backends}.")
        await worker.finished()
    finally:
        await worker.close(timeout=1, executor_wait=False)  # what is being measured is finished, and kept here
