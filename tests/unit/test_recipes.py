"""Environments as data: what is listed, what the command line may ask for, what is known to fail."""

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from metalbench.harness.catalog import Catalog
from metalbench.harness.columns import choose, parse
from metalbench.harness.errors import ConfigError, UsageError
from metalbench.harness.recipe import Recipe
from metalbench.harness.recipes import Recipes
from metalbench.harness.requirements import missing, pinned
from metalbench.harness.uv import gist, variables

CATALOG, RECIPES = Catalog(), Recipes()
MAC = ("torch-mps", "mlx-metal", "jax-metal", "jax-mps", "metaljax", "jax-metallib", "applejax", "tf-metal", "tf-macos", "mac-all")
ROOT = Path(__file__).parent.parent.parent
HERE = "linux" if sys.platform == "linux" else "darwin"


def asked(backend, specification):
    builds = CATALOG.backend(backend)[0].builds
    return RECIPES.derived(backend, specification, builds).requirements


def test_every_environment_names_backends_that_exist_and_readable_requirements():
    assert set(MAC) <= set(RECIPES.by_name)
    assert {backend for recipe in RECIPES.by_name.values() for backend in recipe.backends} == set(CATALOG.backends)
    for recipe in RECIPES.by_name.values():
        for text in recipe.requirements:
            Requirement(text)


