"""What is left of a run that is shared: all that was measured, and nothing that tells whose it was."""

import re
import unicodedata

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.records import HOST, make_cell, make_run, timed

from metalbench.results.formats import jsonl
from metalbench.results.places import home_owners, without_folders
from metalbench.results.record import Energy, Host, Memory, Record, Run
from metalbench.results.sharing import scrub


@pytest.fixture(autouse=True)
def sharer(monkeypatch):
    """Who runs the tests, and where, is not what they are about."""
    monkeypatch.setattr("getpass.getuser", lambda: "zqsharer")
    monkeypatch.setattr("platform.node", lambda: "zqlaptop.fritz.box")


def whole(**changes):
    """A run and a record in which every text has something to say."""
    cell = make_cell("torch-mps", environment="python:work/.venv", case={"size": 8, "dtype": "float32", "note": "a long one"})
    extra = {
        "reason": "no reason", "compile_cache": "filled", "stop": "precision", "ran": "flash attention", "log": "said nothing",
        "memory": Memory(device_peak=1, device_source="a counter", process_source="another"),
        "energy": Energy(joules_per_call=1.5, calls=3, seconds=0.1, source="a meter"),
        "conditions": {"busy_processes": "editor 30 %"}, "facts": {"torch": "2.13.0", "numpy": "2.4", "device": "Apple M5"},
    }  # fmt: skip
    record = timed(cell, 0, [5, 6], **(extra | changes))
    options = {"launches": 1, "plugins": ["plugin.py"], "columns": [{"backend": "torch-mps", "environment": {"name": cell.environment}}]}
    run = make_run([cell], name="20261202-101112-abcd", label="a label")
    plan = msgspec.Raw(msgspec.json.encode({"cells": [cell], "options": options}))
    return msgspec.structs.replace(run, plan=plan, revision="0123abc-dirty"), [record]


def file(run, records):
    return b"".join(jsonl.write([(run, records)])).decode()


#: What can't hold a word more: what programs read, and what a cell is called by.
FIXED = {"status", "state", "workload", "backend", "variant", "protocol", "policy", "dtype", "chip", "id", "key"}


