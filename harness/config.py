"""``bench.toml``: the options a project wants every time. Looked for in the working folder and its parents."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

import msgspec

from metalbench.harness.errors import ConfigError
from metalbench.harness.recipe import Recipe

NAME = "bench.toml"
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every key may be left out; the command line's options win. Paths are relative to the file."""

    suite: str | None = None
    backends: list[str] = []
    workloads: list[str] = []
    launches: Annotated[int, msgspec.Meta(ge=1)] | None = None
    budget: Positive | None = None  #: seconds of sampling a cell and launch
    timeout: Positive | None = None  #: seconds after which a cell's worker is taken for hung
    memory_limit_gib: Positive | None = None  #: of a worker; the machine's free memory where it isn't given
    store: str | None = None
    plugins: list[str] = []
    environments: dict[str, Recipe] = {}
    locks: str = ""  #: the folder of the environments' lock files; beside the file where it isn't given

    @property
    def memory_limit(self) -> int | None:
        """In bytes; None where it isn't given."""
        return None if self.memory_limit_gib is None else int(self.memory_limit_gib * 2**30)


def load_config(start: Path) -> Config:
    """The nearest ``bench.toml`` at or above ``start``, or the empty one. ConfigError names the place that is wrong."""
    file = next((folder / NAME for folder in [start, *start.parents] if (folder / NAME).is_file()), None)
    if file is None:
        return Config()
    try:
        config = msgspec.convert(tomllib.loads(file.read_text("utf-8")), Config)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{file} is not usable: {error}; correct that line or key.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} can't be read: {error}; it must be UTF-8 text that you may read.") from error
    plugins = [str(file.parent / path) for path in config.plugins]
    store = config.store if config.store is None or "://" in config.store else str(file.parent / Path(config.store).expanduser())
    environments = {name: _from(file.parent, recipe) for name, recipe in config.environments.items()}
    locks = str(file.parent / (config.locks or "locks"))
    return msgspec.structs.replace(config, plugins=plugins, store=store, locks=locks, environments=environments)


def _from(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with its wheels found from the file's folder."""
    found = [str(folder / text) if text.endswith(".whl") and "://" not in text else text for text in recipe.requirements]
    return msgspec.structs.replace(recipe, requirements=found)
