"""The client's side of a fleet: who is there, what each can do, and tasks done through lost workers and lost schedulers."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

import msgspec
from distributed import Client, KilledWorker, Security

from metalbench.harness.errors import MetalbenchError, UsageError
from metalbench.harness.fleet import machine as station
from metalbench.harness.fleet.messages import Event, Request, Result, Survey
from metalbench.harness.fleet.serving import MACHINES, VERSIONS, check, own_token
from metalbench.harness.fleet.session import LOOK, PATIENCE, Session, Task, addresses

FIRST = 100  #: the priority of a survey, which shall not wait behind another client's blocks


class FleetError(MetalbenchError):
    """The fleet is not there any more."""


class Fleet:
    """A connection to a scheduler that is made again when it is lost. Use as a context manager."""

    def __init__(self, address: str, security: Security) -> None:
        self._address, self._security = address, security
        self._client = self._connected(patience=0)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError, TimeoutError):
            self._client.close(timeout=2)

    def machines(self, pattern: str) -> dict[str, dict[str, str]]:
        """Key → facts of the machines that are there and whose key, name or chip matches. UsageError where there is none."""
        facts = self._client.get_metadata([MACHINES], {})
        there = {key: facts.get(key, {}) for key in addresses(self._client)}
        found = {key: own for key, own in there.items() if any(_matches(word, pattern) for word in (key, own.get("name"), own.get("chip")))}
        if not there:
            raise UsageError(f"No machine has joined the fleet at {self._address}; `bench worker {self._address}` on each makes it join.")
        if not found:
            names = ", ".join(f"{own.get('name', '?')} ({key}, {own.get('chip', '?')})" for key, own in there.items())
            raise UsageError(f"No machine of the fleet is called {pattern!r}; there are {names}.")
        return found

    def survey(self, request: Request, machines: Sequence[str]) -> dict[str, Survey]:
        """What each machine makes of the request, all at once."""
        content = msgspec.json.encode(request)
        asked = {
            key: self._client.submit(
                station.survey, content, key=f"survey-{key}-{secrets.token_hex(4)}", resources={own_token(key): 1}, priority=FIRST
            )
            for key in machines
        }
        try:
            return {key: msgspec.json.decode(future.result(), type=Survey) for key, future in asked.items()}
        except (OSError, TimeoutError, KilledWorker) as error:
            raise FleetError(f"The fleet at {self._address} was lost while it was asked what it can do; try again.") from error

    def run(
        self,
        tasks: Sequence[Task],
        topic: str,
        on_event: Callable[[Event], None],
        on_result: Callable[[Task, Result], None],
    ) -> dict[str, str]:
        """Have all tasks done. Returns those that are not: the task's name → why. FleetError where the scheduler stays away."""
        left = {task.name: task for task in tasks}
        lost: dict[str, str] = {}
        while left:
            with contextlib.closing(Session(self._client, topic, left, lost)) as session:
                for arrived in session:
                    if isinstance(arrived, tuple):
                        on_result(*arrived)
                    else:
                        on_event(arrived)
            if left:  # the scheduler went away
                self._client.close(timeout=2)
                self._client = self._connected(PATIENCE)
        return lost

    def _connected(self, patience: float) -> Client:
        deadline = time.monotonic() + patience
        while True:
            try:
                client = Client(self._address, security=self._security, set_as_default=False)
            except (OSError, TimeoutError):
                if time.monotonic() > deadline:
                    hint = "" if self._security.require_encryption else " if it has certificates, --tls DIR is needed, and"
                    raise FleetError(f"No scheduler answers at {self._address}:{hint} `bench fleet scheduler` starts one.") from None
                time.sleep(LOOK)
                continue
            try:
                check(client.get_metadata([VERSIONS], None), self._address)
            except BaseException:
                client.close()
                raise
            return client


def _matches(word: str | None, pattern: str) -> bool:
    return word is not None and fnmatchcase(word.lower(), pattern.lower())
