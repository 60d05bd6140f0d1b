"""Overlap of file patterns, as a table and as laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus import patterns
from conductor.core import conflicts

OVERLAPS = [
    # a, b, whether they have a path in common
    ("src/a.py", "src/a.py", True),
    ("src/a.py", "src/b.py", False),
    ("./src//a.py", "src/x/../a.py", True),
    ("src", "src/a.py", True),
    ("src/", "src/api/x.py", True),
    ("src", "srcs/a.py", False),
    (".", "anything/at/all", True),
    ("src/*", "src/a.py", True),
    ("src/*", "src/api/x.py", True),
    ("src/*", "lib/a.py", False),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/a.ts", False),
    ("src/*.py", "src/api/x.py", False),
    ("src/a*", "src/*b", True),
    ("src/a*c", "src/*bc", True),
    ("src/a?", "src/ab", True),
    ("src/a?", "src/abc", False),
    ("src/?", "src/*", True),
    ("src/[ab].py", "src/b.py", True),
    ("src/[a-c].py", "src/c.py", True),
    ("src/[a-c].py", "src/d.py", False),
    ("src/[ab].py", "src/[cd].py", False),
    ("src/[!a].py", "src/b.py", True),
    ("src/[]].py", "src/].py", True),
    ("src/[a", "src/[a", True),
    ("src/[a", "src/a", False),
    ("app/[id]/page.tsx", "app/?id?/page.tsx", True),
    ("app/[id]", "app/[[]id]/page.tsx", True),
    ("app/[id]/*.tsx", "app/*id]/page.tsx", True),
    ("v[1].txt", "v[[]1*", True),
    ("app/[id]", "app/[slug]", False),
    ("app/[id]", "app/?x?", False),
    ("x{1.txt", "x[{]1.txt", True),
    ("src/[a-\uffff]", "src/b", True),
    ("src/{a,b}.py", "src/a.py", True),
    ("src/{a.py", "src/{a.py", True),
    ("src/**", "src/a/b/c.py", True),
    ("src/**", "lib/a.py", False),
    ("**/x.py", "a/b/x.py", True),
    ("**/x.py", "x.py", True),
    ("**/x.py", "a/y.py", False),
    ("**/*.md", "src/a.py", False),
    ("**/*.md", "src", True),
    ("src/**/t/*.py", "src/a/t/x.py", True),
    ("src/**/t/*.py", "src/a/u/x.py", False),
    ("**/a/**", "b/a", True),
    ("src/a.py/**", "src/a.py", True),
    ("lib/v1.2", "lib/v1.2/x.c", True),
    ("/etc/x", "etc/x", False),
    ("/../etc", "/etc", True),
    ("../a", "../a/b", True),
    ("**/../a", "a", True),
]


@pytest.mark.parametrize(("a", "b", "expected"), OVERLAPS)
def test_overlap(a: str, b: str, *, expected: bool) -> None:
    assert conflicts.overlap(a, b) is expected
    assert conflicts.overlap(b, a) is expected


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("[\u0100-\U0010ffff]x", "[\u0200-\U0010ffff]y"),
        ("".join(f"[{chr(n)}-{chr(n + 250)}]" for n in range(300, 800)), "?" * 500),
        ("*a" * 2000 + "*", "*b" * 2000 + "*"),
        ("**/a/" * 700, "**/b/" * 700),
        ("[" + "".join(map(chr, range(256, 1500))) + "]", "?"),
    ],
)
def test_what_would_take_long_to_compare_is_compared_roughly(a: str, b: str) -> None:
    """Each is some millions of pairs, or a set of a million characters."""
    assert conflicts.overlap(a, b) == (not b.endswith("y"))
    assert max((len(token or ()) for token in patterns._tokens(a)), default=0) <= 2 * patterns.WIDE


SEGMENT = st.text("ab.*?[]-", min_size=1, max_size=4).filter(lambda text: text not in (".", ".."))
PATTERN = st.lists(SEGMENT | st.just("**"), min_size=1, max_size=4).map("/".join)


@given(PATTERN, PATTERN)
def test_overlap_is_symmetric_and_reflexive(a: str, b: str) -> None:
    assert conflicts.overlap(a, b) == conflicts.overlap(b, a)
    assert conflicts.overlap(a, a) or "[" in a  # an empty class like [b-a] matches nothing, not even itself


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=4), st.data())
def test_a_path_is_found_under_each_way_of_writing_it(path: list[str], data: st.DataObject) -> None:
    vague = [
        data.draw(st.sampled_from([name, "*", f"{name[0]}*", f"?{name[1:]}", f"[{name[0]}]{name[1:]}"]))
        for name in path
    ]
    at = data.draw(st.integers(0, len(path)))
    deep = [*vague[:at], "**", *vague[data.draw(st.integers(at, len(path))) :]]
    for written in (vague, deep, vague[: max(1, at)]):
        assert conflicts.overlap("/".join(path), "/".join(written)), written


def test_split() -> None:
    assert patterns.split("./a//b/") == ("a", "b")
    assert patterns.split("a/../../b") == ("..", "b")
    assert patterns.split("/a") == ("", "a")
    assert patterns.split(".") == ()
