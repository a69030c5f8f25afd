"""What we set of Dask's own configuration, each for a reason; to be called before ``distributed`` is imported."""

from __future__ import annotations

import logging

import dask

#: A worker that goes takes down all blocks that wait for it, so that a block counts deaths that were none of its doing.
ALLOWED_FAILURES = 10
GONE = "60 s"  #: without a heartbeat, after which a machine without power, say, is taken for gone
CONNECT = "5 s"  #: to reach a scheduler that is there


def configure() -> None:
    """Configure Dask for measuring: it must hardly be there while a worker process is timed."""
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": ALLOWED_FAILURES,
            "distributed.scheduler.worker-ttl": GONE,
            "distributed.comm.timeouts.connect": CONNECT,
            "distributed.worker.profile.enabled": False,  # a sampler that wakes every 10 ms
            "distributed.admin.system-monitor.interval": "5 s",  # not twice a second
            "distributed.worker.memory.terminate": False,  # our worker processes have their own limit
            "distributed.worker.memory.pause": False,
        }
    )
    import distributed  # noqa: F401, PLC0415 - it sets up its loggers when imported, which we quieten afterwards

    for name in ("distributed", *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what a user must know is said by our own sentences