def planted(run, records, text):
    """The same with ``text`` at the end of every text, whatever fields there are."""

    def plant(value, name=""):
        if isinstance(value, dict):
            return {name: plant(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [plant(each, name) for each in value]
        return f"{value} {text}" if isinstance(value, str) and name not in FIXED else value

    data = plant(msgspec.json.decode(msgspec.json.encode((run, records))))
    return msgspec.json.decode(msgspec.json.encode(data), type=tuple[Run, list[Record]])


letters = st.text("abcdefghijklmnopqrstuvwxyzABCäöé0123456789", max_size=6)
endings = st.builds("{}{}{}x".format, letters, st.sampled_from(["", ".", "-", "_", "é"]), letters)
words = st.text("abcABC日é0123_-.+@=#%&!~", min_size=1, max_size=5).filter(lambda word: not re.match(r"-\w|~", word)) | st.just("(x86)")
folders = st.builds(lambda more: " ".join(["wq", *more]), st.lists(words, max_size=4))
ABOUT = [
    "in {} it broke",
    '"{}"',
    "({})",
    "{}:12: error",
    "-I{}",
    "PATH=/usr/bin:{}",
    "<{}>",
    "'{}', line 3",
    "[{}]",
    "{},",
    "x={};",
    "\\n{}",
]


@given(
    user=endings.map("zq{}".format),
    host=endings.map("vk{}".format),
    about=st.sampled_from(ABOUT),
    style=st.sampled_from(["/home/{}/x/y.py", "/Users/{}", r"C:\Users\{}\y.py"]),
)
@example(user="zqanna", host="zqmac", about="-isystem{}", style="/home/{}/include/x")
@example(user="zqanna", host="zqmac", about="-isystem{}", style="C:/Users/{}/include/x")
def test_no_user_and_host_name_is_left_in_any_text(user, host, about, style):
    run, records = whole()
    run = msgspec.structs.replace(run, host=Host(key="k", facts=HOST.facts | {"name": f"{host}.local"}))
    home = about.format(style.format(user))
    shared = scrub(*planted(run, records, f"{home} {user.upper()}'s {host} {user}@{host}.local ssh://{user}:pw@{host}/x"))
    for name in (user, host, "pw@"):
        assert name.lower() not in file(*shared).lower()
    assert scrub(*shared) == shared


@given(parts=st.lists(folders, min_size=1, max_size=4), about=st.sampled_from(ABOUT), windows=st.booleans())
def test_of_a_path_only_the_last_part_is_left(parts, about, windows):
    path = "\\".join(["D:", *parts, "last.py"]) if windows else "/".join(["", "data", *parts, "last.py"])
    shared = scrub(*planted(*whole(), about.format(path)))
    assert "wq" not in file(*shared)
    assert "last.py" in file(*shared)
    assert scrub(*shared) == shared


@given(text=st.text() | st.text("/\\~:.abU'\"( )[]{}-@,…\n"))
def test_a_text_is_scrubbed_at_once(text):
    once = without_folders(text)
    assert without_folders(once) == once


def test_what_was_measured_and_what_is_compared_by_stay():
    run, records = whole()
    shared, (record,) = scrub(run, records)
    assert shared == msgspec.structs.replace(run, host=HOST)
    assert record == records[0]
    assert record.cell.key() == records[0].cell.key() == shared.cells()[0].key()
    assert "zqlaptop" in file(msgspec.structs.replace(run, host=Host(key="k", facts={"name": "zqlaptop"})), [])


def test_the_one_who_shares_is_taken_out_of_another_s_run():
    run, records = whole(log="zqsharer imported it on zqlaptop and ZQLAPTOP.fritz.box")
    assert scrub(run, records)[1][0].measurement.log == "user imported it on host and host"


def test_the_plan_s_cells_are_the_records_though_they_are_called_by_folders():
    cells = [
        make_cell(environment=environment, case={"model": model})
        for environment in ("python:anna/.venv", "python:/home/anna/.venv", "python:/srv/anna/.venv", "current")
        for model in ("/home/anna/a/weights.bin", "/home/anna/b/weights.bin", "…/weights.bin")
    ]
    records = [timed(cell, 0, [5]) for cell in cells]
    shared, rest = scrub(make_run(cells), records)
    assert [record.cell for record in rest] == shared.cells()
    assert len({cell.key() for cell in shared.cells()}) == len(cells)
    assert "anna" not in file(shared, rest)
    assert shared.cells()[-1] == cells[-1]
    assert scrub(shared, rest) == (shared, rest)


@pytest.mark.parametrize("user", ["torch", "metal", "MLX", "fused", "torch-mps", "ok", "running", "launches", "latency", "w", "root", "12"])
def test_a_user_called_like_a_thing_takes_no_thing_s_name_away(user):
    log = "torch.compile: fused MLX kernel on metal is ok, w was running with latency 12 as root"
    run, records = whole(log=f"{log}: /home/{user}/secret/x.py", facts={"torch": "2.13.0", "mlx": "0.32", "device": "metal"})
    shared, (record,) = scrub(run, records)
    assert record.measurement.log == f"{log}: …/x.py"
    assert record.measurement.facts == {"torch": "2.13.0", "mlx": "0.32", "device": "metal"}
    assert shared.cells() == run.cells()
    assert shared.launches() == run.launches() == 1


def test_a_cell_is_called_what_it_was_though_its_words_are_users_names():
    cell = make_cell("tinygrad-cpu", workload="step_of_bo", case={"optimizer": "adam", "size": 8})
    for user in ("tinygrad", "adam", "bo", "current"):
        record = timed(cell, 0, [5], log=f"/home/{user}/x/y: {user}")
        shared, (out,) = scrub(make_run([cell], label="tinygrad bo"), [record])
        assert (shared.cells(), out.cell) == ([cell], cell)
        assert shared.label == "tinygrad bo"


def test_a_user_called_max_keeps_the_chip():
    run, records = whole(log="/Users/max/x.py: Max on an Apple M5 Max", facts={"device": "Apple M5 Max"})
    run = msgspec.structs.replace(run, host=Host(key="k", facts={"chip": "Apple M5 Max"}), label="max's")
    shared, (record,) = scrub(run, records)
    assert shared.host == run.host
    assert shared.label == "user's"
    assert record.measurement.log == "…/x.py: user on an Apple M5 Max"
    assert record.measurement.facts == {"device": "Apple M5 Max"}


@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("lives", ["NFC", "NFD"])
def test_accents_are_one_letter_or_two(written, lives):
    home, name = unicodedata.normalize(lives, "/Users/jürgen/x"), unicodedata.normalize(written, "Jürgen")
    assert scrub(*whole(log=f"{home}/y {name}!"))[1][0].measurement.log == "…/y user!"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/opt/x/lib/python3.12/site-packages/torch/_inductor/lowering.py:7836: UserWarning", "…/lowering.py:7836: UserWarning"),
        ("no /Users/anna/OneDrive - Contoso Ltd/x.py", "no …/x.py"),
        ('File "/Volumes/Anna\'s SSD/My Work/a b.py", line 3', 'File "…/a b.py", line 3'),
        (r"'C:\\Program Files (x86)\\tool\\x.dll' is missing", r"'…\x.dll' is missing"),
        (r"\\server\share\x.txt", r"…\x.txt"),
        ("PYTHONPATH=/a/b:/c/d", "PYTHONPATH=…/b:…/d"),
        ("-I/opt/x/include -L/opt/x/lib", "-I…/include -L…/lib"),
        (r"-isystem/home/x/include/y -isystemC:\Users\x\y", r"-isystem…/y -isystem…\y"),
        ("/usr/lib/libfoo.so (no such file), '/usr/local/lib'", "…/libfoo.so (no such file), '…/lib'"),
        ("/home/anna and /Users/b/ and ~/x/y", "~ and ~ and …/y"),
        ("file:///home/anna/x.whl file://mac/share/y.whl sqlite:////a/b.sqlite", "file:…/x.whl file:…/y.whl sqlite:…/b.sqlite"),
        ("git+https://anna:secret@host.org/a/b.git, http://h/x", "git+https://host.org/a/b.git, http://h/x"),
        ("python:/srv/p/.venv", "python:…/.venv"),
        # and what only looks like a path
        ("12 GB/s and/or 1/2, 16×8/4×2/3 /tmp </b>", "12 GB/s and/or 1/2, 16×8/4×2/3 /tmp </b>"),
        ("Darwin 25: root:xnu-12377.41.6~2/RELEASE_ARM64_T6041", "Darwin 25: root:xnu-12377.41.6~2/RELEASE_ARM64_T6041"),
        ("torch/nn/functional.py ../../x/y.py", "torch/nn/functional.py ../../x/y.py"),
        ("a: b, c:\n d, 12:30", "a: b, c:\n d, 12:30"),
    ],
)
def test_folders_and_urls_are_found_among_words(text, left):
    assert without_folders(text) == left


def test_owners_of_home_folders_are_found():
    found = home_owners(r"/home/anna/x, -L/var/home/ben. C:\\Users\\Carl Smith\\x /Users/dora: /homes/no /home and /Users/")
    assert found == {"anna", "ben", "Carl", "Carl Smith", "dora"}


def test_a_long_log_takes_no_time():
    for text in ("a" * 65536, "/" * 65536, "/a b c d e" * 6000, "/(a" * 20000, "C:\\a b " * 9000, "/home/" * 10000, "a'" * 32000):
        assert isinstance(without_folders(text), str)  # a search that goes back over it would be stopped by the time limit
        assert isinstance(home_owners(text), set)


def test_a_word_that_holds_a_name_is_another_word():
    log = scrub(*whole(log="/home/anna/x/y Hannah annals anna_1 joanna-anna"))[1][0].measurement.log
    assert re.split(r"[ _-]", log) == ["…/y", "Hannah", "annals", "user", "1", "joanna", "user"]
