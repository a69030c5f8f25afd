"""A run without what tells whose it is, for others to read. Only this machine's own names come from elsewhere than the run.

Out of every text that the run and its records hold, in whatever field, are taken:

- folders: of an absolute path the last part is left (``…/module.py``), on POSIX and on Windows; a home folder becomes ``~``;
- the user and the password in a URL; its host stays, unless it is a machine that measured or shares;
- user names, as whole words in any case: those of the home folders that the texts mention, and of who shares the run;
- host names, with and without their domain: the run's, and this machine's.

A name that is also an ordinary word is left where it stands by itself, since there it tells of nobody: one letter, a short number, an
account that many machines have, and the words of metalbench and of the run's own cells, so that a user called torch takes no
framework's name away. What runs are compared by stays: chip, GPU, revision, and what a cell is called. Of that the environment, and
values of a case that are more than a word, lose names and folders too; cells that were different ones remain so.
"""

from __future__ import annotations

import getpass
import platform
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from metalbench.results.places import home_owners, without_folders
from metalbench.results.record import Record, Run, RunState, Status

USER, HOST = "user", "host"  #: what stands where a name was
#: Names that tell of nobody: accounts on many machines, and what the texts of frameworks are full of.
COMMON = {
    *("root", "user", "users", "admin", "administrator", "runner", "ubuntu", "guest", "nobody", "default", "public", "shared", "all"),
    *("home", "host", "localhost", "metal", "metalbench", "cuda", "mps", "cpu", "gpu", "apple", "intel", "amd", "nvidia", "linux"),
    *("current", "imported", "darwin", "windows", "python", "numpy", "torch", "pytorch", "jax", "mlx", "tensorflow", "keras"),
}
CALLED = ("workload", "backend", "variant", "protocol", "policy")  #: what a cell is called, beside its environment and its case
_WORD = re.compile(r"[^\W_]+")
_PLAIN = re.compile(r"[\w.+-]+")


class Names(NamedTuple):
    """The names to take out, as they are written."""

    users: frozenset[str]
    hosts: frozenset[str]


def names(run: Run, records: Iterable[Record]) -> Names:
    """Whose names the run's texts may hold, as far as that shows, without those that are ordinary words."""
    return _names(run, _plain_data(run, records))


def scrub(run: Run, records: Iterable[Record]) -> tuple[Run, list[Record]]:
    """The same run and records without user name, host name and folders. To do it twice changes nothing more."""
    whole = _plain_data(run, records)
    found = _names(run, whole)
    whole[0]["host"]["facts"].pop("name", None)
    scrubber = _Scrubber(found, [run.host.facts.get(name, "") for name in ("chip", "gpu")], list(_cells(whole)))
    out: tuple[Run, list[Record]] = msgspec.json.decode(msgspec.json.encode(scrubber.everything(whole)), type=tuple[Run, list[Record]])
    return out


def _names(run: Run, whole: list[Any]) -> Names:
    ordinary = COMMON | set(_own_words(whole))
    users = {owner for text in _texts(whole) for owner in home_owners(text)} | _users_here()
    hosts = {run.host.facts.get("name", ""), platform.node()}
    hosts |= {name.partition(".")[0] for name in hosts}
    return Names(*(frozenset(name for name in found if _telling(name, ordinary)) for found in (users - hosts, hosts)))


