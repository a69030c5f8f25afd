"""Metal kernels run on the CPU, and stand-ins for the two functions through which PyTorch and MLX take one: see tests/metal_shim.

What comes of it is emulated: right or wrong, never a time.
"""

import ctypes
import functools
import os
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

SHIM = Path(__file__).parent.parent / "metal_shim"
COMPILER = "clang++-19"
LANGUAGE = ("-std=c++17", "-I", str(SHIM))
CHECKED = (
    "-O0",
    "-gline-tables-only",
    "-fsanitize=address,undefined",
    "-fno-sanitize=function,vptr",
    "-fno-sanitize-recover=all",
    "--rtlib=compiler-rt",
)
AXES = {"uint": "x", "uint2": "xy", "uint3": "xyz", "ushort": "x"}


class EmulationError(Exception):
    """The kernel doesn't compile, leaves its memory, or waits for what never comes; with the words of who found it."""


def needs_compiler():
    if shutil.which(COMPILER) is None:
        if os.environ.get("METAL_EMULATION") == "required":
            pytest.fail(f"{COMPILER} is not installed, and METAL_EMULATION=required")
        pytest.skip(f"{COMPILER} is not installed: apt-get install clang-19 libclang-rt-19-dev")


def tool(*command, **how):
    result = subprocess.run([str(part) for part in command], capture_output=True, timeout=120, check=False, **how)
    if result.returncode:
        raise EmulationError(result.stderr.decode(errors="replace")[-4000:])
    return result.stdout


@functools.cache
def folder():
    """Holds what is compiled as long as this process lives."""
    kept = tempfile.TemporaryDirectory()
    tool(COMPILER, *LANGUAGE, *CHECKED, "-rdynamic", SHIM / "runner.cpp", "-o", Path(kept.name) / "runner")
    return kept


def call(source, name):
    """C++ that calls the kernel of this name: each parameter gets what its attribute says."""
    instance = re.search(rf'template \[\[host_name\("{name}"\)\]\] \[\[kernel\]\] decltype\((.+?)\) ', source)
    entry = instance[1] if instance else name
    declared = re.search(rf"(?:\[\[kernel\]\]|\bkernel) void {entry.partition('<')[0]}\((.*?)\)\s*\{{", source, re.DOTALL)
    if declared is None:
        raise EmulationError(f"no kernel is called {name}")
    arguments = []
    for kind, reference, attribute in re.findall(r"(\w+)\s*([*&]?)\s*\w+\s*\[\[(.+?)\]\]\s*(?:,|$)", declared[1]):
        if buffer := re.fullmatch(r"buffer\((\d+)\)", attribute):
            arguments.append(f"{'Reference' if reference == '&' else 'Pointer'}{{buffers[{buffer[1]}]}}")
        else:
            scalar = attribute.startswith(("thread_index", "simdgroup", "threads_per_simdgroup"))
            arguments.append(f"shim::here().{attribute}" + ("" if scalar else f".{AXES[kind]}"))
    return (
        "namespace {\nstruct Pointer { void* at; template <typename T> operator T*() const { return static_cast<T*>(at); } };\n"
        "struct Reference { void* at; template <typename T> operator T&() const { return *static_cast<T*>(at); } };\n}\n"
        f'extern "C" void shim_call(void* const* buffers) {{ {entry}({", ".join(arguments)}); }}\n'
    )


@functools.cache
def compiled(source, name):
    """The shared library of one kernel of a Metal source."""
    held = r"^(\s+)threadgroup\s+(\w+\s+(\w+)\s*(?:\[[^\]]*\])+);"
    plain = re.sub(r"\[\[.*?\]\]", "", re.sub(held, r"\1static threadgroup \2; SHIM_FRESH(\3);", source, flags=re.MULTILINE))
    tool(COMPILER, *LANGUAGE, "-DSHIM_ADDRESS_SPACES", "-Werror=return-type", "-fsyntax-only", "-xc++", "-", input=plain.encode())
    library = Path(folder().name) / f"{name}{compiled.cache_info().misses}.so"
    text = plain + call(source, name)
    tool(COMPILER, *LANGUAGE, *CHECKED, "-shared", "-fPIC", "-xc++", "-", "-o", library, input=text.encode())
    return library


def three(sizes):
    return (*((sizes,) if isinstance(sizes, int) else sizes), 1, 1)[:3]


def run(source, name, buffers, threads, group, seed):
    """The buffers, (bytes, address modulo 16) each, as they are after the kernel has run over a grid of threads. Not empty, as in Metal."""
    threads, group = three(threads), three(group)
    assert min(*threads, *group) > 0
    assert group[0] * group[1] * group[2] <= 1024
    job = struct.pack("<8I", seed, *threads, *group, len(buffers))
    job += b"".join(struct.pack("<QQ", len(data), offset) + data for data, offset in buffers)
    left = tool(
        Path(folder().name) / "runner",
        compiled(source, name),
        input=job,
        env={"ASAN_OPTIONS": "detect_stack_use_after_return=0:detect_leaks=0"},
    )
    cuts = np.cumsum([len(data) for data, _ in buffers])
    return [left[end - len(data) : end] for (data, _), end in zip(buffers, cuts, strict=True)]