def test_what_pip_installs_together_is_what_the_environments_hold():
    """`make bench` sets up with pip, from the extras; `bench env create` from the list: the same releases."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for system, names in (("linux", ("torch-cpu", "jax-cpu", "mlx-cpu", "tf-cpu")), ("darwin", ("mac-all",))):
        facts = {"sys_platform": system, "platform_machine": "arm64" if system == "darwin" else "x86_64", "python_version": "3.12"}
        listed = {}
        for text in [text for name in names for text in RECIPES.by_name[name].requirements]:
            want = Requirement(text)
            if want.marker is None or want.marker.evaluate(facts):
                listed[want.name] = want.specifier
        for text in [text for name in ("torch", "jax", "mlx", "tensorflow") for text in extras[name]]:
            want = Requirement(text)
            if want.marker is None or want.marker.evaluate(facts):
                assert not listed[want.name] or listed[want.name] == want.specifier, text


@pytest.mark.parametrize(
    ("versions", "backend", "word"),
    [
        ({"jax-metal": "0.1.1", "jax": "0.10.2"}, "jax-metal", "0.5.0 at most"),
        ({"jax-metal": "0.1.1", "jax": "0.5.1"}, "jax-metal", "0.5.0 at most"),
        ({"jax-metal": "0.1.1", "jax": "0.5.0"}, "jax-metal", None),
        ({"jax-metal": "0.1.1", "jax": "0.10.2"}, "jax-cpu", None),
        ({"tensorflow-metal": "1.2.0", "tensorflow": "2.21.0"}, "tf-metal", "importing tensorflow"),
        ({"tensorflow-metal": "1.2.0", "tensorflow": "2.21.0"}, "tf-cpu", "importing tensorflow"),
        ({"tensorflow-metal": "1.2.0", "tensorflow": "2.19.1"}, "tf-metal", None),
    ],
)
def test_what_resolves_and_then_fails_is_known(versions, backend, word):
    failure = RECIPES.known_failure([backend], versions, "darwin")
    assert (failure is None) is (word is None)
    assert word is None or word in failure.reason


def test_no_environment_of_the_list_is_known_to_fail():
    for recipe in RECIPES.by_name.values():
        for system in recipe.systems:
            lines = (ROOT / "harness" / "locks" / f"{recipe.name}.{system}.txt").read_text("utf-8").splitlines()
            assert RECIPES.known_failure(recipe.backends, pinned(lines), system) is None, recipe.name


@pytest.mark.skipif(HERE != "linux", reason="which requirement of the list is replaced depends on the system")
def test_a_requirement_takes_the_place_of_the_listed_one_and_keeps_its_extras():
    assert "mlx[cpu]==0.31.0" in asked("mlx-cpu", "mlx==0.31.0")
    assert not [text for text in asked("mlx-cpu", "mlx==0.31.0") if "0.32" in text and "linux" in text]
    assert asked("jax-cpu", "jax==0.9.0") == ["jax==0.9.0"]
    assert asked("jax-cuda", "jax==0.9.0") == ["nvidia-ml-py", "jax[cuda13]==0.9.0"]
    assert asked("jax-metal", "jax==0.4.38") == ["jax-metal==0.1.1", "zeus-apple-silicon", "jax==0.4.38"]
    assert asked("tf-cpu", "tf-nightly==2.22.0.dev1") == ["tf-nightly==2.22.0.dev1"]


def test_one_build_of_a_framework_takes_the_place_of_another():
    assert asked("tf-cpu", "tensorflow==2.20.0") == ["tensorflow==2.20.0"]
    assert asked("tf-metal", "tensorflow-macos==2.16.2") == ["tensorflow-metal==1.2.0", "zeus-apple-silicon", "tensorflow-macos==2.16.2"]


def test_indexes_and_wheels_may_be_named(tmp_path):
    wheel = tmp_path / "torch-2.16.0-py3-none-any.whl"
    wheel.touch()
    nightly = asked("torch-cpu", "--index https://example.org/nightly --pre torch")
    assert nightly == ["--index https://example.org/nightly", "--pre", "torch"]
    assert asked("torch-cpu", "--no-index -f /wheels torch==2.12.0") == ["--no-index", "--find-links /wheels", "torch==2.12.0"]
    assert asked("torch-cpu", str(wheel)) == [str(wheel)]
    assert asked("torch-cpu", "torch @ https://example.org/torch.whl") == ["torch@https://example.org/torch.whl"]


def test_a_word_is_a_path_only_if_it_looks_like_one(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    monkeypatch.chdir(tmp_path)
    assert asked("torch-cpu", "torch") == ["torch"]
    assert asked("torch-cpu", "./torch") == [str(tmp_path / "torch")]


def test_a_name_holds_no_secret_and_no_path(tmp_path):
    wheel = tmp_path / "torch-2.16.0-py3-none-any.whl"
    wheel.touch()
    secret = "torch@https://user:secret@example.org/torch.whl"
    names = [RECIPES.derived("torch-cpu", text, ["torch"]).name for text in (str(wheel), secret, "--index https://u:p@example.org torch")]
    assert len(set(names)) == 3
    assert all(name.startswith("torch-cpu:torch") for name in names)
    assert not any(word in name for name in names for word in ("secret", "u:p", str(tmp_path), "/"))


@pytest.mark.skipif(HERE != "linux", reason="which extras are listed depends on the system")
def test_a_wheel_keeps_the_extras_of_what_it_takes_the_place_of(tmp_path):
    wheel = tmp_path / "mlx-0.33.0-cp312-cp312-manylinux_2_35_x86_64.whl"
    wheel.touch()
    (found,) = [text for text in asked("mlx-cpu", str(wheel)) if "0.33" in text]
    assert (Requirement(found).extras, Requirement(found).url) == ({"cpu"}, wheel.as_uri())


def test_a_rival_plug_in_begins_with_its_own_environment():
    recipe = RECIPES.derived("jax-metal", "jax-mps==0.10.11", ["jax"])
    assert recipe.requirements == ["zeus-apple-silicon", "jax-mps==0.10.11"]
    assert recipe.variables == {"JAX_PLATFORMS": "mps"}


@given(st.sampled_from(sorted(CATALOG.backends)), st.from_regex(r"[0-9]\.[0-9]{1,2}\.[0-9]", fullmatch=True))
def test_a_pinned_release_is_always_the_one_asked_for(backend, version):
    package = CATALOG.backend(backend)[0].builds[0]
    wanted = [Requirement(text) for text in asked(backend, f"{package}=={version}")]
    own = [want for want in wanted if want.name == package and (want.marker is None or want.marker.evaluate({"sys_platform": HERE}))]
    assert [str(want.specifier) for want in own] == [f"=={version}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("torch-cpu:torch=2.12", ["'torch=2.12' is not a requirement", "torch==1.2"]),
        ("torch-cpu:./nowhere/python", ["is no file that exists"]),
        ("torch-cpu:", ["names no environment"]),
        ("torch-gpu:torch==2.12", ["no backend called 'torch-gpu'", "torch-cpu"]),
        ("mlx==0.31.0", ["doesn't say for which backend", "mlx-cpu:mlx==0.31.0"]),
        ("jax-mpss", ["no environment called 'jax-mpss'", "jax-mps"]),
        ("torch-cpu:jax-cpu", ["jax-cpu does not serve torch-cpu"]),
        ("torch-cpu:'torch", ["is not readable", "quotation"]),
        ("torch-cpu:--index-url", ["--index-url needs a value"]),
        ("torch-cpu:--upgrade torch", ["--upgrade is none of the options", "--pre"]),
        ("torch-cpu:~nobody-is-called-so/python", ["is no file that exists"]),
    ],
)
def test_what_is_not_an_environment_is_said_to_be_none(text, words):
    with pytest.raises(UsageError) as raised:
        parse(text, CATALOG, RECIPES)
    for word in words:
        assert word in str(raised.value)


def test_an_environment_for_a_backend_that_is_left_out_is_a_mistake():
    with pytest.raises(UsageError, match="leaves out"):
        choose(["jax-cpu"], ["torch-cpu:torch==2.12.0"], CATALOG, RECIPES)


def test_interpreters_are_called_by_their_folder_and_told_apart(tmp_path):
    for project in ("a", "b"):
        python = tmp_path / project / "env-1" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
    one = choose([], [f"torch-cpu:{tmp_path}/a/env-1"], CATALOG, RECIPES)
    assert [wanted.column.environment.name for wanted in one] == ["python:env-1"]
    both = choose([], [f"torch-cpu:{tmp_path}/{project}/env-1/bin/python" for project in "ab"], CATALOG, RECIPES)
    names = [wanted.column.environment.name for wanted in both]
    assert all(name.startswith("python:env-1 ") and str(tmp_path) not in name for name in names)
    assert len(set(names)) == 2


def test_the_users_own_come_first_and_may_replace_a_listed_one():
    own = Recipes(
        {"fast": Recipe(backends=["jax-cpu"], requirements=["jax"]), "torch-cpu": Recipe(backends=["torch-cpu"], requirements=["torch"])}
    )
    assert own.serving("jax-cpu")[0].name == "fast"
    assert own.named("torch-cpu").requirements == ["torch"]
    with pytest.raises(ConfigError, match="is not a range"):
        Recipes({"odd": Recipe(backends=["jax-cpu"], requirements=["jax"], python="3.12")})
    for match, name, changes in (
        ("at least one", "odd", {"requirements": []}),
        ("must name some of", "odd", {"systems": ["windows"]}),
        ("must name some of", "odd", {"systems": []}),
        ("admits none of", "odd", {"python": ">=4"}),
        ("can't be called so", "current", {}),
        ("can't be called so", "..", {}),
        ("can't be called so", "a/b", {}),
    ):
        with pytest.raises(ConfigError, match=match):
            Recipes({name: Recipe(**({"backends": ["jax-cpu"], "requirements": ["jax"]} | changes))})
    with pytest.raises(UsageError, match="no backend called 'jax-cup'"):
        parse("odd", CATALOG, Recipes({"odd": Recipe(backends=["jax-cup"], requirements=["jax"])}))


def test_an_environment_that_is_for_trying_is_never_taken_by_itself():
    assert "mac-twin" not in [recipe.name for recipe in RECIPES.serving("jax-cpu", "linux")]


def test_pips_settings_reach_uv_in_its_own_words():
    pip = {
        "PIP_INDEX_URL": "https://a/simple",
        "PIP_EXTRA_INDEX_URL": "https://b/simple",
        "PIP_FIND_LINKS": "/one /two",
        "VIRTUAL_ENV": "/v",
    }
    found = variables(pip, macos="14.0")
    assert found["UV_DEFAULT_INDEX"] == "https://a/simple"
    assert found["UV_INDEX"] == "https://b/simple"
    assert found["UV_FIND_LINKS"] == "/one,/two"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found["MACOSX_DEPLOYMENT_TARGET"] == "14.0"
    assert "VIRTUAL_ENV" not in found
    assert variables({**pip, "UV_INDEX": "https://c/simple"})["UV_INDEX"] == "https://c/simple"


def test_of_what_uv_says_the_cause_and_the_hint_are_kept():
    said = ["Resolved 3 packages", "error: No solution found", "  cause: Because a and", "         b.", "hint: c is only", "for macOS"]
    assert gist(said) == "Because a and b. c is only for macOS"
    assert gist(["error: No route", "to the index"]) == "No route to the index"
    assert gist([]) == "uv failed and said nothing"


def test_what_a_worker_lacks_is_named():
    assert missing(["msgspec>=0.19", "numpy", "psutil>=6.0"], {"numpy": "2.0", "psutil": "5.9"}) == ["msgspec>=0.19", "psutil>=6.0"]
