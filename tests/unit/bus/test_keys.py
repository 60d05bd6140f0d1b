"""Canonical keys: one file is one key, however it is named; and who is in whose way."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import keys, real_paths
from bus.contention import covers, in_the_way, overlapping
from bus.grants import Grant, WaitFile
from bus.real_paths import key_of
from bus.wire import AttemptId

A, B, C = AttemptId("a~1-00000000"), AttemptId("b~1-00000000"), AttemptId("c~1-00000000")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a folder, a file, a link to each, and a link to the project beside it."""
    folder = tmp_path / "project"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    (folder / "link.py").symlink_to("src/a.py")
    (folder / "linked").symlink_to("src")
    (tmp_path / "elsewhere").symlink_to(folder)
    return folder


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/deep/../a.py", "src/a.py"),
        ("nowhere/../src/a.py", "src/a.py"),
        ("link.py", "src/a.py"),
        ("linked/a.py", "src/a.py"),
        ("linked/deep/../a.py", "src/a.py"),
        ("linked/*.py", "src/*.py"),
        ("linked/**/../x", "src/**/../x"),
        ("src/new/file", "src/new/file"),
        ("src/", "src"),
        (".", "."),
        ("src/..", "."),
        ("**", "**"),
        ("*.md", "*.md"),
        ("/*", "."),
        ("..", "."),
        ("/", "."),
    ],
)
def test_one_file_is_one_key(project: Path, path: str, key: str) -> None:
    assert key_of(path, project=str(project)) == key
    for base in (project, project.parent / "elsewhere"):
        if not path.startswith("/"):
            assert key_of(str(base / path), project=str(project)) == key or "*" in path
            assert key_of(path, project=str(base), cwd=str(base)) == key


def test_paths_are_relative_to_where_they_are_written(project: Path, tmp_path: Path) -> None:
    assert key_of("a.py", project=str(project), cwd=str(project / "src")) == "src/a.py"
    assert key_of("../x", project=str(project), cwd=str(project / "linked")) == "x"
    outside = os.path.realpath(tmp_path)
    assert key_of("a.py", project=str(project), cwd=str(tmp_path)) == f"{outside}/a.py"
    assert key_of("../a*", project=str(project)) == f"{outside}/a*"
    assert key_of("../projects", project=str(project)) == f"{outside}/projects"
    assert key_of("x", project="/") == "x"


def test_a_name_with_wildcards_in_it_that_exists_is_that_file(tmp_path: Path) -> None:
    folder = tmp_path / "project [new]"
    folder.mkdir()
    (folder / "a[1].py").touch()
    (folder / "linked").symlink_to("a[1].py")
    for path in ("a[1].py", "linked", str(folder / "a[1].py")):
        assert key_of(path, project=str(folder)) == "a[1].py"
    assert key_of(str(folder / "*.py"), project=str(folder)) == "*.py"
    assert key_of("b[1].py", project=str(folder)) == "b[1].py"
    (folder / "real").mkdir()
    (folder / "[id]").symlink_to("real")
    assert key_of("[id]/*.py", project=str(folder)) == "real/*.py"


def test_a_real_name_with_brackets_and_a_pattern_that_means_it_meet(tmp_path: Path) -> None:
    (tmp_path / "app" / "[id]").mkdir(parents=True)
    for name in ("app/[id]/page.tsx", "v[1].txt"):
        (tmp_path / name).touch()
    for held, asked in (
        ("app/[id]/page.tsx", "app/?id?/page.tsx"),
        ("app/[id]/page.tsx", "app/[[]id]/*"),
        ("app/[id]", "app/?id?/new.tsx"),
        ("v[1].txt", "v?1?.txt"),
        ("v[1].txt", "*"),
    ):
        key = key_of(asked, project=str(tmp_path))
        assert in_the_way(B, [((key,), False)], None, [grant(A, key_of(held, project=str(tmp_path)))], [])[0], asked


