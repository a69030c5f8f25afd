"""The action and the workflows: their shell is sound and safe, and its steps do as docs/ci.md says, run as GitHub would run them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.command import PLUGINS

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
WORKFLOWS = {path.name: yaml.safe_load(path.read_text("utf-8")) for path in (ROOT / ".github/workflows").glob("*.yml")}
COMPARE, PERFORMANCE = WORKFLOWS["compare.yml"], WORKFLOWS["performance.yml"]
CALLED = COMPARE[True]["workflow_call"]["inputs"]  # YAML 1.1 reads the key `on` as true
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
BASH = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]  # what `shell: bash` stands for

SMALL = "--backend numpy-cpu --workload steady --case size=64 --budget 0.02"
MARKER = "<!-- metalbench: metalbench -->"


def steps():
    yield from (("action.yml", step) for step in ACTION["runs"]["steps"])
    for name in ("compare.yml", "performance.yml"):
        for job in WORKFLOWS[name]["jobs"].values():
            yield from ((name, step) for step in job.get("steps", []))


SCRIPTS = [pytest.param(step["run"], id=f"{name}: {step['name']}") for name, step in steps() if "run" in step]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_is_sound_and_nothing_is_pasted_into_it(script):
    """What an expression pastes into a script is run by it: a branch called ``$(…)`` would be."""
    assert "${{" not in script
    checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_inputs_are_used_and_those_used_are_there():
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    workflow = (ROOT / ".github/workflows/compare.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", workflow)) == set(CALLED)
    given = COMPARE["jobs"]["compare"]["steps"][-1]["with"]
    assert given == {name: f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]}
    assert set(PERFORMANCE["jobs"]["control"]["with"]) <= set(CALLED)


def test_the_workflow_has_the_defaults_of_the_action():
    own = set(CALLED) - set(ACTION["inputs"])
    assert own == {"runner", "timeout-minutes"}
    for name, declared in ACTION["inputs"].items():
        default = CALLED[name]["default"]
        assert (str(default).lower() if isinstance(default, bool) else default) == declared["default"]


def test_the_documentation_names_the_inputs_as_they_are():
    text = (ROOT / "docs/ci.md").read_text("utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \|", text, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)} == set(CALLED)
    examples = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    called = [job for example in examples for job in example.get("jobs", {}).values()]
    called += [step for example in examples for step in example.get("steps", []) if "metalbench" in step["uses"]]
    assert len(called) == 3
    for caller in called:
        assert set(caller["with"]) <= set(CALLED)


def test_no_more_is_permitted_than_a_comment_takes():
    for workflow in (COMPARE, PERFORMANCE):
        assert workflow["permissions"] == {"contents": "read"}
    granted = [job["permissions"] for workflow in (COMPARE, PERFORMANCE) for job in workflow["jobs"].values() if "permissions" in job]
    assert granted == [{"contents": "read", "pull-requests": "write"}] * 2


def test_only_actions_of_github_itself_are_used():
    for _, step in steps():
        assert re.match(r"actions/[\w/-]+@v\d+$|\./\.metalbench$", step.get("uses", "actions/checkout@v4"))


class Runner:
    """A job on GitHub: the action's steps in order, in a repository with the plug-ins in it. A cache and a pull request outlive jobs."""

    def __init__(self, folder):
        self.folder, self.repository, self.cache = folder, folder / "repository", folder / "cache"
        (folder / "bin").mkdir()
        module = "exec '{}' -m metalbench.harness.cli.main \"$@\""
        self._program("bench", module.format(sys.executable))
        self._program("python", f"exec '{sys.executable}' \"$@\"")
        self._program("gh", FAKE_GH.format(python=sys.executable, comments=folder / "comments.json"))
        self.comment_on()
        shutil.copytree(PLUGINS, self.repository / "plugins")
        (self.repository / "bench.toml").write_text('plugins = ["plugins/faulty.py", "plugins/steady.py"]\n')
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def _program(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def git(self, *arguments):
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.repository, check=True, capture_output=True)

    def commit(self, products=1):
        """A commit whose step makes so many products."""
        text = (PLUGINS / "steady.py").read_text("utf-8")
        work = f'return lambda: [{{"out": device.product(a, a)}} for _ in range({products})][0]'
        changed = text.replace('return lambda: {"out": device.product(a, a)}', work)
        assert changed != text
        (self.repository / "plugins" / "steady.py").write_text(changed, "utf-8")
        self.git("add", ".")
        self.git("commit", "--quiet", "--allow-empty", "--message", "a change")

    def comment_on(self, *bodies):
        comments = [{"id": 7 + n, "user": {"login": login}, "body": body} for n, (login, body) in enumerate(bodies)]
        (self.folder / "comments.json").write_text(json.dumps(comments))

    def comments(self):
        return [comment["body"] for comment in json.loads((self.folder / "comments.json").read_text("utf-8"))]

    def run(self, event="pull_request", fork=False, **inputs):
        """The exit status of the job, its log, its summary, and the artifact's files."""
        given = {name: declared["default"] for name, declared in ACTION["inputs"].items()} | {"arguments": SMALL}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        ref = "refs/pull/12/merge" if event == "pull_request" else "refs/heads/main"
        context = {f"inputs.{name}": value for name, value in given.items()} | {
            "github.event_name": event,
            "github.event.repository.default_branch": "main",
            "github.event.pull_request.number": "12",
            "github.token": "secret",
            "github.repository": "them/theirs",
            "github.server_url": "https://example.org",
            "github.run_id": "3",
            "github.run_attempt": "1",
        }
        shutil.rmtree(self.repository / "metalbench-results", ignore_errors=True)  # as checking out does
        job = self.folder / "job"
        shutil.rmtree(job, ignore_errors=True)
        job.mkdir()
        variables = {
            **os.environ,
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(job),
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": "them/theirs",
            "GITHUB_EVENT_NAME": event,
            "GITHUB_REF": ref,
            "GITHUB_REF_NAME": ref.split("/", 2)[2],
            "GITHUB_STEP_SUMMARY": str(job / "summary"),
            "GITHUB_OUTPUT": str(job / "output"),
            "FORK": "1" if fork else "",
        }
        (job / "summary").touch()
        log, artifact, status = "", [], 0
        for step in ACTION["runs"]["steps"]:
            if step.get("id") == "install" or not evaluated(step.get("if", "true"), context):
                continue  # what is installed is what runs the tests
            if "uses" in step:
                artifact += self._used(step["uses"], {name: filled(text, context) for name, text in step["with"].items()})
                continue
            (job / "output").write_text("")
            own = {name: filled(text, context) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                [*BASH, "-c", step["run"]],
                cwd=self.repository, env=variables | own, text=True, encoding="utf-8", capture_output=True, check=False,
            )  # fmt: skip
            log += done.stdout + done.stderr
            outputs = dict(line.split("=", 1) for line in (job / "output").read_text("utf-8").splitlines())
            context |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in outputs.items()}
            if status := done.returncode:
                break
        return status, log, (job / "summary").read_text("utf-8"), artifact

    def _used(self, action, given):
        path = self.repository / given["path"]
        kept = self.cache / given.get("restore-keys", given.get("key", ""))
        if action.startswith("actions/cache/restore"):
            newest = sorted(self.cache.glob(f"{given['restore-keys']}*"))
            if newest:
                path.parent.mkdir(exist_ok=True)
                shutil.copy(newest[-1], path)
        elif action.startswith("actions/cache/save"):
            self.cache.mkdir(exist_ok=True)
            shutil.copy(path, kept)
        else:
            assert action.startswith("actions/upload-artifact")
            return [file.name for file in path.iterdir()]
        return []


