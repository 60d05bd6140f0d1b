"""What a run holds, asks and waits for, as `status`, `why` and the screens show it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from bus.wire import TaskId
from conductor.cli.frame import totals_text
from conductor.cli.main import run_command_line
from conductor.cli.rows import rows_of, seconds_left, totals_of
from conductor.cli.screen_plain import PlainScreen
from conductor.cli.summary import summary
from conductor.cli.track import resolve
from conductor.core.events import ControlReceived, TimerFired
from conductor.core.wait_events import AttemptLife, GrantSeen, WaitBegan, WaitEnded
from tests.unit.cli.conftest import BEGIN, Story

NODES = """  nodes:
    - {id: "1", name: "First", run: [x]}
    - {id: "2", name: "Second", run: [x]}
    - {id: "3", name: "Gated", run: [x], approve: before}
    - {id: "4", name: "Checked", run: [x], approve: after}
    - {id: "5", name: "By hand", agent: manual}
    - {id: "6", name: "Last", run: [x], depends_on: ["1"]}
"""

MARY = "operator:mary"


def order(story: Story, verb: str, target: str | None = None, text: str | None = None) -> None:
    story.tell(story.machine.resolve(ControlReceived(verb, MARY, target, text)))


def lock(story: Story, task: str, *keys: str, id: str = "0000000a") -> None:
    story.tell(GrantSeen(TaskId(task), story.attempt(task), id, keys, False, 1))


def wait(story: Story, task: str, kind: str, *what: str, id: str = "0000000b", text: str = "") -> None:
    story.tell(WaitBegan(TaskId(task), story.attempt(task), id, kind, what, text=text))


def notes(story: Story) -> dict[str, str]:
    return {row.id: row.note for row in rows_of(story.view(), BEGIN + story.now)}


@pytest.fixture
def page(story: Story, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(*arguments: str) -> str:
        capsys.readouterr()
        verb, *rest = arguments
        assert run_command_line([verb, str(story.track), *rest]) == 0
        return capsys.readouterr().out

    return call


def test_status_says_what_waits_for_people_and_what_to_type(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES)
    story.end("4")
    wait(story, "1", "question", id="1a2b3c4d", text="which one?\nquick")
    text, track = page("status"), story.track
    assert (
        f"3 waits for approval\n  Approve: conductor approve {track} 3\n  Reject:  conductor reject {track} 3\n" in text
    )
    assert (
        f"4 waits for approval\n  Approve: conductor approve {track} 4\n  Reject:  conductor reject {track} 4\n" in text
    )
    assert f"5 is for a person\n  Done:    conductor complete {track} 5\n  Failed:  conductor fail {track} 5\n" in text
    assert f"1 asks: which one?\\nquick\n  Answer it: conductor answer {track} 1a2b3c4d TEXT\n" in text
    assert seconds_left(story.view(), BEGIN) is None
    for task, verbs in {"3": ("approve", "reject"), "5": ("complete", "fail")}.items():
        assert all(f"conductor {verb} {track} {task}\n" in page("why", task) for verb in verbs)
    assert f"Answer:   conductor answer {track} 1a2b3c4d TEXT\n" in page("why", "1")


def test_a_pause_is_said_with_who_asked_and_how_to_go_on(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES, max_workers=1)
    order(story, "pause")
    text = page("status")
    assert text.startswith("paused by mary, conductor pid ")
    assert f"Paused by mary: nothing new is started.\n  Go on: conductor resume {story.track}\n" in text
    data = json.loads(page("status", "--json"))
    assert (data["run"]["state"], data["run"]["paused_by"]) == ("paused", MARY)
    totals = totals_of(story.view(), BEGIN, None)
    assert totals.hint == "by mary"
    assert notes(story)["2"] == "for the run to go on, paused by mary"


def test_locks_and_who_waits_for_whom_are_shown(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES)
    lock(story, "1", "a.py")
    wait(story, "2", "lock", "a.py")
    assert notes(story)["2"] == "for the lock of a.py, after 1"
    assert "\nLocked: a.py by 1\n" in page("status")
    (held,) = json.loads(page("status", "--json"))["locks"]
    assert (held["keys"], held["task"], held["shared"]) == (["a.py"], "1", False)
    assert "Waits for the lock of a.py, after 1." in page("why", "2")


def test_a_deadlock_is_named_while_it_lasts(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES)
    lock(story, "1", "a")
    lock(story, "2", "b", id="0000000c")
    wait(story, "1", "lock", "b", id="0000000d")
    wait(story, "2", "lock", "a", id="0000000e")
    text = page("status")
    assert "Deadlock: 1 waits for b (held by 2); 2 waits for a (held by 1). " in text
    (found,) = json.loads(page("status", "--json"))["deadlocks"]
    assert {member["task"] for member in found["members"]} == {"1", "2"}
    assert found["victim"] in ("1", "2")
    (other,) = {"1", "2"} - {found["victim"]}
    assert notes(story)[other].startswith("in a deadlock, for the lock of ")
    assert notes(story)[found["victim"]] == "being stopped to end a deadlock"


@pytest.mark.parametrize(
    ("life", "detail", "note"),
    [
        ("quiet", "no output for 10m", "quiet: no output for 10m; 40 % half"),
        ("starting", "", "starting; 40 % half"),
        ("working", "", "40 % half"),
    ],
)
def test_requirement_22_what_is_seen_of_a_worker_stands_behind_its_name(
    story: Story, page: Callable[..., str], life: str, detail: str, note: str
) -> None:
    story.start(NODES)
    story.progress("1", 40, "half")
    assert notes(story)["1"] == "40 % half"
    story.tell(AttemptLife(TaskId("1"), story.attempt("1"), life, detail))
    assert notes(story)["1"] == note
    tasks = {task["id"]: task for task in json.loads(page("status", "--json"))["tasks"]}
    assert (tasks["1"]["life"]["state"], tasks["1"]["life"]["detail"]) == (life, detail)
    assert tasks["2"]["life"] == {"state": "working", "detail": "", "since": None}
    assert tasks["3"]["life"] is None


def test_a_kind_of_workers_that_is_held_back_says_why_and_how_to_try_it(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES, breaker=1, max_workers=1)
    story.end("1", 3)
    text = page("status")
    held = "(too many of its attempts failed in a row).\n  Try it now: conductor resume "
    assert "Command:x is held back for " in text
    assert held in text
    assert "Workers for command x: 1 attempt, 1 failed (1 by exit status); an attempt takes 3.0s (median)\n" in text
    kind = json.loads(page("status", "--json"))["kinds"]["command:x"]
    assert (kind["failures"], kind["held_back"]["class"]) == ({"exit": 1}, "breaker")


def test_an_order_that_no_conductor_carried_out_yet_is_told_by_why(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES)
    fact = story.machine.resolve(ControlReceived("cancel", MARY, "6", ahead=True))
    story.record(fact)
    assert "`cancel` is ordered by mary; the conductor carries it out." in page("why", "6")
    assert "cancel 6 by mary" in page("why", "6")


def test_what_is_ordered_already_is_not_asked_of_people_again(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES)
    story.end("4")
    wait(story, "1", "question", id="1a2b3c4d", text="which one?")
    for verb, target in (("approve", "4"), ("complete", "5"), ("cancel", "6"), ("answer", "1a2b3c4d")):
        story.record(story.machine.resolve(ControlReceived(verb, MARY, target, "yes", ahead=True)))
    assert notes(story)["4"] == "approved by mary, the next run goes on with it"
    assert notes(story)["5"] == "said to be done by mary, the next run goes on with it"
    assert notes(story)["6"] == "cancelled by mary, the next run goes on with it"
    text = page("status")
    assert f"complete {story.track} " not in text
    assert f"approve {story.track} 4" not in text
    assert "asks: which one?" not in text
    assert f"conductor approve {story.track} 4" not in page("why", "4")
    story.die()
    assert "`approve` is ordered by mary; the next run goes on with it." in page("why", "4")
    tasks = {task["id"]: task["ordered"] for task in json.loads(page("status", "--json"))["tasks"]}
    assert tasks["4"] == {"verb": "approve", "who": MARY}
    assert (tasks["1"], tasks["6"]) == (None, {"verb": "cancel", "who": MARY})


def test_a_run_that_gave_up_says_so_while_its_workers_go_on(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES, fail_fast=True, max_workers=2)
    story.end("2", 3)
    said = "gave up: a task failed, and --fail-fast starts nothing more then; what runs goes on to its end"
    assert page("status").startswith(f"running ({said}) by pid ")
    run = json.loads(page("status", "--json"))["run"]
    assert (run["state"], run["reason"]) == ("running", "fail_fast")
    assert notes(story)["4"] == "not started: the run gave up"
    view = story.view()
    assert seconds_left(view, BEGIN) is None
    assert "running: gave up, nothing new is started" in totals_text(totals_of(view, BEGIN, None))
    record = next(one for one in story.records if one.type == "RUN_GAVE_UP")
    screen = PlainScreen(io.StringIO(), resolve(str(story.track)), story.host, quiet=False)
    assert str(screen.line(record, {})).endswith(said)


def test_the_last_words_of_a_run_name_who_is_waited_for_and_who_cancelled(story: Story) -> None:
    story.start(NODES, wait_for_people=False)
    order(story, "cancel", "6")
    for task in ("1", "2", "4"):
        story.end(task)
    view = story.view()
    assert (view.state, view.reason) == ("escalated", "waits_for_people")
    text = summary(view, resolve(str(story.track)), story.host, colour=False)
    assert text.startswith("gave up")
    assert "Only people could let the run go on, and it does not wait for them.\n" in text
    assert "cancelled (by mary): 6\n" in text
    assert f"4 waits for approval\n  Approve: conductor approve {story.track} 4\n" in text
    assert f"5 is for a person\n  Done:    conductor complete {story.track} 5\n" in text  # a run that gave up skips it


def test_lines_of_a_run_tell_of_questions_gates_and_lives(story: Story, capsys: Any) -> None:
    import sys

    story.start(NODES)
    wait(story, "1", "question", id="1a2b3c4d", text="which?")
    wait(story, "2", "task", "1", id="1a2b3c4e")
    story.tell(AttemptLife(TaskId("2"), story.attempt("2"), "quiet", "no output for 10m"))
    screen = PlainScreen(sys.stdout, resolve(str(story.track)), story.host, quiet=False)
    screen.start(0.0)
    screen.update(story.view, story.records, 0.0)
    said = capsys.readouterr().out
    track = story.track
    assert f"1 First: asks: which? (question 1a2b3c4d): conductor answer {track} 1a2b3c4d TEXT\n" in said
    assert "2 Second: quiet: no output for 10m\n" in said
    assert f"3 Gated: waits for approval to start: conductor approve {track} 3\n" in said
    assert f"5 By hand: is for a person to do now: conductor complete {track} 5\n" in said
    assert "waits for task" not in said


def test_req31_names_and_questions_cannot_move_the_cursor(story: Story, page: Callable[..., str]) -> None:
    story.start('  nodes: [{id: "5", name: "x\\u202ey", agent: manual}, {id: "1", name: "y", run: [x]}]')
    wait(story, "1", "question", id="1a2b3c4d", text="\x1b[2J?")
    for text in (page("status"), page("why", "5"), page("why", "1"), page("events")):
        assert "\u202e" not in text
        assert "\x1b" not in text


def test_what_a_person_has_to_do_is_said(story: Story, page: Callable[..., str]) -> None:
    """By `why` in full, in status and on the screens shortened; before and behind the end of a run."""
    node = '{id: "5", name: "By hand", agent: manual, instructions: "Count the boxes.\\nWrite them down.", '
    gate = '{id: "6", name: "Gate", run: [x], approve: before, acceptance: "all green"}'
    story.start(f'  nodes: [{node}acceptance: "as many as last year"}}, {gate}]')
    text = page("status")
    assert "5 is for a person: Count the boxes.\n  Done:    conductor complete " in text
    assert "6 waits for approval: It is accepted when: all green\n" in text
    assert notes(story)["5"] == "for a person to do it: Count the boxes."
    assert "  Count the boxes.\n  Write them down.\n  It is accepted when: as many as last year\n" in page("why", "5")
    assert run_command_line(["logs", str(story.track), "5"]) == 0


def test_a_task_for_a_person_has_no_logs_and_they_say_where_to_look(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES)
    assert run_command_line(["logs", str(story.track), "5"]) == 0
    said = capsys.readouterr().err
    assert said == (
        "there is no output: the task is for a person, and has no worker. "
        f"What is to be done: conductor why {story.track} 5\n"
    )


def test_rows_say_why_a_task_is_not_started_and_why_one_is_tried_again(story: Story, page: Callable[..., str]) -> None:
    story.start('  nodes: [{id: "1", name: "1", run: [x]}, {id: "2", name: "y", run: [x]}]', max_workers=1, retries=1)
    assert notes(story) == {"1": "", "2": "for a free worker"}
    story.end("1", 3)
    story.end("2")
    story.tell(TimerFired("retry:1"))
    assert notes(story)["1"] == "again after: exit 3"
    assert "1  1" not in page("status")  # a task without a name is not named twice


def test_why_of_a_task_that_a_pause_holds_names_the_verb(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES, max_workers=1)
    order(story, "pause")
    assert f"Go on:    conductor resume {story.track}\n" in page("why", "2")


def test_a_run_that_gave_up_is_called_so_everywhere(story: Story, page: Callable[..., str]) -> None:
    story.start(NODES, wait_for_people=False)
    for task in ("1", "2", "4", "6"):
        story.end(task)
    assert story.view().state == "escalated"
    assert page("status").startswith("gave up (")
    assert "run ended: gave up" in page("events")


def test_who_answered_is_said_to_who_answers_again(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    wait(story, "1", "question", id="1a2b3c4d", text="which?")
    order(story, "answer", "1a2b3c4d", "the red one")
    story.tell(WaitEnded(TaskId("1"), story.attempt("1"), "0000000b", "over"))
    story.tell(WaitEnded(TaskId("1"), story.attempt("1"), "1a2b3c4d", "over"))
    assert run_command_line(["answer", str(story.track), "1a2b3c4d", "blue"]) == 1
    assert "question 1a2b3c4d is over: mary answered it: the red one" in capsys.readouterr().err
