"""Scripts that stand alone: what is cut out of modules and what is left, which cell is meant, and what a record may not do to a script."""

import ast
import io
import re
import symtable
import tokenize
from pathlib import Path

import msgspec
import pytest
import typer
from support.command import PLUGINS
from support.records import make_cell, make_run, timed
from support.scripts import cell_of, recipes, run_alone, script_of
from typer.testing import CliRunner

from metalbench.harness.catalog import Catalog
from metalbench.harness.cli.repro import repro
from metalbench.harness.errors import UsageError
from metalbench.harness.repro import installation
from metalbench.harness.repro.cutout import standalone
from metalbench.harness.repro.modules import Modules
from metalbench.harness.repro.scopes import module_names
from metalbench.harness.repro.texts import bare
from metalbench.results.record import Host
from metalbench.results.store import open_store

ROOT = Path(__file__).parent.parent.parent
SOURCES = [file for folder in ("backends", "harness", "workloads") for file in sorted((ROOT / folder).rglob("*.py"))]


# What is cut out


def cut(tmp_path, main, **files):
    """The program with what it needs of the modules, as one text."""
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
    imports, definitions, rest = standalone(main, Modules({name: tmp_path / f"{name}.py" for name in files}))
    lines = [f"import {one}" if one.name is None else f"from {one.module} import {one}" for one in imports]
    return "\n".join([*sorted(lines), definitions, rest])


def result(text):
    """``answer`` as the program leaves it, with nothing importable that it was cut out of."""
    space = {}
    exec(compile(text, "program", "exec"), space)
    return space["answer"]


def test_only_what_is_needed_is_taken_with_its_comments(tmp_path):
    text = cut(
        tmp_path,
        "from one import area\nanswer = area(2)\n",
        one=(
            '"""Circles."""\nimport math\nimport json\n\n# nearly three\nPI = math.pi  #: irrational\nOTHER = json\n\n\n'
            'def area(r: float, scale: int = 1) -> float:  # noqa: D103 - known\n    """Of a circle."""\n    square: float = r**2\n'
            "    return PI * square * scale\n\n\ndef unused():\n    return OTHER\n"
        ),
    )
    assert result(text) == pytest.approx(12.566, abs=1e-3)
    assert "import json" not in text
    assert "unused" not in text
    assert "Circles" not in text
    assert "# nearly three\nPI = math.pi  #: irrational\n" in text
    assert 'def area(r, scale=1):\n    """Of a circle."""\n    square = r**2\n' in text


def test_one_name_for_two_things_is_told_apart(tmp_path):
    text = cut(
        tmp_path,
        "from one import run\nfrom two import go\nanswer = run(3), go(3), sum([1, 2])\n",
        one="def step(x, step_2=0):\n    return x + 1\n\n\ndef run(x):\n    return step(x)\n",
        two=(
            "def step(x):\n    return 0 if x < 0 else step(-1) - x\n\n\ndef sum(x):\n    return -x\n\n\ndef go(x):\n"
            "    def inner(step):\n        return step\n\n    return step(x) + inner(x) + sum(x) + len([step for step in (1, 2)])\n"
        ),
    )
    assert result(text) == (4, (-3) + 3 + (-3) + 2, 3)
    assert text.count("def step(") == 1


def test_a_new_name_is_nobodys_variable(tmp_path):
    text = cut(
        tmp_path,
        "from one import run\nfrom two import go\nanswer = run(3), go(3)\n",
        one="def step(x):\n    return x + 1\n\n\ndef run(x):\n    return step(x)\n",
        two="def step(x):\n    return -x\n\n\ndef go(x):\n    step_2 = 10\n    return step(x) + step_2\n",
    )
    assert result(text) == (4, 7)


def test_a_global_variable_goes_on_being_one_unless_another_has_its_name(tmp_path):
    counting = "count = 0\n\n\ndef {}():\n    global count\n    count += 1\n    return count\n"
    text = cut(tmp_path, "from one import up\nanswer = up(), up()\n", one=counting.format("up"))
    assert result(text) == (1, 2)
    with pytest.raises(UsageError, match="two modules define count; give one of the two another name"):
        cut(tmp_path, "from one import up\nfrom two import on\nup(), on()\n", one=counting.format("up"), two=counting.format("on"))


