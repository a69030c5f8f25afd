"""How the work of softshrink.cuh is cut into blocks of threads."""

THREADS = 128  #: of a block: the fastest of those tried on an H200
SHARE = 16  #: bytes of a thread


def blocks(length: int, itemsize: int) -> int:
    """For ``length`` elements of so many bytes."""
    return -(-length * itemsize // (SHARE * THREADS))