FAKE_GH = """exec '{python}' - "$@" <<'EOF'
import json, os, sys
file, arguments = "{comments}", sys.argv[1:]
comments = json.load(open(file, encoding="utf-8"))
assert arguments[0] == "api" and os.environ["GH_TOKEN"] == "secret"
if "--jq" in arguments:
    assert "repos/them/theirs/issues/12/comments" in arguments and "--paginate" in arguments
    for comment in comments:
        if comment["user"]["login"] == "github-actions[bot]":
            print(comment["id"], comment["body"].split("\\n")[0])
elif os.environ["FORK"]:
    sys.exit("gh: Resource not accessible by integration (HTTP 403)")
else:
    body = open(arguments[arguments.index("--field") + 1].removeprefix("body=@"), encoding="utf-8").read()
    method, place = arguments[arguments.index("--method") + 1 :][:2]
    if method == "POST":
        assert place == "repos/them/theirs/issues/12/comments"
        comments.append({{"id": 99, "user": {{"login": "github-actions[bot]"}}, "body": body}})
    else:
        (found,) = [comment for comment in comments if place == f"repos/them/theirs/issues/comments/{{comment['id']}}"]
        found["body"] = body
    json.dump(comments, open(file, "w", encoding="utf-8"))
EOF"""


def evaluated(expression, context):
    """GitHub's expression language, as far as the action uses it."""
    words = re.findall(r"'[^']*'|==|!=|&&|[\w.-]+", expression)
    python = {"&&": "and", "==": "==", "!=": "!=", "true": "True"}
    return eval(" ".join(python.get(word) or (word if word.startswith("'") else repr(context.get(word, ""))) for word in words))


def filled(text, context):
    return EXPRESSION.sub(lambda found: context[found[1].strip()], text)


@pytest.fixture
def runner(tmp_path):
    return Runner(tmp_path)


def test_a_slower_pull_request_fails(runner):
    runner.commit(products=8)
    status, log, summary, artifact = runner.run(arguments=f"{SMALL} --pairs 8")
    assert status == 1
    assert re.search(r"\| steady .*size=64 · numpy-cpu · native \|.*\| SLOWER \|", summary)
    assert "Failed, for what `fail-on` names: slower,wrong." in summary
    assert "::error title=metalbench::steady" in log
    assert {"results.sqlite", "intervals.svg", "comparison.md"} <= set(artifact)
    (comment,) = runner.comments()
    assert comment.startswith(MARKER)
    assert "| SLOWER |" in comment