def test_what_a_protocol_asks_for_is_kept(tmp_path):
    text = cut(
        tmp_path,
        "from one import Step, Resettable\nanswer = isinstance(Step(), Resettable)\n",
        one=(
            "from typing import Protocol, runtime_checkable\n\n\n@runtime_checkable\nclass Resettable(Protocol):\n"
            "    def reset(self) -> None: ...\n\n\nclass Step:\n    def reset(self) -> None:\n        self.state = 0\n"
        ),
    )
    assert result(text) is True


def test_a_thing_under_two_names_is_one(tmp_path):
    text = cut(
        tmp_path,
        "from two import go\nfrom one import LIST\ngo(1)\nanswer = LIST\n",
        one="LIST = []\n",
        two="from one import LIST as seen\n\n\ndef go(x):\n    LIST = x\n    seen.append(LIST)\n",
    )
    assert result(text) == [1]


def test_two_packages_names_alike_are_told_apart(tmp_path):
    text = cut(
        tmp_path,
        "from one import here\nfrom two import there\nanswer = here(), there()\n",
        one="from math import floor as name\n\n\ndef here():\n    return name(1.5)\n",
        two="from math import ceil as name\n\n\ndef there():\n    return name(1.5)\n",
    )
    assert result(text) == (1, 2)


def test_of_a_class_what_nobody_asks_for_is_left_out(tmp_path):
    text = cut(
        tmp_path,
        "from one import Machine\nanswer = Machine().work()\n",
        one=(
            "from abc import ABC, abstractmethod\nimport nowhere\n\n\nclass Base(ABC):\n"
            "    @abstractmethod\n    def work(self) -> int: ...\n\n    def rest(self):\n        return nowhere\n\n\n"
            "class Machine(Base):\n    name = 'm'\n    speed = 3\n\n    def __init__(self):\n        self.time = 2\n\n"
            "    def work(self):\n        return self.speed * self.time\n\n    def report(self):\n        return nowhere.report()\n"
        ),
    )
    assert result(text) == 6
    for word in ("nowhere", "report", "Base", "ABC", "name"):
        assert not re.search(rf"\b{word}\b", text), word


def test_of_a_class_that_a_library_calls_nothing_is_left_out(tmp_path):
    text = cut(
        tmp_path,
        "from one import Reader\nreader = Reader()\nreader.feed('<b>bold</b>')\nanswer = reader.tags\n",
        one=(
            "from html.parser import HTMLParser\n\n\nclass Reader(HTMLParser):\n    def __init__(self):\n        super().__init__()\n"
            "        self.tags = []\n\n    def handle_starttag(self, tag, attrs):\n        self.tags.append(tag)\n"
        ),
    )
    assert result(text) == ["b"]


def test_a_case_becomes_a_plain_class_with_its_fields(tmp_path):
    text = cut(
        tmp_path,
        "from one import Square\nanswer = Square(side=3).area(), list(Square(side=3).fields()), Square(side=3) == Square(side=3)\n",
        one=(
            "from __future__ import annotations\nimport msgspec\nfrom typing import Literal\n\nColour = Literal['red', 'blue']\n\n\n"
            "class Case(msgspec.Struct, frozen=True, kw_only=True):\n    colour: Colour = 'red'\n\n"
            "    def fields(self):\n        return [name for name in self.__struct_fields__]\n\n\n"
            "class Square(Case, frozen=True, kw_only=True):\n    side: int\n\n    def area(self):\n        return self.side**2\n"
        ),
    )
    assert "msgspec" not in text
    assert result(text.replace("from __future__ import annotations\n", "")) == (9, ["colour", "side"], True)


