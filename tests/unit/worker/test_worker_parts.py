"""The small parts of a worker: environment, logs, tree, result, handing in."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import AlreadyFinished, BusGone, FolderReplaced
from bus.process import ProcessInfo, look, parse_stat, send_signal, start_ticks, waits_for_disk
from bus.strict import WireError
from bus.wire import AttemptId, ExitRecord, Message, ProcRecord, TaskId, WorkerSpec, proc_from_json
from worker import runner
from worker.environment import command_environment
from worker.handing_in import claim, hand_in
from worker.pump import KEPT, Log, Pump
from worker.result import compose, not_started
from worker.spawn import SpawnError, find_program, spawn
from worker.tree import descendants, look_at_tree
from worker.words import Finish, Process, Sent, StepResult

SPEC = WorkerSpec(
    bus="/bus",
    attempt=AttemptId("1.1~1-0a1b2c3d"),
    epoch=1,
    task=TaskId("1.1"),
    number=1,
    nonce="0a1b2c3d",
    argv=("true",),
    cwd="/",
    durable=False,
)


# --- environment ----------------------------------------------------------------------------------------------------


def test_all_is_inherited_but_an_outer_run_and_the_markers_of_an_agent_session() -> None:
    inherited = {
        "PATH": "/bin",
        "CONDUCTOR_ATTEMPT": "outer",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "A": "b",
    }
    assert command_environment(inherited, SPEC) == {"PATH": "/bin", "A": "b", "CONDUCTOR_NONCE": "0a1b2c3d"}


def test_an_allow_list_lets_only_its_globs_through_and_never_a_marker() -> None:
    inherited = {"PATH": "/bin", "LC_ALL": "C", "SECRET_KEY": "x", "CLAUDE_CODE_SSE_PORT": "1", "CONDUCTOR_X": "1"}
    spec = replace(SPEC, env_keep=("PATH", "LC_*", "CLAUDE_CODE_*", "CONDUCTOR_*"))
    assert command_environment(inherited, spec) == {"PATH": "/bin", "LC_ALL": "C", "CONDUCTOR_NONCE": "0a1b2c3d"}


def test_the_order_adds_and_replaces_variables() -> None:
    spec = replace(SPEC, env={"PATH": "/ours:/bin", "CONDUCTOR_NONCE": "ffffffff.0a1b2c3d"})
    environment = command_environment({"PATH": "/bin"}, spec)
    assert environment == {"PATH": "/ours:/bin", "CONDUCTOR_NONCE": "ffffffff.0a1b2c3d"}


# --- finding the program --------------------------------------------------------------------------------------------


def test_a_program_is_searched_like_a_shell_does(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    (first / "tool").touch(0o644)
    (first / "folder").mkdir()
    (second / "tool").touch(0o755)
    path = f"{first}:{second}"
    assert find_program("tool", path) == str(second / "tool")
    assert find_program("./tool", path) == "./tool"
    with pytest.raises(SpawnError, match="command not found"):
        find_program("folder", path)
    with pytest.raises(SpawnError, match="not executable"):
        find_program("tool", str(first))
    with pytest.raises(SpawnError, match="empty"):
        find_program("", path)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("/no/such/file",), "no such file"),
        (("/",), "permission denied"),
        (("true", "a\0b"), "null"),
        (("/" + "x" * 300,), "File name too long"),
    ],
)
def test_what_cannot_be_executed_is_explained(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpawnError, match=message):
        spawn(argv, {"PATH": "/usr/bin:/bin"}, 1, 2)


def test_a_script_without_a_first_line_is_explained(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 0\n")
    script.chmod(0o755)
    with pytest.raises(SpawnError, match="#! line"):
        spawn((str(script),), {}, 1, 2)


# --- logs -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 16))
def test_a_log_keeps_the_first_and_the_last_part(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[bytes], cap: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = Log(str(folder), "log", cap)
    for chunk in chunks:
        log.add(chunk)
        kept = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
        assert sum(map(len, kept.values())) <= 3 * cap
    log.close()
    whole = b"".join(chunks)
    pieces = {int(name.partition(".")[2] or 0): (folder / name).read_bytes() for name in os.listdir(folder)}
    assert log.total == len(whole)
    assert all(whole[number * cap :].startswith(data) for number, data in pieces.items())
    assert pieces.get(0, b"") == whole[:cap]
    if len(whole) > cap:
        tail = b"".join(pieces[number] for number in sorted(pieces) if number)
        assert tail.endswith(whole[max(cap, len(whole) - cap) :])


def test_requirement_32_output_that_could_not_be_written_is_written_once_there_is_room(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "gone"), "log", 8)
    log.add(b"hello")
    assert (log.total, log.lost, log.errno, log.tail) == (5, 5, errno.ENOENT, b"hello")
    log.add(b" again")
    assert log.lost == 11
    (tmp_path / "gone").mkdir()
    log.retry()
    assert log.lost == 0
    log.add(b", here")
    log.close()
    log.close()
    kept = [(tmp_path / "gone" / name).read_bytes() for name in ("log", "log.1", "log.2")]
    assert kept == [b"hello ag", b"ain, her", b"e"]


def test_requirement_32_of_output_that_cannot_be_written_for_long_the_newest_is_kept(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "gone"), "log", 1 << 20)
    for _ in range(3):
        log.add(b"x" * KEPT)
    log.add(b"the end")
    log.close()
    assert log.lost == log.total == 3 * KEPT + 7
    (tmp_path / "gone").mkdir()
    log.close()
    assert log.lost == 2 * KEPT + 7
    assert (tmp_path / "gone" / "log").read_bytes() == b"x" * (KEPT - 7) + b"the end"


@pytest.mark.parametrize("read", [False, True], ids=["nobody reads it", "somebody holds it open"])
def test_requirement_27_a_fifo_in_the_place_of_a_log_stops_no_worker(tmp_path: Path, read: bool) -> None:
    os.mkfifo(tmp_path / "log")
    reader = os.open(tmp_path / "log", os.O_RDONLY | os.O_NONBLOCK) if read else -1
    log = Log(str(tmp_path), "log", 1 << 20)
    previous = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("the worker waits for a foreign hand"))
    signal.alarm(10)
    try:
        for _ in range(8):
            log.add(b"x" * 65536)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        log.close()
        if read:
            os.close(reader)
    assert log.total == 8 * 65536
    assert log.lost > 0


def test_a_pump_takes_what_is_there_and_notices_the_end(tmp_path: Path) -> None:
    pump = Pump(Log(str(tmp_path), "log", 100))
    assert not pump.take()
    os.write(pump.writer, b"x")
    assert pump.take()
    pump.close_writer()
    assert not pump.take()
    assert pump.reader == -1
    assert not pump.take()
    pump.close_reader()
    pump.log.close()


# --- the tree -------------------------------------------------------------------------------------------------------


def _process(pid: int, parent: int, state: str = "S") -> ProcessInfo:
    return ProcessInfo(pid, f"p{pid}", state, parent, pid, pid, 1)


def test_descendants_are_found_through_the_dead_and_the_dead_left_out() -> None:
    processes = [_process(1, 0), _process(5, 1), _process(6, 5, "Z"), _process(7, 6), _process(8, 1), _process(9, 7)]
    assert {info.pid for info in descendants(5, processes)} == {7, 9}
    assert [info.pid for info in descendants(8, processes)] == []


def test_a_loop_of_parents_ends() -> None:
    assert {info.pid for info in descendants(1, [_process(2, 3), _process(3, 2), _process(4, 1)])} == {4}


def test_a_name_with_parentheses_and_spaces_is_read() -> None:
    line = b"42 (a) b (c) S 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0\n"
    assert parse_stat(line) == ProcessInfo(42, "a) b (c", "S", 1, 2, 3, 777)


def test_a_process_of_another_start_is_not_signalled() -> None:
    assert not send_signal(os.getpid(), start_ticks(os.getpid()) + 1, 9)
    assert look_at_tree(os.getpid(), os.getpgid(0)) == []


@pytest.mark.parametrize(
    ("output", "exists"),
    [
        ("dist/a.whl", True),
        ("dist/*.whl", True),
        ("**/*.whl", True),
        ("dist/*.tar", False),
        ("[x]", True),
        ("no", False),
    ],
)
def test_an_output_is_a_path_or_a_pattern(tmp_path: Path, output: str, exists: bool) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "a.whl").touch()
    (tmp_path / "[x]").touch()
    finish = Finish("self", None, StepResult(0, None, seconds=0.1), (), (), (), True, ())
    out, err = Log(str(tmp_path), "log", 10), Log(str(tmp_path), "log.err", 10)
    spec = replace(SPEC, cwd=str(tmp_path), outputs=(output,))
    record = compose(spec, finish, report=None, started_at=0.0, ended_at=0.1, stdout=out, stderr=err)
    assert record.outputs == [{"path": output, "exists": exists}]


# --- the result -----------------------------------------------------------------------------------------------------


def test_the_result_says_what_was_found(tmp_path: Path) -> None:
    spec = replace(SPEC, cwd=str(tmp_path), outputs=("a",), verify=(("v",), ("w",)), leftovers="fail", timeout=2.0)
    finish = Finish(
        "timeout",
        None,
        StepResult(0, None, seconds=1.5),
        (StepResult(error="v: no"),),
        (Process(7, "d"),),
        (),
        True,
        (Sent("TERM", 5.0), Sent("KILL", 15.0)),
    )
    out, err = Log(str(tmp_path), "log", 10), Log(str(tmp_path / "gone"), "log.err", 10)
    out.add(b"out")
    err.add(b"e\xff")
    record = compose(spec, finish, report={"verb": "fail"}, started_at=0.0, ended_at=1.5, stdout=out, stderr=err)
    out.close()
    assert record.verify == [{"argv": ["v"], "code": None, "signal": None, "error": "v: no"}]
    assert record.leftovers == {"killed": [{"pid": 7, "name": "d"}], "kept": [], "failed": True}
    assert record.log_bytes == {"stdout": 3, "stderr": 2, "lost": 2, "errno": errno.ENOENT}
    assert record.outputs == [{"path": "a", "exists": False}]
    assert record.timeout == spec.timeout
    assert record.signals == [{"name": "TERM", "after": 0.0}, {"name": "KILL", "after": 10.0}]
    assert (record.tail, record.started_at) == ("e\N{REPLACEMENT CHARACTER}", "1970-01-01T00:00:00.000Z")


# --- handing in -----------------------------------------------------------------------------------------------------


class TroubledHand:
    """A hand whose writes fail in a given row, then succeed."""

    def __init__(self, *, finish: list[BaseException | None], publish: list[BaseException | None]) -> None:
        self._finish, self._publish = finish, publish
        self.messages: list[Message] = []

    def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
        """`Hand.finish`."""
        if error := self._finish.pop(0):
            raise error

    def publish(self, message: Message, *, durable: bool = False) -> None:
        """`Hand.publish`."""
        if error := self._publish.pop(0):
            raise error
        self.messages.append(message)


def _full() -> OSError:
    return OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def pauses() -> tuple[list[float], Callable[[float], None]]:
    """A pause that takes no time, and what was asked of it."""
    asked: list[float] = []
    return asked, asked.append


def test_a_full_disk_delays_the_result_and_never_loses_it(
    pauses: tuple[list[float], Callable[[float], None]],
) -> None:
    hand = TroubledHand(finish=[*(_full() for _ in range(9)), None], publish=[])
    assert hand_in(not_started("revoked"), SPEC, hand, pauses[1])  # type: ignore[arg-type]
    assert pauses[0] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EMFILE])
def test_requirement_32_a_worker_tries_again_after_every_error_that_may_pass(
    number: int, pauses: tuple[list[float], Callable[[float], None]]
) -> None:
    error = OSError(number, os.strerror(number))
    hand = TroubledHand(finish=[error, error, None], publish=[])
    assert hand_in(not_started("revoked"), SPEC, hand, pauses[1])  # type: ignore[arg-type]
    assert pauses[0] == [0.1, 0.2]


@pytest.mark.skipif(not os.path.exists("/proc/self/comm"), reason="needs /proc")
def test_requirement_32_a_worker_that_waits_for_the_disk_says_so_by_the_name_of_its_process() -> None:
    pid = os.getpid()
    before = look(pid)
    assert before is not None
    said = []
    hand = TroubledHand(finish=[_full(), None], publish=[])
    pause = lambda _: said.append(waits_for_disk(pid, before.start_ticks))  # noqa: E731
    assert hand_in(not_started("revoked"), SPEC, hand, pause)  # type: ignore[arg-type]
    assert said == [True]
    assert look(pid) == before
    assert not waits_for_disk(pid, before.start_ticks + 1)


def test_a_report_that_no_message_may_carry_does_not_keep_the_result_from_being_written(
    pauses: tuple[list[float], Callable[[float], None]],
) -> None:
    """Whatever runs in the attempt can write `report.json`; nested too deeply it must not cost the work."""
    report = {"verb": "complete"}
    written: list[ExitRecord] = []

    class Hand(TroubledHand):
        def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
            if exit.report:
                raise WireError("nested deeper than 32")
            written.append(exit)

    record = replace(not_started("revoked"), report=report)
    assert hand_in(record, SPEC, Hand(finish=[], publish=[]), pauses[1])  # type: ignore[arg-type]
    assert [exit.report for exit in written] == [None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"pid": "1"},
        {"pid": -1},
        {"pid": 1 << 31},
        {"pid": 1.5},
        {"pid": True},
        {"start_ticks": None},
        {"boot": 7},
        {"namespace": []},
        {"leftovers": {}},
        {"never_kill": "ssh"},
        {"never_kill": [7]},
    ],
)
def test_requirement_15_a_claim_with_a_wrong_field_is_none(wrong: dict[str, object]) -> None:
    """Whatever runs in the attempt can write `proc.json`, and a conductor hands what it says to the kernel."""
    sound = {"boot": "b", "pid": 7, "start_ticks": 8, "epoch": 1}
    assert proc_from_json({**sound, "newer": "field"}) == ProcRecord("b", 7, 8, 1)
    with pytest.raises(TypeError):
        proc_from_json({**sound, **wrong})


def test_a_result_written_but_not_announced_is_announced_later(
    pauses: tuple[list[float], Callable[[float], None]],
) -> None:
    hand = TroubledHand(finish=[_full(), AlreadyFinished("written before")], publish=[_full(), None])
    assert hand_in(not_started("revoked"), SPEC, hand, pauses[1])  # type: ignore[arg-type]
    assert [message.type for message in hand.messages] == ["RESULT"]


def test_requirement_32_what_could_not_be_written_is_tried_again_with_the_result_and_the_result_says_what_it_came_to(
    pauses: tuple[list[float], Callable[[float], None]],
) -> None:
    """The message says what `exit.json` says, also where more could be written after that one."""
    missing = iter([5, 3, 0])
    written: list[int] = []

    class Hand(TroubledHand):
        def finish(self, exit: ExitRecord, *, durable: bool = False) -> None:
            written.append(exit.log_bytes["lost"])
            super().finish(exit, durable=durable)

    def late(record: ExitRecord) -> ExitRecord:
        return replace(record, log_bytes={"lost": next(missing)})

    hand = Hand(finish=[_full(), _full(), AlreadyFinished("written before")], publish=[None])
    assert hand_in(not_started("revoked"), SPEC, hand, pauses[1], late)  # type: ignore[arg-type]
    assert written == [5, 3, 0]
    assert hand.messages[0].payload["log_bytes"] == {"lost": 3}


@pytest.mark.parametrize("error", [BusGone("gone"), FileNotFoundError(errno.ENOENT, "gone")])
def test_a_bus_that_is_gone_ends_the_worker(
    error: Exception, pauses: tuple[list[float], Callable[[float], None]]
) -> None:
    hand = TroubledHand(finish=[error], publish=[])
    assert not hand_in(not_started("revoked"), SPEC, hand, pauses[1])  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [_full(), FolderReplaced("something else stands in the place of tmp")])
def test_a_claim_waits_for_what_passes(error: Exception) -> None:
    """A full disk; a file in the place of a folder, which the conductor sets aside."""

    class Hand:
        tries = 0

        def claim(self, proc: ProcRecord) -> bool:
            self.tries += 1
            if self.tries < 3:
                raise error
            return True

    pauses: list[float] = []
    assert claim(Hand(), ProcRecord("b", 1, 2, 3), pauses.append)  # type: ignore[arg-type]
    assert pauses == [0.1, 0.2]


# --- short of memory, under a lower limit ---------------------------------------------------------------------------


def test_requirement_32_a_worker_without_memory_tries_again(
    pauses: tuple[list[float], Callable[[float], None]],
) -> None:
    hand = TroubledHand(finish=[MemoryError(), None], publish=[])
    assert hand_in(not_started("revoked"), SPEC, hand, pauses[1])  # type: ignore[arg-type]
    assert pauses[0] == [0.1]


@pytest.mark.parametrize(("limit", "hard", "expected"), [(1024, 64, 64), (64, 1024, 64), (-1, 64, 64), (64, -1, 64)])
def test_commands_get_at_most_the_descriptors_that_a_lowered_limit_leaves(limit: int, hard: int, expected: int) -> None:
    assert resource.RLIM_INFINITY == -1
    assert runner._at_most(limit, hard) == expected
