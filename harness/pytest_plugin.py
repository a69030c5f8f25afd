"""The pytest plug-in: the fixture ``metalbench``, which measures workloads and users' functions under pytest-benchmark.

pytest imports this module in every session where metalbench is installed, so nothing more is imported before a test uses the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_benchmark.fixture import BenchmarkFixture

    from metalbench.harness.fixture import MetalbenchFixture


class Measuring:
    """Where pytest-benchmark is loaded. That the fixture asks for ``benchmark`` is how ``--benchmark-only`` and its like know the test."""

    @pytest.fixture
    def metalbench(self, benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> MetalbenchFixture:
        """Measures a workload on a backend, or a function that returns device arrays, waiting for the device in every round."""
        from metalbench.harness.fixture import MetalbenchFixture  # noqa: PLC0415 - brings NumPy

        return MetalbenchFixture(benchmark, pytestconfig.rootpath)


class Wanting:
    """Where it is not."""

    @pytest.fixture
    def metalbench(self) -> None:
        """Needs pytest-benchmark, which is not loaded in this session."""
        pytest.fail("The fixture metalbench needs pytest-benchmark: pip install 'metalbench[pytest]'.", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    loaded = hasattr(config.hook, "pytest_benchmark_generate_json")  # whatever name it was loaded by
    config.pluginmanager.register(Measuring() if loaded else Wanting(), "metalbench-fixture")