def test_what_a_module_does_when_it_is_imported_is_done(tmp_path):
    text = cut(
        tmp_path,
        "from one import TABLE\nanswer = TABLE\n",
        one="TABLE = {}\nTABLE['a'] = 1\nfor key in 'bc':\n    TABLE[key] = 2\nif __name__ == '__main__':\n    nothing()\n",
    )
    assert result(text) == {"a": 1, "b": 2, "c": 2}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def go():\n    return elsewhere\n", ["one.py", "`elsewhere`", "import it by itself"]),
        ("def go():\n    from two import x\n    return x\n", ["one.py", "at the top of the file"]),
        ("from two import *\n\n\ndef go():\n    return x\n", ["one.py", "`x`"]),
        ("def go(\n", ["one.py", "line 1", "more plainly"]),
    ],
)
def test_what_is_too_clever_to_be_cut_out_is_refused_in_one_sentence(tmp_path, source, words):
    with pytest.raises(UsageError) as error:
        cut(tmp_path, "from one import go\nanswer = go()\n", one=source, two="x = 1\n")
    for word in words:
        assert word in str(error.value)


def test_scopes_are_as_python_itself_sees_them():
    def looked_up(table, *, top):
        yield from (one.get_name() for one in table.get_symbols() if one.is_global() or (top and not one.is_imported()))
        for child in table.get_children():
            yield from looked_up(child, top=False)

    for source in SOURCES:
        text = bare(source.read_text("utf-8")).replace("from __future__ import annotations", "")
        tree, table = ast.parse(text), symtable.symtable(text, "module", "exec")
        not_names = {line.name for line in tree.body if isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        not_names |= {one.get_name() for one in table.get_symbols() if one.is_imported()}
        found = {name.id for name in module_names(tree)}
        assert found - not_names == set(looked_up(table, top=True)) - not_names, source


class Stripped(ast.NodeTransformer):
    """What ``bare`` does, by another way: on the tree."""

    def visit_arg(self, node):
        node.annotation = None
        return node

    def visit_FunctionDef(self, node):
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node):
        return self.visit_FunctionDef(node)

    def visit_ClassDef(self, node):
        node.body = [line if isinstance(line, ast.AnnAssign) else self.visit(line) for line in node.body]
        return node

    def visit_AnnAssign(self, node):
        return ast.Assign([node.target], node.value) if node.value is not None else ast.Pass()


def test_a_bare_source_is_the_source_but_for_annotations():
    for source in SOURCES:
        text = source.read_text("utf-8")
        found, expected = bare(text), ast.fix_missing_locations(Stripped().visit(ast.parse(text)))
        assert ast.unparse(ast.parse(found)) == ast.unparse(expected), source
        tokens = tokenize.generate_tokens(io.StringIO(found).readline)
        comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
        assert not [comment for comment in comments if comment.startswith(("# noqa", "# type:"))], source


# Plug-ins


def plugged(*names):
    return Catalog([PLUGINS / name for name in names])


