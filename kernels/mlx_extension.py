"""An extension of MLX in C++, which is bound with nanobind as MLX itself is."""

from __future__ import annotations

import importlib.util
import sysconfig
from importlib.machinery import ExtensionFileLoader
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import mlx.core as mx

from metalbench.backends.base import Unsupported
from metalbench.kernels.building import CPU, built


def extension(source: Path, module: str) -> ModuleType:
    """``source`` with the NB_MODULE ``module`` after it, which has the source's name. Raises Unsupported without MLX's own nanobind."""
    if importlib.util.find_spec("nanobind") is None:
        raise Unsupported("MLX's extensions are bound with nanobind, which is not installed beside it")
    import nanobind  # noqa: PLC0415 - known to be there only now

    here = Path(mx.__file__).parent
    linked = ("-DNB_DOMAIN=mlx", "-Wl,-undefined,dynamic_lookup" if sysconfig.get_platform().startswith("macosx") else "-Wl,--no-as-needed")
    folders = (str(here / "include"), nanobind.include_dir(), nanobind.source_dir(), sysconfig.get_path("include"))
    robin_map = str(Path(nanobind.include_dir()).parent / "ext" / "robin_map" / "include")
    compiler = (*CPU, *linked, f"-L{here / 'lib'}", f"-Wl,-rpath,{here / 'lib'}", "-lmlx")
    path = built(source, f'{module}\n#include "nb_combined.cpp"', compiler, (*folders, robin_map))
    loader = ExtensionFileLoader(source.stem, str(path))
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader(source.stem, loader))  # type: ignore[arg-type]  # a loader gives a spec
    loader.exec_module(made)
    if not made.knows(mx.array(0)):
        raise Unsupported(f"nanobind {version('nanobind')} is not of the release that MLX {version('mlx')} was built with")
    return made
