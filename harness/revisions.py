"""The git repository that a run is started in: which commit it is at, what a name stands for, and the files of another commit."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from metalbench.harness.errors import UsageError
from metalbench.harness.once import keep_newest, made_once

DIRTY = "-dirty"
KEPT = 8  #: copies of revisions; two are in use at a time


def revision(folder: Path) -> str:
    """The commit checked out around ``folder``, with ``-dirty`` where tracked files differ from it; empty outside a repository."""
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not commit:
        return ""
    return commit + (DIRTY if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def resolve(name: str, folder: Path) -> str:
    """The commit that a branch, a tag, ``HEAD~3`` or the beginning of a hash stands for; empty where it is none of them."""
    return _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")


def repository(folder: Path) -> Path:
    """The top folder of the repository around ``folder``, which must be in one."""
    return Path(_git(folder, "rev-parse", "--show-toplevel")).resolve()


class Checkout(NamedTuple):
    """A repository's top folder, and a copy of it as it was at a commit."""

    top: Path
    copy: Path

    def then(self, path: Path) -> Path | None:
        """Where ``path`` is in the copy; None for what is not in the repository."""
        resolved = path.resolve()
        return self.copy / resolved.relative_to(self.top) if resolved.is_relative_to(self.top) else None


def checkout(commit: str, folder: Path, root: Path) -> Checkout:
    """The repository around ``folder`` at ``commit``, copied below ``root`` once a commit. UsageError where git can't give it out.

    The user's own working tree and list of worktrees stay as they are.
    """
    top = repository(folder)

    def make(copy: Path) -> None:
        with tempfile.TemporaryFile() as archive:
            answer = subprocess.run(
                ["git", "-C", str(top), "archive", "--format=tar", commit], stdout=archive, stderr=subprocess.PIPE, text=True, check=False
            )
            if answer.returncode != 0:
                said = " ".join(answer.stderr.split())
                raise UsageError(f"git can't give out revision {commit[:12]} ({said}); fetch it whole, or name another.")
            archive.seek(0)
            with tarfile.open(fileobj=archive) as tar:
                tar.extractall(copy, filter="data")

    copy = made_once(root / commit, make)
    keep_newest(root, KEPT)
    return Checkout(top, copy)


def _git(folder: Path, *arguments: str) -> str:
    """What git answers; empty where it has no answer, or there is no git."""
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
