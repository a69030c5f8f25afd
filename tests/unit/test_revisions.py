"""What is known of a git repository, and copies of it as it was."""

import subprocess
from pathlib import Path

import pytest

from metalbench.harness.errors import UsageError
from metalbench.harness.revisions import KEPT, checkout, resolve, revision


@pytest.fixture
def git(tmp_path):
    folder = tmp_path / "mein Projekt"
    folder.mkdir()

    def run(*arguments):
        identity = ("-c", "user.name=n", "-c", "user.email=e@x")
        return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()

    run.folder = folder
    run("init", "-q", "-b", "trunk")
    (folder / "sub").mkdir()
    (folder / "sub" / "plugin.py").write_text("one", "utf-8")
    run("add", ".")
    run("commit", "-q", "-m", "one")
    return run


def test_a_revision_says_whether_tracked_files_differ(git, tmp_path):
    commit = git("rev-parse", "HEAD")
    assert revision(git.folder / "sub") == commit
    (git.folder / "untracked").touch()
    assert revision(git.folder) == commit
    (git.folder / "sub" / "plugin.py").write_text("changed", "utf-8")
    assert revision(git.folder) == f"{commit}-dirty"
    assert revision(tmp_path) == ""
    assert resolve("trunk", git.folder) == resolve(commit[:8], git.folder) == commit
    assert resolve("no-such-name", git.folder) == resolve("--all", git.folder) == ""


def test_a_copy_is_as_it_was_and_leaves_the_working_tree_alone(git, tmp_path):
    commit = git("rev-parse", "HEAD")
    (git.folder / "sub" / "plugin.py").write_text("changed", "utf-8")
    tree = checkout(commit, git.folder / "sub", tmp_path / "copies")
    then = tree.then(git.folder / "sub" / "plugin.py")
    assert then.read_text("utf-8") == "one"
    assert tree.then(Path("/elsewhere/plugin.py")) is None
    assert (git.folder / "sub" / "plugin.py").read_text("utf-8") == "changed"
    then.write_text("kept", "utf-8")
    assert checkout(commit, git.folder, tmp_path / "copies").then(git.folder / "sub" / "plugin.py").read_text("utf-8") == "kept"


def test_only_the_last_copies_are_kept(git, tmp_path):
    for number in range(KEPT + 2):
        (git.folder / "sub" / "plugin.py").write_text(str(number), "utf-8")
        git("commit", "-q", "-a", "-m", str(number))
        newest = checkout(git("rev-parse", "HEAD"), git.folder, tmp_path / "copies").copy
    assert len(list((tmp_path / "copies").iterdir())) == KEPT
    assert newest.exists()


def test_what_git_can_t_give_out_is_one_sentence_and_leaves_nothing(git, tmp_path):
    blob = git("rev-parse", "HEAD:sub/plugin.py")
    (git.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UsageError, match="git can't give out revision"):
        checkout(git("rev-parse", "HEAD"), git.folder, tmp_path / "copies")
    assert list((tmp_path / "copies").iterdir()) == []
