"""What of the CUDA kernels needs no GPU: how weights are laid out for them, how they are built, and Pallas interpreted."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import DTYPES, open_device

from metalbench.backends.base import Unsupported
from metalbench.kernels.building import library
from metalbench.kernels.int4_matmul.tensor_cores import TILE_K, TILE_ROWS, blocks, template, tiled_codes, tiled_parameters
from metalbench.workloads.base import EPS, rounded

ADD = 'extern "C" int add(int a, int b) { return a + b + EXTRA; }\n'
COMPILER = ("c++", "-shared", "-fPIC")


def fragments(packed):
    """The matrix that mma.m16n8k16 multiplies, from a lane's words as PTX lays its fragments out (PTX ISA, matrix fragments of .m16n8k16).

    Register a_i of the lane (g, t) holds row g + 8·(i mod 2), and columns 2t and 2t + 1, of which those of a_2 and a_3 are 8 further. The
    activations are loaded in another order: columns 2t, 2t + 1, 2t + 8, 2t + 9 of step s of a half are the lane's 4s to 4s + 3 of 8.
    """
    rows, tiles = packed.shape[:2]
    out = np.full((rows * TILE_ROWS, tiles * TILE_K), 255, np.uint8)
    for row, tile, lane, word in np.ndindex(packed.shape):
        g, t, (half, step) = lane // 4, lane % 4, divmod(word, 2)
        for register in range(4):
            pair = int(packed[row, tile, lane, word]) >> (4 * register) & 0x000F000F
            for odd in range(2):
                column = tile * TILE_K + half * 32 + t * 8 + step * 4 + register // 2 * 2 + odd
                out[row * TILE_ROWS + g + 8 * (register % 2), column] = pair >> (16 * odd) & 15
    return out


@given(n=st.integers(1, 40), groups=st.integers(1, 5), seed=st.integers(0, 99))
def test_codes_lie_as_the_tensor_cores_take_them(n, groups, seed):
    codes = np.random.default_rng(seed).integers(0, 16, (n, 32 * groups)).astype(np.uint8)
    found = fragments(tiled_codes(codes))
    assert np.array_equal(found[:n, : codes.shape[1]], codes)
    assert not found[n:].any()
    assert not found[:, codes.shape[1] :].any()


@pytest.mark.parametrize("group", [32, 64, 128])
def test_scales_and_offsets_of_a_tile_lie_together(group):
    rng = np.random.default_rng(0)
    scales, offsets = rng.random((37, 3), dtype=np.float32), rng.random((37, 3), dtype=np.float32)
    tiled = tiled_parameters(scales, offsets, group)
    for row, column in ((0, 0), (15, 2), (16, 1), (36, 2)):
        assert tuple(tiled[row // 16, column, row % 16]) == (scales[row, column], offsets[row, column])
    assert tiled.shape[1] * group % TILE_K == 0
    assert not tiled[2, :, 5:].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 8, 16, 32, 100])
def test_the_grid_covers_every_row_of_the_activations(dtype, rows):
    columns = template(dtype, 64, rows)[2] * 8
    across, down = blocks(dtype, rows, 1000)
    assert across * 16 >= 1000
    assert down * (columns // {"float32": 3}.get(dtype, 1)) >= rows


def test_a_library_is_built_once_and_anew_when_its_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("METALBENCH_COMPILE_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "add.cpp"
    source.write_text(ADD.replace("EXTRA", "0"))
    assert library(source, "// one", COMPILER).add(1, 2) == 3
    (built,) = (tmp_path / "cache" / "kernels").glob("*.so")
    before = built.stat().st_mtime_ns
    library.cache_clear()
    library(source, "// one", COMPILER)
    assert built.stat().st_mtime_ns == before
    source.write_text(ADD.replace("EXTRA", "10"))
    library.cache_clear()
    assert library(source, "// one", COMPILER).add(1, 2) == 13
    assert len(list((tmp_path / "cache" / "kernels").iterdir())) == 2


def test_without_its_compiler_a_kernel_is_unsupported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="needs the compiler nvcc, which is not on the PATH"):
        library(Path("int4_matmul.cu"), "")


def test_what_the_compiler_refuses_is_told_in_its_words(tmp_path, monkeypatch):
    monkeypatch.setenv("METALBENCH_COMPILE_CACHE", str(tmp_path))
    (tmp_path / "add.cpp").write_text("int add(")
    with pytest.raises(RuntimeError, match=r"(?s)c\+\+ refuses add.*error"):
        library(tmp_path / "add.cpp", "", COMPILER)
    assert not list((tmp_path / "kernels").iterdir())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 2047, 2048, 5000])
def test_pallas_shrinks_softly(dtype, length):
    device = open_device("jax")
    from metalbench.kernels.softshrink.jax_cuda import softshrink

    x = rounded(np.random.default_rng(length).standard_normal(length, dtype=np.float32), dtype)
    x[length // 2 : length // 2 + 1] = np.nan
    exact = np.where(np.abs(x) > 0.5, x.astype(np.float64) - 0.5 * np.sign(x), 0 * x.astype(np.float64))
    found = device.get(softshrink(device.put(x, dtype), 0.5, interpret=True))
    assert np.allclose(found, exact, rtol=EPS[dtype], atol=0, equal_nan=True)