class TorchLibrary:
    """What torch.mps.compile_shader gives, for tensors on the CPU. Positional arguments are the buffers, in order; int → long, float."""

    def __init__(self, source, seed=0):
        self.source, self.seed = source, seed

    def __getattr__(self, name):
        return functools.partial(self._run, name)

    def _run(self, name, *arguments, threads, group_size):
        assert isinstance(threads, int) == isinstance(group_size, int), "as many dimensions in both"
        buffers = [
            (struct.pack("<q", value), 0)
            if isinstance(value, int)
            else (struct.pack("<f", value), 0)
            if isinstance(value, float)
            else (ctypes.string_at(value.data_ptr(), value.nbytes), value.data_ptr() % 16)
            for value in arguments
        ]
        for value, data in zip(arguments, run(self.source, name, buffers, threads, group_size, self.seed), strict=True):
            if not isinstance(value, (int, float)):
                ctypes.memmove(value.data_ptr(), data, len(data))


MLX_ATTRIBUTES = {
    "simdgroup_index_in_threadgroup": "uint",
    "simdgroups_per_threadgroup": "uint",
    "thread_index_in_simdgroup": "uint",
    "thread_index_in_threadgroup": "uint",
    "thread_position_in_grid": "uint3",
    "thread_position_in_threadgroup": "uint3",
    "threadgroup_position_in_grid": "uint3",
    "threadgroups_per_grid": "uint3",
    "threads_per_grid": "uint3",
    "threads_per_simdgroup": "uint",
    "threads_per_threadgroup": "uint3",
}
MLX_TYPES = {
    "float32": "float",
    "float16": "float16_t",
    "bfloat16": "bfloat16_t",
    "uint8": "uint8_t",
    "uint32": "uint32_t",
    "int32": "int32_t",
}
MLX_PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\ntypedef half float16_t;\ntypedef bfloat bfloat16_t;\n"


def mlx_name(dtype):
    return str(dtype).rpartition(".")[2]


class MlxKernel:
    """What mx.fast.metal_kernel gives, for arrays on the CPU, by the rules of MLX 0.32 for the signature that it puts around a body.

    An input of fewer than eight elements is in constant memory, one without dimensions a reference; its shape follows it where the body
    says <input>_shape; attributes are parameters where the body names them.
    """

    def __init__(self, name, input_names, output_names, source, header="", *, seed=0):
        self.name, self.inputs, self.outputs, self.body, self.header, self.seed = name, input_names, output_names, source, header, seed

    def source(self, inputs, template, output_dtypes):
        parameters = []
        for name, array in zip(self.inputs, inputs, strict=True):
            space, reference = "constant" if array.size < 8 else "device", "*" if array.ndim else "&"
            parameters.append(f"const {space} {MLX_TYPES[mlx_name(array.dtype)]}{reference} {name}")
            if array.ndim and f"{name}_shape" in self.body:
                parameters.append(f"const constant int* {name}_shape")
        parameters += [f"device {MLX_TYPES[mlx_name(dtype)]}* {name}" for name, dtype in zip(self.outputs, output_dtypes, strict=True)]
        declared = [f"{parameter} [[buffer({place})]]" for place, parameter in enumerate(parameters)]
        declared += [f"{kind} {name} [[{name}]]" for name, kind in MLX_ATTRIBUTES.items() if name in self.body]
        kinds = ", ".join(f"{'int' if isinstance(value, int) else 'typename'} {name}" for name, value in template)
        values = ", ".join(str(value) if isinstance(value, int) else MLX_TYPES[mlx_name(value)] for _, value in template)
        function = f"custom_kernel_{self.name}"
        return (
            f"{MLX_PRELUDE}{self.header}\ntemplate <{kinds}>\n[[kernel]] void {function}(\n  "
            + ",\n  ".join(declared)
            + f") {{\n{self.body}\n}}\n"
            f'template [[host_name("{self.name}")]] [[kernel]] decltype({function}<{values}>) {function}<{values}>;\n'
        )

    def __call__(self, *, inputs, template, grid, threadgroup, output_shapes, output_dtypes):
        import mlx.core as mx

        buffers = []
        for name, array in zip(self.inputs, inputs, strict=True):
            buffers.append((np.array(array.reshape(-1).view(mx.uint8)).tobytes(), 0))
            if array.ndim and f"{name}_shape" in self.body:
                buffers.append((np.array(array.shape, np.int32).tobytes(), 0))
        sizes = [int(np.prod(shape)) * dtype.size for shape, dtype in zip(output_shapes, output_dtypes, strict=True)]
        buffers += [(b"\xff" * size, 0) for size in sizes]
        left = run(self.source(inputs, template, output_dtypes), self.name, buffers, grid, threadgroup, self.seed)
        return [
            mx.array(np.frombuffer(data, np.uint8)).view(dtype).reshape(shape)
            for data, shape, dtype in zip(left[-len(sizes) :], output_shapes, output_dtypes, strict=True)
        ]