def test_the_default_branch_makes_the_baseline_and_a_pull_request_is_held_against_it(runner):
    few = f"{SMALL} --launches 5"
    status, _, summary, _ = runner.run("push", mode="baseline", arguments=few)
    assert status == 0
    assert "Nothing was compared: this is the first baseline of machine" in summary
    assert "SAME" not in summary
    assert runner.comments() == []
    (kept,) = runner.cache.iterdir()
    before = kept.read_bytes()
    runner.commit(products=8)
    status, _, summary, _ = runner.run(mode="baseline", arguments=few)
    assert status == 1
    assert "| SLOWER |" in summary
    assert "“main”" in summary  # the base is the default branch's run
    status, _, summary, _ = runner.run(mode="baseline", arguments=few, fail_on="faster")
    assert (status, "| SLOWER |" in summary) == (0, True)
    assert kept.read_bytes() == before  # no pull request changes it
    status, _, summary, _ = runner.run("push", mode="baseline", arguments=few)
    assert status == 1
    assert kept.read_bytes() != before  # the default branch does, whatever the verdict


def test_without_a_baseline_nothing_is_measured_and_nobody_is_told_it_is_equal(runner):
    status, log, summary, artifact = runner.run(mode="baseline")
    assert status == 2
    assert "No baseline: the default branch has none of machine" in summary
    assert "::error title=metalbench::There is no baseline of this machine yet" in log
    assert "results.sqlite" not in artifact


def test_there_is_one_comment_and_it_is_our_own(runner):
    runner.comment_on(("someone", f"{MARKER}\nmine"), ("github-actions[bot]", "<!-- metalbench: other -->\nother"))
    others = runner.comments()
    for _ in range(2):
        assert runner.run(mode="baseline")[0] == 2
        *rest, ours = runner.comments()
        assert rest == others
        assert "No baseline" in ours
    assert runner.run(mode="baseline", name="another")[0] == 2
    assert len(runner.comments()) == 4
    assert runner.run(mode="baseline", name="third", comment="false")[0] == 2
    assert len(runner.comments()) == 4


def test_a_token_that_may_not_comment_changes_nothing_else(runner):
    runner.run("push", mode="baseline", arguments=f"{SMALL} --launches 1")
    status, log, summary, _ = runner.run(mode="baseline", arguments=f"{SMALL} --launches 1", fork=True)
    assert status == 0
    assert "::notice title=metalbench::No comment" in log
    assert "UNSURE" in summary
    assert runner.comments() == []


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"mode": "baselines"}, ["'baselines'", "ab or baseline"]),
        ({}, ["fetch-depth: 2"]),  # there is one commit only
        ({"base": "nosuch"}, ["no environment, variant or git revision called 'nosuch'"]),
        ({"base": "HEAD", "arguments": "--backend numpy-cpu\n--workload stedy"}, ["no workload called 'stedy'"]),
        ({"base": "HEAD", "arguments": f"{SMALL} --pairs 8", "fail_on": "slow"}, ["'slow'", "slower"]),
        ({"base": "$(touch pasted)"}, ["$(touch pasted)"]),
    ],
)
def test_a_mistake_is_told_and_is_no_verdict(runner, inputs, words):
    status, log, summary, _ = runner.run(**inputs)
    assert status == 2
    for word in words:
        assert word in log
        assert word in summary or not summary
    assert "Failed" not in summary
    assert not (runner.repository / "pasted").exists()


def test_what_is_set_up_is_there_and_what_fails_ends_the_job(runner):
    status, log, summary, _ = runner.run(setup="bench --version\ncd plugins\nfalse | cat\necho beyond")
    assert status == 1
    assert "metalbench 0" in log
    assert "beyond" not in log
    assert summary == ""


@pytest.mark.skipif(shutil.which("jq") is None, reason="GitHub's runners have jq; this machine does not")
@pytest.mark.parametrize(("before", "after", "status"), [("slower", "slower", 1), ("slower", "same", 0), ("same", "slower", 0)])
def test_what_drifts_in_one_direction_is_not_worse_than_both(tmp_path, before, after, status):
    """The project's own job: a base before, one after, and cells that are worse than both."""
    cell = {"workload": "fft", "name": "16×1009", "backend": "torch-cpu", "variant": "native", "status": ["ok", "ok"]}
    for side, verdict in (("before", before), ("after", after)):
        cells = [cell | {"time": {"verdict": verdict}}, cell | {"workload": "attention", "time": None}]
        (tmp_path / f"{side}.sqlite").write_text(json.dumps({"cells": cells}), "utf-8")
    program = tmp_path / ".venv" / "bin" / "bench"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ncat "$2"\nexit 2\n')  # as it does where a cell is new
    program.chmod(0o755)
    (script,) = [step["run"] for step in PERFORMANCE["jobs"]["adapters"]["steps"] if step.get("name") == "What is worse than both"]
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path, env=os.environ | {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}, text=True, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, "")
    assert done.stdout.count("::error title=Worse than the base before and after::fft 16×1009 · torch-cpu · native") == status
