"""Mixed precision keeps quality: after many steps, every framework's loss is where float64's is."""

import pytest
from support.cases import ACCELERATOR, CATALOG, DTYPES, FRAMEWORKS, open_device, verdict

NEAR = {"float32": 1e-4, "float16": 5e-3, "bfloat16": 5e-3}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_loss_after_many_steps(framework, dtype):
    open_device(framework)
    (case,) = (case for case in CATALOG.workload("amp_step").cases("documents") if case.steps == 50 and case.dtype == dtype)
    check = verdict(framework, "amp_step", case, CATALOG.implementation(framework, "amp_step").default)
    assert check.ok or ACCELERATOR, check
    assert check.figures["relative_loss"] == pytest.approx(1, abs=NEAR[dtype])
