"""Names on the bus (requirements 24, 25)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bus import layout
from bus.wire import AttemptId, TaskId

ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=400)
attempts = st.builds(
    layout.attempt_id, ids.map(TaskId), st.integers(1, 10**9 - 1), st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
)


@given(ids)
@example("../../x")
@example("a/b")
@example("x" * 300)
@example("\0")
@example("a\nb")
@example("-rf")
@example("CON")
@example("con.txt")
@example("a~1")
@example("100%")
@example(".")
@example("é" * 200)
def test_requirement_24_any_id_has_one_safe_name(task: str) -> None:
    name = layout.encode_task_id(TaskId(task))
    assert 0 < len(name) <= layout.MAX_TASK_NAME
    assert set(name) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._%-")
    assert name[0] not in ".-_"
    assert name[-1] != "."
    assert ".." not in name
    if "%-" in name:
        with pytest.raises(layout.LayoutError):
            layout.decode_task_id(name)
    else:
        assert layout.decode_task_id(name) == task


@given(ids, ids)
def test_requirement_24_different_ids_have_different_names(one: str, two: str) -> None:
    assert (layout.encode_task_id(TaskId(one)) == layout.encode_task_id(TaskId(two))) == (one == two)


@pytest.mark.parametrize("task", ["1.1", "1.10", "01", "a_b-c", "A", "x" * 120])
def test_plain_ids_are_their_own_names(task: str) -> None:
    assert layout.encode_task_id(TaskId(task)) == task


@pytest.mark.parametrize("task", ["", "\ud800"])
def test_what_is_no_text_is_refused(task: str) -> None:
    with pytest.raises(layout.LayoutError):
        layout.encode_task_id(TaskId(task))


@pytest.mark.parametrize("name", ["a b", "%41", "%zz", "CON", "a..b", "a.", "%C3", "%2f", "", "-a", "a~b"])
def test_only_names_that_encode_returns_are_decoded(name: str) -> None:
    with pytest.raises(layout.LayoutError):
        layout.decode_task_id(name)


@given(attempts)
def test_attempts_are_parsed_and_fit_into_file_names(attempt: AttemptId) -> None:
    name, number, nonce = layout.parse_attempt(attempt)
    assert attempt == f"{name}~{number}-{nonce}"
    assert layout.bucket(attempt) == nonce[0]
    assert layout.attempt_dir(attempt) == f"attempts/{nonce[0]}/{attempt}"
    message = layout.message_name(attempt, nonce * 4)
    assert len(message) <= 200
    assert layout.parse_message_name(message) == (attempt, nonce * 2)
    assert layout.scratch_owner(message) == attempt


@given(st.text(max_size=40))
@example("../x~1-00000000")
@example("1.1~0-00000000")
@example("1.1~1-0000000g")
@example("1.1~1-00000000\n")
@example("a/b~1-00000000")
def test_requirement_24_what_is_no_attempt_is_refused(text: str) -> None:
    with pytest.raises(layout.LayoutError):
        layout.parse_attempt(text + "/")
    if "~" not in text or any(char in text for char in "/\n\0"):
        with pytest.raises(layout.LayoutError):
            layout.parse_attempt(text)


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("\u00e9", "e\u0301"), ("stra\u00dfe", "STRASSE")])
def test_requirement_25_ids_that_meet_have_one_key(one: str, other: str) -> None:
    assert layout.collision_key(TaskId(one)) == layout.collision_key(TaskId(other))


def test_requirement_25_ids_that_differ_have_keys_of_their_own() -> None:
    assert len({layout.collision_key(TaskId(task)) for task in ("1.1", "1.10", "01", "1")}) == 4


@pytest.mark.parametrize("verb", ["", "Stop", "a/b", "x" * 33, "1"])
def test_verbs_are_words(verb: str) -> None:
    with pytest.raises(layout.LayoutError):
        layout.control_name(1, verb)


def test_control_and_event_names_are_parsed() -> None:
    assert layout.parse_control_name(layout.control_name(12, "stop")) == (12, "stop")
    assert layout.parse_control_name("12-stop") is None
    assert layout.parse_event_name("TASK_COMPLETE_1.1.event") == ("TASK_COMPLETE", "1.1")
    assert layout.parse_event_name("OTHER_1.1.event") is None


@given(st.binary(min_size=1, max_size=300))
def test_quarantine_names_are_safe(found: bytes) -> None:
    name = layout.quarantine_name(7, found)
    assert name.startswith("00000007-")
    assert len(name) <= 200
    assert "/" not in name
    assert name.isascii()
