"""Warnings that mean "I did something else" are read, in every cell of a process; all others pass as they would have."""

import warnings

import pytest

from metalbench.harness.catalog import Catalog
from metalbench.harness.witness import Witness

KNOWN = Catalog().frameworks.values()
FALLBACK = "The operator 'aten::{}' is not currently supported on the MPS backend and will fall back to run on the CPU. This may have …"


def warn(text):
    warnings.warn(text, UserWarning, stacklevel=1)


def test_operators_are_named_once_each_and_anew_in_the_next_cell():
    for _ in range(2):
        with Witness(KNOWN) as witness:
            for name in ("linalg_eig", "pdist", "linalg_eig"):
                warn(FALLBACK.format(name))
        assert witness.verdict() == ("fallback", "ran on the CPU instead: aten::linalg_eig, aten::pdist")


@pytest.mark.parametrize(
    "text",
    [
        "In MPS autocast, but the target dtype is not supported. Disabling autocast.\nMPS Autocast only supports dtypes of …",
        "In CPU autocast, but the target dtype is not supported. Disabling autocast.",
        "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
    ],
)
def test_what_is_not_done_is_a_refusal_in_the_frameworks_words(text):
    with Witness(KNOWN) as witness:
        warn(text)
        warn(FALLBACK.format("pdist"))
    assert witness.verdict() == ("failed", f"the framework did not do what was asked: {' '.join(text.split())}")


def test_every_other_warning_passes_and_the_filters_are_as_before():
    before = list(warnings.filters)
    with pytest.warns(UserWarning, match="experimental"), Witness(KNOWN) as witness:
        warn("this operator is experimental")
    assert witness.verdict() == ("ok", "")
    assert list(warnings.filters) == before


def test_a_device_may_name_operators_itself():
    with Witness(KNOWN) as witness:
        witness.note(["FFT", "FFT2D"])
    assert witness.verdict() == ("fallback", "ran on the CPU instead: FFT, FFT2D")
