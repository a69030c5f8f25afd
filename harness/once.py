"""Folders that are made once and kept: whole or not at all, also when two processes need the same one at once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, which ``make`` has filled now or before; what ``make`` raises passes through, and leaves nothing behind.

    Its time is that of its last use, by which those that keep many know which to let go.
    """
    if folder.exists():
        folder.touch()
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
    try:
        make(scratch)
        scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        if not folder.exists():  # else another process was faster, and made the same
            raise
    return folder


def keep_newest(root: Path, count: int) -> None:
    """Let go of all but the last used of the folders below ``root``."""
    for old in sorted(root.iterdir(), key=lambda path: path.stat().st_mtime)[:-count]:
        shutil.rmtree(old, ignore_errors=True)
