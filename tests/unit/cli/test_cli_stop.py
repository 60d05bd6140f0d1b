from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bus.contract import Reader
from bus.hand import open_hand
from bus.host import FileHost, open_host
from bus.losses import mark_cut
from bus.wire import ProcRecord, Record, Stamp
from conductor.cli import ordering, stop
from conductor.cli.main import run_command_line
from conductor.cli.operator import operator
from conductor.cli.track import Track, resolve
from conductor.core.events import ControlReceived
from tests.unit.cli.conftest import Story


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FileHost]:
    host = open_host(tmp_path / ".message-bus", durability="process")
    yield host
    host.close()


def answer(host: FileHost, seen: list[tuple[str, int | None]], *, after: int = 1) -> object:
    """A conductor that takes the order at the `after`-th look of the waiting verb."""
    looks = 0

    def pause(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks < after:
            return
        (control,) = host.scan().controls
        seen.append((control.verb, control.epoch))
        host.stage("CONTROL", {"verb": control.verb, "who": f"operator:{control.who}"}, Stamp(0.0, 0.0, "b"))
        host.commit()
        host.discard([control])

    return pause


@pytest.mark.parametrize(("arguments", "verb"), [([], "stop"), (["--drain"], "drain")])
def test_the_order_is_bound_to_the_conductor_and_waited_for(
    host: FileHost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    verb: str,
) -> None:
    seen: list[tuple[str, int | None]] = []
    monkeypatch.setattr(ordering, "pause", answer(host, seen))
    assert run_command_line(["stop", str(tmp_path), *arguments]) == 0
    assert seen == [(verb, host.epoch)]
    assert capsys.readouterr().out.startswith("recorded: ")


def test_an_order_waits_for_a_conductor_that_still_recovers(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no epoch yet, and an order without one would be nobody's."""
    holder = tmp_path / ".message-bus" / "conductor.json"
    ready = holder.read_text()
    holder.write_text(json.dumps({**json.loads(ready), "epoch": 0}))
    seen: list[tuple[str, int | None]] = []
    take = answer(host, seen)
    assert callable(take)

    def pause(seconds: float) -> None:
        if json.loads(holder.read_text())["epoch"] == 0:
            assert host.scan().controls == ()
            holder.write_text(ready)
        else:
            take(seconds)

    monkeypatch.setattr(ordering, "pause", pause)
    assert run_command_line(["stop", str(tmp_path)]) == 0
    assert seen == [("stop", host.epoch)]


def test_json_is_one_object(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ordering, "pause", answer(host, []))
    assert run_command_line(["stop", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "recorded"


def test_a_slow_conductor_is_named(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ordering, "pause", answer(host, [], after=80))
    assert run_command_line(["stop", str(tmp_path)]) == 0
    assert capsys.readouterr().err.count("waiting for the conductor (pid ") == 1


def test_a_run_that_ends_meanwhile_is_no_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    host = open_host(tmp_path / ".message-bus", durability="process")
    monkeypatch.setattr(ordering, "pause", lambda seconds: host.close())
    assert run_command_line(["stop", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "the run had ended meanwhile\n"


def test_a_suspended_conductor_is_named_at_once_and_waited_for(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ordering, "is_suspended", lambda _: True)
    monkeypatch.setattr(ordering, "pause", answer(host, [], after=3))
    assert run_command_line(["stop", str(tmp_path), "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["state"] == "recorded"
    assert captured.err.count(f"is suspended and takes no orders; wake it: `kill -CONT {os.getpid()}`") == 1


PLAN = "  nodes: [{id: a, name: one, run: [true]}, {id: b, name: two, depends_on: [a], run: [true]}]"


def stop_story(story: Story, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> list[str]:
    """Stop a run to which `meanwhile` happens before its conductor looks for orders; return what was said."""
    monkeypatch.setattr(ordering, "pause", lambda _: meanwhile())
    said: list[str] = []
    monkeypatch.setattr(stop, "out", said.append)
    assert run_command_line(["stop", str(story.track)]) == 0
    return said[0].splitlines()


@pytest.mark.parametrize(
    ("order", "says"), [(0, "the run had ended meanwhile: done"), (1, "recorded: the run has ended.")]
)
def test_an_order_to_a_run_that_had_ended_meanwhile_stops_nobody(
    story: Story, monkeypatch: pytest.MonkeyPatch, order: int, says: str
) -> None:
    """A conductor that was suspended takes in the results and the order at one look."""
    story.start(PLAN, retries=order, retry_delay=1e6, retry_delay_max=1e6)

    def meanwhile() -> None:
        story.end("a", order)
        if order:
            story.tell(ControlReceived("stop", f"operator:{operator()}"))
        else:
            story.end("b")
            story.host.stage("CONTROL", {"verb": "stop", "who": f"operator:{operator()}"}, Stamp(0.0, 0.0, "b"))
            story.host.commit()

    assert stop_story(story, monkeypatch, meanwhile)[0] == says


def test_an_order_whose_conductor_dies_is_carried_out_in_its_place(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(PLAN)
    taken: list[str] = []

    def take_over(track: Track, reader: Reader, verb: str) -> stop.Outcome:
        taken.append(verb)
        return stop.Outcome("taken_over", "the conductor had died")

    monkeypatch.setattr(stop, "_take_over", take_over)
    assert stop_story(story, monkeypatch, story.die) == ["the conductor had died"]
    assert taken == ["stop"]


@pytest.fixture
def cut_off(story: Story) -> Story:
    """A run of which, behind a repair, the journal does not tell any more; its worker lives on."""
    story.start(PLAN)
    hand = open_hand(story.host.folders.path, story.attempt("a"))
    hand.claim(ProcRecord("boot", 4711, 1, story.host.epoch))
    hand.close()
    mark_cut(story.host.folders)
    story.die()
    (story.track / ".message-bus" / "queue.jsonl").write_bytes(b"")
    return story


def test_a_stop_names_attempts_of_which_the_journal_lost_the_record_and_says_how_to_end_them(
    cut_off: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["stop", str(cut_off.track)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("nothing is running that the journal tells of, but 1 attempt of which the journal does not")
    assert f"still alive: {cut_off.attempt('a')}. " in said
    assert "`kill 4711`" in said


def test_status_and_doctor_name_them_too_and_what_a_run_would_say(
    cut_off: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    track, attempt = str(cut_off.track), cut_off.attempt("a")
    assert run_command_line(["status", track]) == 0
    page = capsys.readouterr().out
    assert "1 attempt of which the journal does not tell any more" in page
    assert "`kill 4711`" in page
    assert run_command_line(["status", track, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["strangers"] == [attempt]
    assert run_command_line(["doctor", track, "--json"]) == 5
    found = json.loads(capsys.readouterr().out)["findings"]
    [problem] = [one for one in found if one["level"] == "problem"]
    assert (problem["code"], attempt in problem["text"]) == ("bus_corrupt", True)
    assert "kill 4711" in problem["hint"]


def test_an_order_does_not_wait_for_the_whole_journal_to_be_read(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        host.stage("NOTE", {"text": "x"}, Stamp(0.0, 0.0, "b"))
        host.commit()
    host.checkpoint({})
    decoded: list[Record] = []
    take = ordering._End.take
    monkeypatch.setattr(
        ordering._End, "take", lambda end, record, load: (decoded.append(record), take(end, record, load))
    )
    monkeypatch.setattr(ordering, "pause", answer(host, []))
    assert run_command_line(["stop", str(tmp_path)]) == 0
    assert decoded == []


def test_never_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["stop", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"nothing is running: {resolve(str(tmp_path)).no_bus()}\n"
    assert list(tmp_path.iterdir()) == []


def test_req37_refused_inside_a_worker_of_the_track(
    host: FileHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONDUCTOR_ATTEMPT", "1~1-00000000")
    monkeypatch.setenv("CONDUCTOR_BUS_DIR", str(tmp_path / ".message-bus"))
    assert run_command_line(["stop", str(tmp_path), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "from_worker"
    assert host.scan().controls == ()