def test_where_case_means_nothing_names_of_one_file_are_one_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_of("SRC/a.py", project=str(project)) == "SRC/a.py"
    assert not real_paths.folds_case(str(project))
    assert not real_paths.folds_case(str(project / "nowhere"))
    monkeypatch.setattr(os.path, "samefile", lambda a, b: str(a).lower() == str(b).lower())
    assert key_of("SRC/a.py", project=str(project)) == "src/a.py"
    assert key_of("Stra\u00dfe/\u00c4", project=str(project)) == key_of("STRASSE/A\u0308", project=str(project))
    empty = project / "src" / "deep"
    assert real_paths.folds_case(str(empty)), "an empty folder is judged by its own name"


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000, "\udc80"])
def test_what_is_no_path_is_no_key(project: Path, path: str) -> None:
    with pytest.raises(ValueError, match="cannot be locked"):
        key_of(path, project=str(project))


@given(st.lists(st.sampled_from(["a", "b", "..", ".", "", "*", "**", "a*"]), max_size=6).map("/".join))
def test_a_key_spelled_again_is_itself(text: str) -> None:
    if text:
        found = keys.normal(text)
        assert keys.normal(found) == found


# --- who is in the way ----------------------------------------------------------------------------------------------


def grant(attempt: AttemptId, *of: str, shared: bool = False) -> Grant:
    return Grant("0", attempt, of, shared, 1)


def waits(attempt: AttemptId, ticket: int, *what: str, shared: bool = False) -> WaitFile:
    return WaitFile("0", attempt, "lock", what, shared, ticket=ticket)


def test_a_folder_is_held_with_what_lies_under_it() -> None:
    assert covers(grant(A, "src"), "src/deep/x", shared=False)
    assert covers(grant(A, "."), "src", shared=False)
    assert covers(grant(A, "src/*"), "src/*", shared=False)
    assert not covers(grant(A, "src/*"), "src/x", shared=False)
    assert not covers(grant(A, "src/a"), "src", shared=False)
    assert not covers(grant(A, "src", shared=True), "src", shared=False)
    assert covers(grant(A, "src", shared=True), "src/x", shared=True)


def test_overlapping_finds_what_a_key_touches() -> None:
    held = [grant(A, "src/a.py"), grant(B, "docs", "src/*.md"), grant(C, "other.txt")]
    assert overlapping(held, "src") == held[:2]
    assert overlapping(held, "**/x.md") == [held[1]]
    assert overlapping(held, ".") == held


def test_older_waits_are_in_the_way_and_younger_are_not() -> None:
    queue = [waits(A, 1, "x"), waits(B, 2, "x"), waits(C, 3, "x")]
    assert in_the_way(B, [(("x",), False)], 2, [], queue) == ([], [queue[0]])
    assert in_the_way(C, [(("x",), False)], None, [], queue) == ([], queue[:2])
    assert in_the_way(C, [(("y",), False)], None, [], queue) == ([], [])


@dataclass(frozen=True)
class Ask:
    keys: tuple[str, ...]
    shared: bool


asks = st.builds(Ask, st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(tuple), st.booleans())


@given(st.lists(st.tuples(st.sampled_from([A, B, C]), asks), max_size=5), st.lists(asks, max_size=2), asks)
def test_without_waits_a_lock_is_granted_exactly_where_no_other_holds_one_of_its_keys_against_it(
    held: list[tuple[AttemptId, Ask]], wanted: list[Ask], last: Ask
) -> None:
    every = [*wanted, last]
    grants = [grant(attempt, *ask.keys, shared=ask.shared) for attempt, ask in held]
    expected = [
        grant
        for grant in grants
        if grant.attempt != A
        and any(set(ask.keys) & set(grant.keys) and not (ask.shared and grant.shared) for ask in every)
    ]
    assert in_the_way(A, [(ask.keys, ask.shared) for ask in every], None, grants, []) == (expected, [])
