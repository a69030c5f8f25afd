"""A kernel's module is found by its place, whoever else is called the same."""

import pytest

from metalbench.backends.base import Unsupported
from metalbench.kernels.binding import binding


def write(folder, **modules):
    folder.mkdir(parents=True)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, "utf-8")
    return folder


def test_folders_of_one_name_are_two_kernels_and_their_modules_their_own(tmp_path):
    module = "from . import LAMBDA\nfrom .shared import twice\ndef softshrink(x): return twice(x) + LAMBDA\n"
    first = write(tmp_path / "a" / "my.kernel", torch_metal=module, shared="def twice(x): return 2 * x\n", __init__="LAMBDA = 1\n")
    second = write(tmp_path / "b" / "my.kernel", torch_metal=module, shared="def twice(x): return 20 * x\n", __init__="LAMBDA = 3\n")
    assert [binding("softshrink", "torch", "mps", folder).softshrink(4) for folder in (first, second, first)] == [9, 83, 9]


def test_what_keeps_a_kernel_from_loading_is_said_each_time(tmp_path):
    folder = write(tmp_path / "mine", torch_cpu="from . import LAMBDA\n", __init__="raise ImportError('not with this release')\n")
    for _ in range(2):
        with pytest.raises(ImportError, match="not with this release"):
            binding("softshrink", "torch", "cpu", folder)


def test_a_missing_module_is_named(tmp_path):
    with pytest.raises(Unsupported, match=r"mine has no torch_metal\.py"):
        binding("softshrink", "torch", "mps", write(tmp_path / "mine", torch_cpu=""))
    with pytest.raises(Unsupported, match=r"kernels/softshrink has no nothing_cpu\.py"):
        binding("softshrink", "nothing", "cpu")
