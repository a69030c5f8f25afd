"""Softshrink by hand. Here: how its work is laid out on a GPU, whoever starts it."""

ELEMENTS = 4  #: that one thread takes
THREADS = 256  #: of a threadgroup


def threads(length: int) -> int:
    """How many threads take ``length`` elements; the last one may have fewer."""
    return -(-length // ELEMENTS)
