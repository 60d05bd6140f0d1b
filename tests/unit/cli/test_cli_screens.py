"""What `run` shows: the three screens and the summary, fed as the driver feeds them."""

from __future__ import annotations

import io
import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from bus.reader import open_reader
from bus.wire import Stamp, TaskId
from conductor.cli import watching
from conductor.cli.load import load
from conductor.cli.main import run_command_line
from conductor.cli.screen import Fallback, RunScreen, choose
from conductor.cli.screen_json import JsonScreen
from conductor.cli.screen_live import LiveScreen
from conductor.cli.screen_plain import PlainScreen
from conductor.cli.summary import summary
from conductor.cli.track import resolve
from conductor.cli.watching import watch_run
from conductor.core.events import ControlReceived, RunResumed, TimerFired

if TYPE_CHECKING:
    from conftest import BEGIN, Story
else:
    BEGIN = 1_750_000_000.0

NODES = """  nodes:
    - {id: "1", name: "First", files: [a.py], estimated_duration: 10s}
    - {id: "2", name: "Second", depends_on: ["1"], estimated_duration: 20s}
    - {id: "3", name: "Third", files: [a.py], estimated_duration: 10s}
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Gone(io.StringIO):
    """An output whose reader has left."""

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return True


class StoryClock:
    """The time of the story."""

    def __init__(self, story: Story) -> None:
        self._story = story

    def stamp(self) -> Stamp:
        return Stamp(BEGIN + self._story.now, self._story.now, "boot")

    def monotonic(self) -> float:
        return self._story.now


class Show:
    """Feeds a screen with what is new in the story."""

    def __init__(self, story: Story, screen: RunScreen) -> None:
        self.story, self.screen, self.seen = story, screen, 0
        screen.start(story.now)

    def look(self) -> float | None:
        fresh, self.seen = self.story.records[self.seen :], len(self.story.records)
        return self.screen.update(self.story.view, fresh, self.story.now)


def live(story: Story, width: int = 80, height: int = 24) -> tuple[LiveScreen, Console]:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, height=height, color_system="standard", highlight=False
    )
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return LiveScreen(stream, resolve(str(story.track)), story.host, console, StoryClock(story)), console


def picture(console: Console) -> list[str]:
    """Play back what was written to the terminal: only what the live screen uses."""
    return replay_terminal(console.file.getvalue())  # type: ignore[attr-defined]


def replay_terminal(data: str) -> list[str]:
    lines: list[str] = [""]
    row = 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", data):
        if token == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif token == "\r":
            continue
        elif token.startswith("\x1b"):
            kind, number = token[-1], token[2:-1]
            if kind == "A":
                row = max(row - int(number or 1), 0)
            elif kind == "K" and number == "2":
                lines[row] = ""
            elif kind == "J":
                lines, row = [""], 0
            else:
                assert kind in "mlhH", token
        else:
            lines[row] += token
    return [line.rstrip() for line in lines]


def test_choose(story: Story) -> None:
    track = resolve(str(story.track))

    def kind(stdout: io.StringIO, **flags: bool) -> type:
        return type(choose(**{"json": False, "quiet": False, **flags}, stdout=stdout, track=track, reader=story.host))

    assert kind(Terminal()) is Fallback
    assert kind(io.StringIO()) is PlainScreen
    assert kind(Terminal(), quiet=True) is PlainScreen
    assert kind(Terminal(), json=True, quiet=True) is JsonScreen


def test_plain_has_one_line_an_event(story: Story) -> None:
    stream = io.StringIO()
    with PlainScreen(stream, resolve(str(story.track)), story.host, quiet=False) as screen:
        show = Show(story, screen)
        screen.note("something\x1b[2J\nodd")
        story.start(NODES, retries=1)
        story.progress("1", 10, "quiet")
        assert show.look() is None
        story.end("1", 3, tail="boom")
        story.tell(TimerFired("retry:1"))
        story.end("3")
        story.end("1")
        story.end("2")
        show.look()
        screen.close(story.view(), 0)
    assert stream.getvalue() == (
        "note: something\\e[2J\\nodd\n"
        f"   0.0s  run 00c0ffee00c0ffee started in {story.track.parent}, up to 5 workers\n"
        "   0.0s  1 First: attempt 1 started\n"
        '   3.0s  1 First: exit 3: "boom"; attempt 2 in 0.0s\n'
        "   3.0s  3 Third: attempt 1 started\n"
        "   6.0s  3 Third: done\n"
        "   6.0s  1 First: attempt 2 started\n"
        "   9.0s  1 First: done, unblocks 2\n"
        "   9.0s  2 Second: attempt 1 started\n"
        "    12s  2 Second: done\n"
        "    12s  run ended: done: 3 done\n"
        "\n"
        "✓ All 3 tasks are done in 12s.\n" + look_on(story)
    )


def look_on(story: Story) -> str:
    return f"\nLook:     conductor status {story.track}\nOutput:   conductor logs {story.track} 2\n"


def test_nothing_to_do_says_since_when_and_how_to_run_everything_again(story: Story, track: Path) -> None:
    story.start(NODES)
    for task in ("1", "3", "2"):
        story.end(task)
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(BEGIN + story.now))
    head = f"✓ Nothing to do: all 3 tasks are done since {since}."
    tasks = [task.id for task in story.view().tasks]
    place = resolve(str(track))
    for quiet, text in (
        (True, f"{head}\n"),
        (False, f"{head}\n{look_on(story)}Again:    conductor reset {track} && conductor run {track}\n"),
    ):
        stream = io.StringIO()
        PlainScreen(stream, place, story.host, quiet=quiet).idle(story.view(), tasks)
        assert stream.getvalue() == text
    screen, console = live(story)
    with screen:
        screen.start(0.0)
        screen.idle(story.view(), tasks[:1])
    assert any("Nothing to do: task 1 is done since" in line for line in picture(console))
    stream = io.StringIO()
    JsonScreen(stream, story.host).idle(story.view(), tasks)
    assert json.loads(stream.getvalue())["exit_code"] == 0


def test_quiet_is_the_summary_alone(story: Story) -> None:
    stream = io.StringIO()
    screen = PlainScreen(stream, resolve(str(story.track)), story.host, quiet=True)
    show = Show(story, screen)
    screen.note("nothing")
    story.start(NODES)
    story.end("1")
    show.look()
    story.end("3")
    story.end("2")
    show.look()
    screen.close(story.view(), 0)
    assert stream.getvalue() == "✓ All 3 tasks are done in 9.0s.\n"


def test_json_is_the_journal_and_the_result(story: Story) -> None:
    stream = io.StringIO()
    screen = JsonScreen(stream, story.host)
    show = Show(story, screen)
    screen.note("not for scripts")
    story.start(NODES)
    story.end("1", 3)
    story.end("3")
    show.look()
    screen.close(story.view(), 1)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["type"] for line in lines[:-1]] == [record.type for record in story.records]
    assert lines[0]["type"] == "RUN_STARTED"
    result = lines[-1]
    assert (result["type"], result["exit_code"]) == ("RUN_RESULT", 1)
    assert sum(result["counts"].values()) == len(result["tasks"]) == 3
    assert result["tasks"][1]["blocked_by"] == ["1"]


def test_live_draws_one_line_a_task_and_the_whole(story: Story) -> None:
    screen, console = live(story)
    with screen:
        show = Show(story, screen)
        story.start(NODES)
        story.progress("1", 40, "parsing")
        story.now = 4.0
        show.look()
        assert picture(console)[1:] == [
            "▶ running    1  First      4.0s  40 % parsing",
            "· pending    2  Second",
            "◔ waiting    3  Third            for a.py, in use by 1",
            "",
            "╍╍╍╍╍╍╍╍──────────────────  0/3 done · 1 of 5 workers · 4.0s, about 26s left",
        ]


def test_live_claims_no_time_before_anything_is_known(story: Story) -> None:
    screen, console = live(story, 100)
    with screen:
        show = Show(story, screen)
        story.start('  nodes: [{id: "1"}, {id: "2", depends_on: ["1"]}]')
        story.now = 2.0
        show.look()
        assert picture(console)[-1].endswith("· 2.0s")
        story.end("1")
        show.look()
        assert picture(console)[-1].endswith("· 5.0s, about 3s left")


def test_a_task_that_is_tried_again_says_why(story: Story) -> None:
    screen, console = live(story, 100)
    with screen:
        show = Show(story, screen)
        story.start('  nodes: [{id: "1", name: One}]', retries=1, retry_delay=8.0, seed=1)
        story.end("1", 7, tail="bad thing")
        show.look()
        assert re.search(r"waiting +1  One +3.0s  exit 7: \"bad thing\"; attempt 2 in \d", picture(console)[1])


def test_live_says_where_the_run_works_and_keeps_the_end_of_a_long_path(story: Story) -> None:
    project = str(story.track.parent)
    for width, line in ((200, f"run 00c0ffee00c0ffee in {project}, up to 5 workers"), (40, "in …")):
        screen, console = live(story, width)
        with screen:
            show = Show(story, screen)
            if width == 200:
                story.start(NODES)
            show.look()
            shown = picture(console)[0]
        assert shown.startswith(line)
        assert shown.endswith(f"{project[-8:]}, up to 5 workers")
        assert len(shown) < width


@pytest.mark.parametrize("own", [True, False])
def test_live_says_what_ctrl_c_does_while_the_run_drains(story: Story, own: bool) -> None:
    _, console = live(story, 120)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    screen = LiveScreen(stream, resolve(str(story.track)), story.host, console, StoryClock(story), own=own)
    with screen:
        show = Show(story, screen)
        story.start(NODES)
        story.tell(ControlReceived("drain", "signal:INT"))
        story.now = 1.0
        show.look()
        assert ("· draining: Ctrl-C again stops the running tasks ·" in picture(console)[-1]) is own
        story.tell(ControlReceived("stop", "signal:INT"))
        story.now = 2.0
        show.look()
        assert "· draining · 2.0s" in picture(console)[-1]


def test_a_run_that_was_taken_over_claims_no_working_time(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours may have passed without a conductor: they are no time that the tasks took."""
    story.start(NODES)
    story.end("1")
    story.now += 3600.0
    run = story.machine.state.run
    assert run is not None
    story.tell(RunResumed(run.id, run.options, len(story.records)))
    for task in ("3", "2"):
        story.end(task)
    text = summary(story.view(), resolve(str(track)), story.host, colour=False)
    assert text.startswith("✓ All 3 tasks are done, 1h after the run began (time without a conductor included).\n")
    capsys.readouterr()
    assert run_command_line(["status", str(track)]) == 0
    assert "1h after the run began (time without a conductor included), ended" in capsys.readouterr().out


