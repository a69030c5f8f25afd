"""What a user can put right. The command line prints the sentence and exits with status 2; nothing else is raised on purpose.

    MetalbenchError
    ├── UsageError          an option, a name, a file that the user gave
    │   ├── ConfigError     bench.toml
    │   └── PluginError     a plug-in that can't be loaded
    └── uv.UvError          packages that can't be resolved or installed

A store that can't be read or written is ``results.store.StoreError``; the command line treats it alike.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class MetalbenchError(Exception):
    """Base of all; the message is one sentence that names the thing and the remedy."""


class UsageError(MetalbenchError):
    pass


class ConfigError(UsageError):
    pass


class PluginError(UsageError):
    pass


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that isn't there, with the nearest ones that are."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names) or 'none'}."
    return UsageError(f"There is no {kind} called {name!r}; {hint}")
