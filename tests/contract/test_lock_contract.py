"""Locks, waits and texts: what any bus keeps, whatever it is made of."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from bus import layout
from bus.contract import Busy, Grant, Hand, Host
from bus.projection import event_file
from bus.wire import AttemptId, Stamp, TaskId

NOW = Stamp(1.0, 2.0, "boot")
ONE = layout.attempt_id(TaskId("1.1"), 1, "0a1b2c3d")
TWO = layout.attempt_id(TaskId("1.2"), 1, "1a1b2c3d")
THREE = layout.attempt_id(TaskId("1.3"), 1, "2a1b2c3d")


def exclusive(*keys: str) -> list[tuple[str, bool]]:
    return [(key, False) for key in keys]


def shared(*keys: str) -> list[tuple[str, bool]]:
    return [(key, True) for key in keys]


def granted(found: tuple[Grant, ...] | Busy) -> tuple[Grant, ...]:
    assert isinstance(found, tuple)
    return found


def busy(found: tuple[Grant, ...] | Busy) -> Busy:
    assert isinstance(found, Busy)
    return found


@pytest.fixture
def host(bus: Any) -> Host:
    opened: Host = bus.host()
    for attempt in (ONE, TWO, THREE):
        os.close(opened.create_attempt(attempt))
    return opened


@pytest.fixture
def hands(bus: Any, host: Host) -> tuple[Hand, Hand, Hand]:
    return bus.hand(ONE), bus.hand(TWO), bus.hand(THREE)


def test_a_grant_is_seen_by_all_until_it_is_released(bus: Any, host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, _ = hands
    (grant,) = granted(one.try_lock(exclusive("a", "b")))
    assert (grant.attempt, grant.keys, grant.shared) == (ONE, ("a", "b"), False)
    assert host.grants() == bus.reader().grants() == (grant,)
    assert busy(two.try_lock(exclusive("b", "c"))).holders == (ONE,)
    assert one.unlock(["b", "x"]) == ("b",)
    assert granted(two.try_lock(exclusive("b", "c")))
    assert [(held.attempt, held.keys) for held in host.grants()] == [(ONE, ("a",)), (TWO, ("b", "c"))]
    assert sorted(two.unlock()) == ["b", "c"]
    assert two.unlock() == ()


def test_tokens_grow(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    tokens = []
    for hand in hands:
        (grant,) = granted(hand.try_lock(exclusive("a")))
        tokens.append(grant.token)
        hand.release([grant])
        hand.release([grant])
    assert tokens == sorted(set(tokens))
    assert host.grants() == ()


def test_all_or_none(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    one.try_lock(exclusive("b"))
    assert isinstance(two.try_lock(exclusive("a", "b")), Busy)
    assert granted(three.try_lock(exclusive("a")))


def test_shared_holders_hold_together_and_keep_out_who_wants_it_alone(hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    granted(one.try_lock(shared("a")))
    granted(two.try_lock(shared("a")))
    assert busy(three.try_lock(exclusive("a"))).holders == (ONE, TWO)
    assert busy(one.try_lock(exclusive("a"))).holders == (TWO,)
    two.unlock()
    granted(one.try_lock(exclusive("a")))
    assert busy(three.try_lock(shared("a"))).holders == (ONE,)


def test_both_modes_in_one_lock(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    found = granted(one.try_lock([*exclusive("w"), *shared("r"), *exclusive("r2"), *shared("r2")]))
    assert [(grant.keys, grant.shared) for grant in found] == [(("r2", "w"), False), (("r",), True)]
    granted(two.try_lock(shared("r")))
    assert isinstance(three.try_lock([*exclusive("x"), *shared("w")]), Busy)
    assert isinstance(three.try_lock(exclusive("r")), Busy)


def test_folders_and_globs_cover_what_lies_under_them(hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    granted(one.try_lock(exclusive("src")))
    assert isinstance(two.try_lock(exclusive("src/api/x.py")), Busy)
    assert isinstance(two.try_lock(exclusive("**/x.py")), Busy)
    granted(two.try_lock(exclusive("tests/*.py")))
    assert isinstance(three.try_lock(exclusive("tests/test_a.py")), Busy)
    granted(three.try_lock(exclusive("tests/data/a.json")))
    assert isinstance(three.try_lock(exclusive(".")), Busy)


def test_the_same_attempt_gets_its_grant_back(bus: Any, host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one = hands[0]
    first = granted(one.try_lock(exclusive("a", "src")))
    assert granted(bus.hand(ONE).try_lock(exclusive("a"))) == first
    assert granted(one.try_lock([*shared("a"), *exclusive("src/x.py")])) == first
    assert host.grants() == first
    granted(one.try_lock(exclusive("a", "b")))
    assert [grant.keys for grant in host.grants()] == [("a", "src"), ("a", "b")]


def test_what_came_first_goes_first(hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    granted(one.try_lock(exclusive("a")))
    (wait,) = busy(two.try_lock(exclusive("a", "b"), queue=True)).waits
    assert (wait.kind, wait.what, wait.holders) == ("lock", ("a", "b"), (ONE,))
    assert busy(two.try_lock(exclusive("a", "b"), queue=True)).waits == (wait,)
    assert busy(three.try_lock(exclusive("b"))).holders == (TWO,)
    assert isinstance(three.try_lock(exclusive("b"), queue=True), Busy)
    one.unlock()
    assert busy(three.try_lock(exclusive("b"), queue=True)).holders == (TWO,)
    granted(two.try_lock(exclusive("a", "b"), queue=True))
    two.unlock()
    granted(three.try_lock(exclusive("b"), queue=True))


def test_a_place_in_the_queue_ends_with_the_wait_or_the_process(
    bus: Any, host: Host, hands: tuple[Hand, Hand, Hand]
) -> None:
    one, two, three = hands
    granted(one.try_lock(exclusive("a")))
    (first,) = busy(two.try_lock(exclusive("a"), queue=True)).waits
    busy(three.try_lock(exclusive("a"), queue=True))
    assert [wait.attempt for wait in host.waits()] == [wait.attempt for wait in bus.reader().waits()] == [TWO, THREE]
    for _ in range(2):
        two.end_wait(first)
        assert [wait.attempt for wait in host.waits()] == [THREE]
    three.close()  # type: ignore[attr-defined]
    assert bus.reader().waits() == host.waits() == ()


def test_who_waits_for_the_asker_is_not_in_the_askers_way(hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    granted(one.try_lock(exclusive("a")))
    busy(two.try_lock(exclusive("a", "b"), queue=True))
    assert isinstance(three.try_lock(exclusive("b")), Busy)
    granted(one.try_lock(exclusive("b")))


def test_readers_do_not_overtake_a_writer_that_waits(hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, three = hands
    granted(one.try_lock(shared("a")))
    busy(two.try_lock(exclusive("a"), queue=True))
    assert busy(three.try_lock(shared("a"))).holders == (TWO,)


def test_closing_an_attempt_ends_its_grants_and_waits_and_nobody_elses(
    bus: Any, host: Host, hands: tuple[Hand, Hand, Hand]
) -> None:
    one, two, _ = hands
    granted(one.try_lock(exclusive("a")))
    granted(two.try_lock(exclusive("b")))
    busy(one.try_lock(exclusive("b"), queue=True))
    for _ in range(2):
        host.close_attempt(ONE)
        assert [grant.attempt for grant in host.grants()] == [TWO]
        assert host.waits() == ()


def test_a_grant_is_taken_by_force(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, _ = hands
    taken = granted(one.try_lock(exclusive("a")))
    for _ in range(2):
        host.take_grants(taken)
    assert host.grants() == ()
    granted(two.try_lock(exclusive("a")))
    assert one.unlock(["a"]) == ()


@pytest.mark.parametrize("wanted", [[], [("", False)], [("a\0", False)], [("x" * 5000, True)]])
def test_what_cannot_be_locked_is_refused(hands: tuple[Hand, Hand, Hand], wanted: list[tuple[str, bool]]) -> None:
    with pytest.raises(ValueError, match="lock"):
        hands[0].try_lock(wanted)


def test_a_wait_for_tasks_and_a_question_are_seen_while_they_last(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one, two, _ = hands
    tasks = one.begin_wait("task", ["1.2", "a/b"])
    question = two.begin_wait("question", text="Which?\n", id="0000abcd")
    assert host.waits() == (tasks, question)
    assert (tasks.what, question.text, question.id) == (("1.2", "a/b"), "Which?\n", "0000abcd")
    with pytest.raises(FileExistsError):
        two.begin_wait("question", text="Which?\n", id="0000abcd")
    one.end_wait(tasks)
    two.end_wait(question)
    assert host.waits() == ()


def test_an_answer_is_delivered_once_and_taken_once(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one = hands[0]
    assert one.answer("0000abcd") is None
    for text in ("yes", "no"):
        host.deliver(ONE, layout.answer_name("0000abcd"), text.encode())
    assert one.answer("0000abcd") == "yes"
    assert one.answer("0000abcd") is None
    assert one.texts() == ()


def test_texts_come_in_order(host: Host, hands: tuple[Hand, Hand, Hand]) -> None:
    one = hands[0]
    assert one.texts() == ()
    for number, text in ((2, "then"), (1, "first\n")):
        host.deliver(ONE, layout.steer_name(number), text.encode())
    assert one.texts() == (("00000001-steer.md", "first\n"), ("00000002-steer.md", "then"))
    host.deliver(AttemptId("9~1-00000000"), layout.steer_name(1), b"never made")
    with pytest.raises(layout.LayoutError):
        host.deliver(ONE, "../x", b"")


def put(host: Host, type: str, payload: dict[str, Any], **about: Any) -> None:
    record = host.stage(type, payload, NOW, **about)
    host.commit()
    host.project([record])


def test_events_show_which_paths_were_released(bus: Any, host: Host) -> None:
    put(host, "GRANT_SEEN", {"grant": "g", "keys": ["src/a.py", "b/a.py"]}, attempt=ONE)
    assert set(bus.events()) == set()
    for _ in range(2):
        put(host, "GRANT_GONE", {"grant": "g", "keys": ["src/a.py", "b/a.py"], "how": "released"}, attempt=ONE)
    names = {f"FILE_UNLOCK_{layout.key_name(key)}.event" for key in ("src/a.py", "b/a.py")}
    assert set(bus.events()) == names
    assert all(layout.parse_event_name(name) for name in names)
    said = json.loads(bus.events()[f"FILE_UNLOCK_{layout.key_name('src/a.py')}.event"])
    assert (said["type"], said["payload"]) == (
        "FILE_UNLOCK", {"filepath": "src/a.py", "worker_id": ONE, "how": "released"},
    )  # fmt: skip
    put(host, "GRANT_SEEN", {"grant": "h", "keys": ["b/a.py"]}, attempt=TWO)
    assert set(bus.events()) == {f"FILE_UNLOCK_{layout.key_name('src/a.py')}.event"}
    before = bus.events()
    host.close()
    bus.host().close()
    assert bus.events() == before
    put(bus.host(), "RUN_STARTED", {})
    assert bus.events() == {}


def test_a_task_that_is_retried_is_not_shown_as_failed(bus: Any, host: Host) -> None:
    for type in ("TASK_FAILED", "TASK_BLOCKED"):
        put(host, type, {"task_id": type}, task=TaskId(type))
    retry = {"verb": "retry", "who": "me", "target": "TASK_FAILED", "tasks": ["TASK_FAILED", "TASK_BLOCKED"]}
    put(host, "CONTROL", {**retry, "refused": "no"})
    put(host, "CONTROL", {**retry, "verb": "pause"})
    assert len(bus.events()) == 2
    put(host, "CONTROL", retry)
    assert bus.events() == {}


@pytest.mark.parametrize("key", [".", "/", "a b/ü.py", "x" * 500, "**/*.py", "-", "a..b", "CON"])
def test_a_key_has_a_file_name_of_its_own(key: str) -> None:
    name = event_file("FILE_UNLOCK", layout.key_name(key))
    assert layout.parse_event_name(name) == ("FILE_UNLOCK", layout.key_name(key))
    assert layout.key_name(key) != layout.key_name(key + "x")
    assert len(name) < 120


def test_a_hand_knows_what_it_made_itself_and_whether_anything_changed(
    bus: Any, host: Host, hands: tuple[Hand, Hand, Hand]
) -> None:
    one, two, _ = hands
    for _ in range(100_000):  # a file's time may be as coarse as a clock tick
        before = two.lock_changes()
        if two.lock_changes() == before:
            break
    assert two.lock_changes() == before
    (grant,) = granted(one.try_lock(exclusive("a")))
    assert two.lock_changes() != before
    assert one.made(grant)
    other = bus.hand(ONE)
    assert granted(other.try_lock(exclusive("a"))) == (grant,)
    assert not other.made(grant)