@pytest.mark.parametrize(
    ("plugins", "backend", "workload", "variant"),
    [
        (["faulty.py"], "numpy-cpu", "faults", "native"),
        (["faulty.py", "steady.py"], "numpy-cpu", "steady", "native"),
        (["faulty.py", "paced.py"], "numpy-cpu", "paced", "slower40"),  # whose variants are no display of a dictionary
    ],
)
def test_a_plug_ins_cell_runs_alone(tmp_path, plugins, backend, workload, variant):
    catalog = plugged(*plugins)
    case = next(iter(catalog.workload(workload).cases("quick")))
    text = script_of(catalog, cell_of(catalog, backend, workload, case, variant))
    assert "metalbench" not in text
    answer = run_alone(text, tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert re.search(r"^median [\d,.]+ µs a call", answer.stdout, re.MULTILINE)


def test_the_script_of_what_failed_fails_in_the_same_words(tmp_path):
    catalog = plugged("faulty.py")
    case = next(case for case in catalog.workload("faults").cases("quick") if case.fault == "raise")
    answer = run_alone(script_of(catalog, cell_of(catalog, "numpy-cpu", "faults", case, "native"), status="failed"), tmp_path)
    assert answer.returncode == 1
    assert "the framework\nwas not amused" in answer.stderr


# What a script says and sets

CATALOG = Catalog()


def attention(**changes):
    case = next(iter(CATALOG.workload("attention").cases("quick")))
    return msgspec.structs.replace(cell_of(CATALOG, "jax-cpu", "attention", case, "fused"), **changes)


def test_the_head_says_what_was_measured_and_what_to_install():
    head = script_of(CATALOG, attention(), facts={"jax": "0.10.2", "jaxlib": "0.10.2", "numpy": "2.3.5", "device": "cpu"}).partition(
        "\n\n"
    )[0]
    assert "attention 1×4×256×64 causal float32 · jax-cpu · fused · latency" in head
    assert "recorded 410.00 µs a call, the median of 3 launches" in head
    assert "on M5, 10 cores" in head
    assert "#     pip install jax==0.10.2 jaxlib==0.10.2 numpy==2.3.5\n#     python repro.py" in head


def test_variables_are_set_before_the_framework_is_imported():
    cell = attention(environment="jax-cpu:jax==0.10.1")
    variables = {"XLA_FLAGS": '--x="y"', "PYTHONPATH": "/home/ada/code", "OWN": "{cache}/kept"}
    column = {"backend": "jax-cpu", "environment": {"name": cell.environment, "variables": variables}}
    plan = msgspec.Raw(msgspec.json.encode({"cells": [cell], "options": {"columns": [column]}}))
    text = script_of(CATALOG, cell, run=msgspec.structs.replace(make_run([cell]), plan=plan))
    before, _, after = text.partition("\nimport jax\n")
    assert '"JAX_PLATFORMS": "cpu"' in before
    assert """"XLA_FLAGS": '--x="y"',""" in before
    assert "/home" not in text
    assert "cache}" not in text
    assert "highest" in after  # the switch that open_device sets


def test_a_record_says_nothing_outside_comments_and_strings():
    evil = "x\"'\n\r\nimport os; os.abort()\x0c\u2028import os\x00"
    label = {"label": evil, "host": Host(key="k", facts=dict.fromkeys(("chip", "system", "cores"), evil))}
    run = msgspec.structs.replace(make_run([attention()]), **label)
    facts = {"jax": f"0.10.2{evil}", evil: evil, "numpy": "1; rm -rf ~"}
    text = script_of(CATALOG, attention(), run=run, facts=facts, status="wrong", reason=evil)
    plain = script_of(CATALOG, attention(), status="wrong", reason="x")

    def code(source):
        tree = ast.parse(source)
        tree.body.pop()  # prints what was recorded
        return ast.dump(tree)

    assert code(text) == code(plain)
    assert isinstance(ast.parse(text).body[-1].value.args[0], ast.Constant)
    pip = next(line for line in text.splitlines() if "pip install" in line)
    assert pip.split() == ["#", "pip", "install", "jax==0.10.2"]


@pytest.mark.parametrize(
    ("backend", "environment", "system", "facts", "expected"),
    [
        ("torch-mps", "torch-mps", "Darwin 25", {"torch": "2.13.0", "numpy": "2.3.5"}, "torch==2.13.0 numpy==2.3.5"),
        ("torch-cuda", "current", "Linux 6", {"torch": "2.13.0+cu128"}, "torch==2.13.0"),
        ("mlx-cpu", "current", "Linux 6", {"mlx": "0.31.0"}, "'mlx[cpu]==0.31.0'"),
        ("mlx-cpu", "current", "Darwin 25", {"mlx": "0.31.0"}, "mlx==0.31.0"),
        ("tf-cpu", "mac-twin", "Linux 6", {"tensorflow": "2.19.1", "keras": "3.9"}, "tensorflow-cpu==2.19.1 keras==3.9"),
        ("tf-metal", "tf-metal", "Darwin 25", {"tensorflow": "2.19.1"}, "tensorflow==2.19.1 tensorflow-metal==1.2.0"),
        ("jax-metal", "current", "Darwin 25", {"jax": "0.6", "jax-mps": "0.9"}, "jax-mps==0.9 jax==0.6"),
        ("jax-metal", "current", "Darwin 25", {}, "jax==0.5.0 jax-metal==0.1.1"),
        ("torch-cpu", "torch-cpu", "Linux 6", {}, "torch==2.13.0"),
    ],
)
def test_what_to_install_is_what_was_there(backend, environment, system, facts, expected):
    framework, _ = CATALOG.backend(backend)
    host = Host(key="k", facts={"system": system})
    command = installation.command(framework, make_cell(backend, environment=environment), facts, host, recipes())
    assert command == f"pip install {expected}"


# Which cell is meant


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [attention(backend=backend, variant=variant) for backend in ("torch-cpu", "jax-cpu") for variant in ("fused", "composed")]
    cells.append(attention(backend="torch-cpu", environment="torch-cpu:torch==2.12"))
    cells.append(attention(backend="mlx-cpu", case=cells[0].case | {"heads": 8, "causal": False}))
    cells.append(attention(backend="mlx-cpu"))
    old, new = attention(variant="composed", protocol="throughput"), make_cell()
    with open_store("results.sqlite") as store:
        for started, (name, own, ns) in enumerate(
            (("first", [old], 4e5), ("again", [old], 5e5), ("second", cells, 4e5), ("third", [new], 4e5))
        ):
            records = [timed(cell, launch, [ns] * 40) for cell in own for launch in range(3)]
            store.receive(make_run(own, name=name, started=started), records)
    return old, cells, new


def asked(*arguments):
    app = typer.Typer()
    app.command()(repro)
    return CliRunner().invoke(app, [*arguments, "--store", "results.sqlite"])


def test_options_leave_one_cell_of_a_run(stored, tmp_path):
    answer = asked("second", "--backend", "jax-cpu", "--variant", "composed")
    assert answer.exit_code == 0, answer.exception
    assert "attention 1×4×256×64 causal float32 · jax-cpu · composed" in answer.stdout.splitlines()[0]
    assert asked("second", "--backend", "jax-cpu", "--variant", "composed", "-o", "mine.py").stdout == ""
    assert (tmp_path / "mine.py").read_text("utf-8") == answer.stdout.replace("python repro.py", "python mine.py")


def test_a_key_finds_the_newest_run_that_has_the_cell(stored):
    old, cells, _ = stored
    assert "jax-cpu · composed · throughput\n# recorded 500.00 µs" in asked(old.key()).stdout
    assert "recorded 400.00 µs" in asked("first", "--cell", old.key()).stdout
    assert "torch-cpu (torch==2.12) · fused" in asked("second", "--cell", cells[4].key()).stdout
    assert "No run of this store has a cell with the key" in str(asked("0" * 20).exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["second"],
            [
                "7 cells of run second",
                "--case (heads=4|8, causal=True|False)",
                "--backend (torch-cpu, jax-cpu, mlx-cpu)",
                "--variant (fused, ",
            ],
        ),
        (["second", "--backend", "torch-cpu", "--variant", "fused"], ["2 cells", "--cell (", "in current", "in torch-cpu:torch==2.12"]),
        (["second", "--backend", "mlx-cpu"], ["2 cells", "choose one by --case (heads=8|4, causal=False|True)."]),
        (["second", "--backend", "tf-cpu"], ["no cell that these options admit", "bench show second"]),
        (["second", "--cell", "0" * 20], ["no cell that these options admit"]),
        (["fourth"], ["no run called 'fourth'"]),
        ([], ["no workload called 'w'"]),
    ],
)
def test_anything_but_one_cell_is_one_sentence(stored, arguments, words):
    error = asked(*arguments).exception
    assert isinstance(error, UsageError)
    for word in words:
        assert word in str(error)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": 7}, ["at version 7 then", "at 1 now"]),
        ({"case": {"size": 3}}, ["not one of attention as it is now"]),
        ({"variant": "fuse"}, ["no variant of attention called 'fuse'", "fused"]),
        ({"backend": "torch-tpu"}, ["no backend called 'torch-tpu'"]),
    ],
)
def test_a_cell_that_is_no_more_is_one_sentence(changes, words):
    with pytest.raises(UsageError) as error:
        script_of(CATALOG, attention(**changes))
    for word in words:
        assert word in str(error.value)