def test_processes_left_behind_are_told_calmly(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "ended 1 process that it left behind (sl\\e[1meep)"
    stream = io.StringIO()
    screen = PlainScreen(stream, resolve(str(track)), story.host, quiet=False)
    show = Show(story, screen)
    story.start(NODES)
    story.end("1", leftovers={"killed": [{"pid": 7, "name": "sl\x1b[1meep"}], "kept": []})
    story.end("3")
    show.look()
    assert f"   3.0s  1 First: {said}\n   3.0s  1 First: done" in stream.getvalue()
    story.end("2")
    text = summary(story.view(), resolve(str(track)), story.host, colour=False)
    assert text.startswith(f"✓ All 3 tasks are done in 9.0s.\n1: {said}\n\nLook:")
    assert run_command_line(["why", str(track), "1"]) == 0
    assert f"  {said.capitalize()}.\n" in capsys.readouterr().out


def test_live_is_drawn_at_most_four_times_a_second(story: Story) -> None:
    screen, console = live(story)
    with screen:
        show = Show(story, screen)
        story.start(NODES)
        story.now = 1.0
        show.look()
        drawn = len(console.file.getvalue())  # type: ignore[attr-defined]
        story.now = 1.1
        story.progress("1", 40, "parsing")
        assert show.look() == pytest.approx(0.15)
        assert len(console.file.getvalue()) == drawn  # type: ignore[attr-defined]
        story.now = 1.3
        assert show.look() == pytest.approx(1.0)
        drawn = len(console.file.getvalue())  # type: ignore[attr-defined]
        story.now = 1.7
        assert show.look() == pytest.approx(0.6)  # only the clock goes on: once a second
        assert len(console.file.getvalue()) == drawn  # type: ignore[attr-defined]


def test_live_leaves_tasks_and_summary_and_a_visible_cursor(story: Story) -> None:
    screen, console = live(story)
    with screen:
        show = Show(story, screen)
        story.start(NODES)
        screen.note("a note stays above")
        story.end("1", 3, tail="trace\nboom\n")
        story.end("3")
        show.look()
        screen.close(story.view(), 1)
    data = console.file.getvalue()  # type: ignore[attr-defined]
    assert data.rindex("\x1b[?25h") > data.rindex("\x1b[?25l")
    shown = [line for line in picture(console) if "attempts/" not in line]
    assert shown[0] == "a note stays above"
    assert shown[2:7] == [
        '✗ failed     1  First      3.0s  exit 3: "boom"',
        "⊘ blocked    2  Second           by 1",
        "✓ done       3  Third      3.0s",
        "",
        "failed in 6.0s: 1 done, 1 failed, 1 blocked.",
    ]
    assert shown[-2] == f"Go on:    conductor run {story.track}"


def test_live_gives_the_terminal_back_after_an_exception(story: Story) -> None:
    screen, console = live(story)

    def fail() -> None:
        with screen:
            show = Show(story, screen)
            story.start(NODES)
            show.look()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    data = console.file.getvalue()  # type: ignore[attr-defined]
    assert data.rindex("\x1b[?25h") > data.rindex("\x1b[?25l")


def test_requirement_20_a_picture_that_fails_ends_no_run(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with the drawing, the terminal is given back, and the run is told in plain lines."""
    first, console = live(story)
    stream = io.StringIO()
    plain = PlainScreen(stream, resolve(str(story.track)), story.host, quiet=False)
    with Fallback(first, plain) as screen:
        show = Show(story, screen)
        story.start(NODES)
        show.look()
        monkeypatch.setattr(LiveScreen, "_tasks", lambda *_: 1 / 0)
        story.end("1")
        story.now += 5
        show.look()
        story.end("2")
        show.look()
        screen.close(story.view(), 0)
    assert terminal_is_clean(console.file.getvalue())  # type: ignore[attr-defined]
    text = stream.getvalue()
    assert text.startswith("note: the live screen failed (ZeroDivisionError: division by zero); the run goes on")
    assert "1 First: done" in text
    assert "2 Second: done" in text


def terminal_is_clean(written: str) -> bool:
    """Tell whether the last word about the cursor is that it is shown."""
    return written.rfind("\x1b[?25h") > written.rfind("\x1b[?25l") >= 0


def test_requirement_20_the_cursor_is_shown_although_the_last_picture_fails(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, console = live(story)
    with pytest.raises(ZeroDivisionError), screen:  # noqa: PT012
        Show(story, screen)
        story.start(NODES)
        monkeypatch.setattr(LiveScreen, "_tasks", lambda *_: 1 / 0)
        screen.close(story.view(), 0)
    assert terminal_is_clean(console.file.getvalue())  # type: ignore[attr-defined]


@pytest.mark.parametrize(("width", "height"), [(20, 5), (40, 8), (200, 50), (8, 3)])
def test_live_fits_any_terminal(story: Story, width: int, height: int) -> None:
    nodes = "  nodes:\n" + "".join(f'    - {{id: "{n}", name: "日本語 🎉 {"x" * 60}"}}\n' for n in range(60))
    screen, console = live(story, width, height)
    with screen:
        show = Show(story, screen)
        story.start(nodes)
        story.now = 5.0
        show.look()
        shown = picture(console)
        from conductor.cli.output import cell_width

        assert len(shown[1:]) <= height  # the line above it, where the run works, scrolls away
        assert all(cell_width(line) <= width for line in shown)


def test_live_begins_afresh_when_the_terminal_changes_its_size(story: Story) -> None:
    screen, console = live(story)
    with screen:
        show = Show(story, screen)
        story.start(NODES)
        story.now = 2.0
        show.look()
        console.width = 40
        story.now = 4.0
        show.look()
        assert "\x1b[2J" in console.file.getvalue()  # type: ignore[attr-defined]
        assert picture(console)[0] == "▶ running    1  First      4.0s"


def test_req31_live_escapes_names_and_messages(story: Story) -> None:
    screen, console = live(story, 120)
    with screen:
        show = Show(story, screen)
        story.start('  nodes:\n    - {id: "1", name: "a\\u202eb [red]c[/red]"}\n')
        story.progress("1", 1, "x\x1b[2Jy\nz")
        story.now = 1.0
        show.look()
        assert picture(console)[1].startswith("▶ running    1  a\\u202eb [red]c[/red]")
        assert picture(console)[1].endswith("1 % x\\e[2Jy\\nz")


@pytest.mark.parametrize("make", [PlainScreen, JsonScreen, LiveScreen])
def test_req20_a_broken_pipe_only_silences_the_screen(story: Story, make: Any) -> None:
    track = resolve(str(story.track))
    kinds: dict[Any, Any] = {
        PlainScreen: lambda: PlainScreen(Gone(), track, story.host, quiet=False),
        JsonScreen: lambda: JsonScreen(Gone(), story.host),
        LiveScreen: lambda: LiveScreen(Gone(), track, story.host),
    }
    with kinds[make]() as screen:
        show = Show(story, screen)
        story.start(NODES)
        screen.note("x")
        story.now = 2.0
        show.look()
        story.now = 4.0
        show.look()
        screen.close(story.view(), 0)


def test_the_summary_groups_what_is_blocked_and_skipped(story: Story) -> None:
    nodes = "  nodes:\n" + "".join(
        f'    - {{id: "{n}", name: "N{n}", depends_on: [{"" if n < 2 else chr(34) + "1" + chr(34)}]}}\n'
        for n in range(1, 20)
    )
    story.start(nodes)
    story.end("1", 3)
    text = summary(story.view(), resolve(str(story.track)), story.host, colour=False)
    assert "⊘ blocked by 1: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more\n" in text
    assert text.splitlines()[0] == "failed in 3.0s: 1 failed, 18 blocked."


def test_a_run_that_gave_up_says_so_in_words_and_a_skipped_task_that_it_was_tried(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    story.start(NODES, retries=5, restart_intensity=0, restart_window=300.0)
    for task in "123":
        if task in story.machine.state.tasks and story.machine.state.tasks[TaskId(task)].attempt:
            story.end(task, 3, tail="boom\n")
    text = summary(story.view(), resolve(str(track)), story.host, colour=False)
    capsys.readouterr()
    assert run_command_line(["status", str(track)]) == 0
    shown = capsys.readouterr().out
    assert run_command_line(["events", str(track)]) == 0
    assert "restart_intensity" not in text + shown + capsys.readouterr().out
    assert text.startswith("gave up in ")
    assert "The run gave up: more than 0 failed attempts within 5m, and no success in between: something" in text
    assert "skipped (given up after 1 attempt): 1" in text
    assert 'given up after 1 attempt: exit 3: "boom"' in shown


@pytest.mark.parametrize("who", ["operator:mary", "signal:INT"])
def test_live_says_how_to_stop_to_whoever_let_the_run_drain(story: Story, who: str) -> None:
    _, console = live(story, 160)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    with LiveScreen(stream, resolve(str(story.track)), story.host, console, StoryClock(story)) as screen:
        show = Show(story, screen)
        story.start(NODES)
        story.tell(ControlReceived("drain", who))
        story.now = 1.0
        show.look()
        hint = "draining: Ctrl-C again stops the running tasks"
        assert (hint if who == "signal:INT" else "· draining ·") in picture(console)[-1]
        assert (f"  conductor stop {story.track}\n" in stream.getvalue()) is (who == "operator:mary")


@pytest.mark.parametrize("width", [40, 60])
def test_no_command_on_a_live_screen_is_broken(story: Story, width: int) -> None:
    """It can be pasted: it stands on a line of its own, which only the terminal wraps."""
    _, console = live(story, width)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    with LiveScreen(stream, resolve(str(story.track)), story.host, console, StoryClock(story)) as screen:
        show = Show(story, screen)
        story.start('  nodes: [{id: "5", name: "By hand", agent: manual}, {id: "1", name: "y", run: [x]}]')
        story.tell(story.machine.resolve(ControlReceived("pause", "operator:mary")))
        story.now = 1.0
        show.look()
        for command in (f"complete {story.track} 5", f"resume {story.track}"):
            assert f"  conductor {command}\n" in stream.getvalue()


def test_the_summary_of_a_stopped_run_says_how_to_go_on(story: Story, track: Path) -> None:
    story.start(NODES)
    story.tell(ControlReceived("drain", "signal:INT"))
    story.end("1")
    text = summary(story.view(), resolve(str(track)), story.host, colour=False)
    assert text == (
        "stopped in 3.0s: 1 done, 2 ready.\n"
        "Not done yet: 2, 3. Nothing that is done is lost.\n"
        f"\nGo on:    conductor run {track}"
    )


def test_watching_ends_with_the_run(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(NODES)
    steps = iter(["1", "3", "2"])
    monkeypatch.setattr(watching, "pause", lambda seconds: story.end(next(steps)))
    watch_run(resolve(str(track)), load(story.host))
    assert capsys.readouterr().out.endswith("\n✓ All 3 tasks are done in 9.0s.\n" + look_on(story))


def test_watching_ends_when_the_conductor_dies(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(NODES)
    reader = open_reader(track / ".message-bus")
    monkeypatch.setattr(watching, "pause", lambda seconds: story.die())
    watch_run(resolve(str(track)), load(reader))
    assert "1 running" in capsys.readouterr().out


def test_watching_says_when_the_conductor_stands_still_and_when_it_goes_on(
    story: Story, track: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.start(NODES)
    asleep = iter([True, True, False])
    monkeypatch.setattr(watching, "is_suspended", lambda _: next(asleep))
    steps = iter([lambda: None, lambda: None, lambda: None, story.die])
    monkeypatch.setattr(watching, "pause", lambda seconds: next(steps)())
    watch_run(resolve(str(track)), load(open_reader(track / ".message-bus")))
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("the conductor is suspended; wake it: `kill -CONT ") == 1
    assert shown.count("the conductor goes on") == 1


def test_watching_needs_a_terminal(story: Story, track: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story.start(NODES)
    assert run_command_line(["status", str(track), "--watch"]) == 0
    assert capsys.readouterr().out.startswith("running by pid ")
    assert run_command_line(["status", str(track), "--watch", "--json"]) == 2