class _Scrubber:
    """``kept``: phrases in which nothing is a name. ``cells``: those whose texts have to stay apart."""

    def __init__(self, found: Names, kept: Iterable[str], cells: Iterable[dict[str, Any]]) -> None:
        groups = {"kept": filter(None, kept), "host": _forms(found.hosts), "user": _forms(found.users)}
        choices = (f"(?P<{kind}>{'|'.join(map(re.escape, own))})" for kind, group in groups.items() if (own := _longest_first(group)))
        pattern = "|".join(choices)
        self._names = re.compile(rf"(?<![^\W_])(?:{pattern})(?![^\W_])", re.IGNORECASE) if pattern else None
        self._apart: dict[str, str] = {}
        self._keep_apart(list(dict.fromkeys(text for cell in cells for text in _cell_texts(cell))))

    def everything(self, value: Any) -> Any:
        """The same data with all its texts scrubbed, names of members too."""
        if isinstance(value, str):
            return self._apart.get(value) or self._text(value)
        if isinstance(value, list):
            return [self.everything(each) for each in value]
        if not isinstance(value, dict):
            return value
        scrubbed = {self._text(name): self.everything(each) for name, each in value.items()}
        if _is_cell(value):
            case = value["case"].items()
            scrubbed["case"] = {self._text(name): each if _stays(each) else self.everything(each) for name, each in case}
        return scrubbed

    def _text(self, text: str) -> str:
        bare = without_folders(text)
        return self._names.sub(_replacement, bare) if self._names else bare

    def _keep_apart(self, texts: list[str]) -> None:
        """Number those that would become the same: they are the names of cells."""
        scrubbed = {text: self._text(text) for text in texts}
        taken = {text for text, new in scrubbed.items() if new == text}
        for text, new in scrubbed.items():
            if new != text:
                free = (f"{new}{f' {number}' if number > 1 else ''}" for number in range(1, len(texts) + 2))
                self._apart[text] = next(name for name in free if name not in taken)
                taken.add(self._apart[text])


def _replacement(match: re.Match[str]) -> str:
    return {"host": HOST, "user": USER}.get(match.lastgroup or "", match[0])


def _plain_data(run: Run, records: Iterable[Record]) -> list[Any]:
    """Both as dictionaries and lists, so that no field is forgotten that is added some day."""
    found: list[Any] = msgspec.json.decode(msgspec.json.encode((run, list(records))))
    return found


def _parts(value: Any) -> Iterator[Any]:
    """The value and all that is in it, however deep."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(each)


def _texts(value: Any) -> Iterator[str]:
    for part in _parts(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            yield from part


def _cells(value: Any) -> Iterator[dict[str, Any]]:
    return (part for part in _parts(value) if isinstance(part, dict) and _is_cell(part))


def _is_cell(value: dict[str, Any]) -> bool:
    return {"workload", "backend", "environment", "variant"} <= value.keys() and isinstance(value.get("case"), dict)


def _cell_texts(cell: dict[str, Any]) -> list[str]:
    """Those of a cell's texts that names and folders may be taken out of."""
    texts = [*(cell.get(name) for name in (*CALLED, "environment")), *(value for value in cell["case"].values() if not _stays(value))]
    return [text for text in texts if isinstance(text, str)]


def _stays(value: Any) -> bool:
    """One word of a case, such as ``causal``, is the work's; only a longer text can tell of a user."""
    return not isinstance(value, str) or _PLAIN.fullmatch(value) is not None


def _own_words(whole: list[Any]) -> Iterator[str]:
    """What members are called, statuses, and the words that cells are called by."""
    yield from map(str.lower, (*get_args(Status), *get_args(RunState)))
    yield from (name.lower() for part in _parts(whole) if isinstance(part, dict) for name in part)
    for cell in _cells(whole):
        for called in (str(cell.get(name, "")).lower() for name in CALLED):
            yield from (called, *_WORD.findall(called))


def _users_here() -> set[str]:
    try:
        return {getpass.getuser(), Path.home().name}
    except (OSError, KeyError, RuntimeError):  # of no account, as in some containers
        return set()


def _telling(name: str, ordinary: Collection[str]) -> bool:
    return len(name) > 1 and not (name.isdecimal() and len(name) < 5) and name.lower() not in ordinary


def _forms(found: Iterable[str]) -> list[str]:
    """Letters with accents may be written in two ways, and macOS has both."""
    return [unicodedata.normalize(form, name) for name in found for form in ("NFC", "NFD")]


def _longest_first(found: Iterable[str]) -> list[str]:
    return sorted(set(found), key=lambda name: (-len(name), name))
