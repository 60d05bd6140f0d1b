"""The worker's state machine: time limit, ladder, leftovers, verify, the end. No process, no sleep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.wire import AttemptId, Ladder, TaskId, WorkerSpec
from worker.core import FIRST_BEAT, GAP, GRACE, LOOK_PERIOD, PERIOD, UNKILLABLE_AFTER, Phase, Session, refusal
from worker.words import (
    Asking,
    Beat,
    Event,
    Exited,
    Finish,
    Instruction,
    LookAtTree,
    NotSignalled,
    NotStarted,
    Process,
    SendSignal,
    Started,
    StartVerify,
    StepResult,
    StopRequested,
    Tick,
    TreeSeen,
    TreeUnseen,
)

SPEC = WorkerSpec(
    bus="/bus",
    attempt=AttemptId("1.1~1-0a1b2c3d"),
    epoch=3,
    task=TaskId("1.1"),
    number=1,
    nonce="0a1b2c3d",
    argv=("true",),
    cwd="/",
    ladder=Ladder(0.0, 10.0),
)
DAEMON = Process(70, "daemon")
GPG = Process(71, "gpg-agent")


class Run:
    """A session with a clock that the test moves."""

    def __init__(self, spec: WorkerSpec = SPEC) -> None:
        self.now = 1000.0
        self.session = Session(spec, self.now)

    def tell(self, *events: Event) -> list[Instruction]:
        """Feed events at the present moment; return all instructions."""
        return [instruction for event in events for instruction in self.session.handle(event, self.now)]

    def pass_time(self, seconds: float) -> list[Instruction]:
        """Let time go by in ticks, as a worker that runs all the time sees it."""
        told: list[Instruction] = []
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(self.now + min(max(self.session.wait(), 0.001), PERIOD), end)
            told += self.tell(Tick())
        return told

    def end(self, *events: Event) -> Finish:
        """Feed events, the last of which must finish the attempt."""
        last = self.tell(*events)[-1]
        assert isinstance(last, Finish)
        return last


def signals(told: list[Instruction]) -> list[Instruction]:
    """Only what signals somebody."""
    return [instruction for instruction in told if isinstance(instruction, SendSignal)]


def test_a_command_that_ends_alone_finishes_at_once() -> None:
    run = Run()
    assert run.tell(Started()) == []
    run.pass_time(2.0)
    assert run.tell(Exited(0, None)) == [LookAtTree()]
    finish = run.end(TreeSeen(()))
    assert (finish.ended_by, finish.stop_reason, finish.tree_empty) == ("self", None, True)
    assert (finish.command.code, finish.command.signal) == (0, None)
    assert finish.command.seconds == pytest.approx(2.0)
    assert run.session.phase is Phase.DONE


def test_code_and_signal_are_both_kept() -> None:
    run = Run()
    run.tell(Started())
    finish = run.end(Exited(None, 11), TreeSeen(()))
    assert (finish.command.code, finish.command.signal, finish.command.passed) == (None, 11, False)


@pytest.mark.parametrize("limit", [None, 0.0])
def test_no_limit_means_no_limit(limit: float | None) -> None:
    run = Run(replace(SPEC, timeout=limit, heartbeat=0.0))
    run.tell(Started())
    assert run.pass_time(500.0) == []


def test_the_time_limit_starts_the_ladder_and_names_the_end_timeout() -> None:
    run = Run(replace(SPEC, timeout=5.0, heartbeat=0.0))
    run.tell(Started())
    assert run.pass_time(4.9) == []
    assert run.pass_time(0.1) == [SendSignal("TERM", everyone=True)]
    finish = run.end(Exited(None, 15), TreeSeen(()))
    assert (finish.ended_by, finish.stop_reason) == ("timeout", None)


def test_a_timeout_stays_a_timeout_whatever_the_exit_code() -> None:
    run = Run(replace(SPEC, timeout=1.0))
    run.tell(Started())
    run.pass_time(1.0)
    assert run.end(Exited(0, None), TreeSeen(())).ended_by == "timeout"


def test_time_in_which_the_worker_itself_stood_still_is_not_counted() -> None:
    run = Run(replace(SPEC, timeout=5.0, heartbeat=0.0))
    run.tell(Started())
    run.now += 3600.0
    assert run.tell(Tick()) == []
    assert run.pass_time(5.0 - GAP - 0.01) == []
    assert run.pass_time(0.02) == [SendSignal("TERM", everyone=True)]


def test_a_clock_that_goes_back_changes_nothing() -> None:
    run = Run(replace(SPEC, timeout=5.0))
    run.tell(Started())
    run.now -= 100.0
    assert run.tell(Tick()) == []


def test_the_ladder_climbs_int_term_kill() -> None:
    run = Run(replace(SPEC, ladder=Ladder(5.0, 10.0)))
    run.tell(Started())
    assert run.tell(StopRequested("cancelled")) == [SendSignal("INT", everyone=False)]
    assert signals(run.pass_time(4.9)) == []
    assert signals(run.pass_time(0.2)) == [SendSignal("TERM", everyone=True)]
    assert signals(run.pass_time(9.8)) == []
    assert SendSignal("KILL", everyone=True) in run.pass_time(0.2)
    finish = run.end(Exited(None, 9), TreeSeen(()))
    assert (finish.ended_by, finish.stop_reason) == ("stop", "cancelled")
    (first, *others) = finish.signals
    assert [(one.name, round(one.at - first.at)) for one in others] == [("TERM", 5), ("KILL", 15)]


def test_the_signals_told_are_those_of_the_last_step() -> None:
    run = Run(replace(SPEC, timeout=5.0, verify=(("v",),)))
    run.tell(Started(), Exited(0, None), TreeSeen((DAEMON,)))
    assert signals(run.pass_time(GRACE + LOOK_PERIOD)) == []
    assert signals(run.tell(TreeSeen((DAEMON,)))) == [SendSignal("TERM", everyone=True)]
    assert run.tell(TreeSeen(())) == [StartVerify(0)]
    run.tell(Started())
    run.pass_time(5.0)
    finish = run.end(Exited(None, 15), TreeSeen(()))
    assert finish.killed == (DAEMON,)
    assert [one.name for one in finish.signals] == ["TERM"]


def test_kill_is_repeated_until_nothing_is_left() -> None:
    run = Run(replace(SPEC, ladder=Ladder(0.0, 0.0)))
    run.tell(Started(), StopRequested("stopped"))
    told = run.pass_time(1.0)
    assert told.count(SendSignal("KILL", everyone=True)) > 5
    assert run.tell(Exited(None, 9), TreeSeen((DAEMON,))) == [LookAtTree()]
    assert LookAtTree() in run.pass_time(1.0)
    finish = run.end(TreeSeen(()))
    assert finish.killed == (DAEMON,)
    assert finish.tree_empty


def test_what_kill_does_not_end_is_given_up_as_not_empty() -> None:
    run = Run(replace(SPEC, ladder=Ladder(0.0, 0.1)))
    run.tell(Started(), StopRequested("stopped"))
    finish = run.pass_time(UNKILLABLE_AFTER + 1.0)[-1]
    assert isinstance(finish, Finish)
    assert not finish.tree_empty
    assert finish.command.code is None
    assert finish.command.signal is None
    assert run.tell(Exited(None, 9), Tick(), StopRequested("late"), TreeSeen(())) == []


def test_a_stop_counts_only_once() -> None:
    run = Run()
    run.tell(Started(), StopRequested("cancelled"))
    assert run.tell(StopRequested("stopped")) == []
    assert run.end(Exited(None, 15), TreeSeen(())).stop_reason == "cancelled"


def test_a_stop_after_the_command_was_reaped_is_not_its_end() -> None:
    run = Run()
    run.tell(Started(), Exited(0, None), TreeSeen((DAEMON,)))
    assert run.tell(StopRequested("stopped")) == [SendSignal("TERM", everyone=True)]
    finish = run.end(TreeSeen(()))
    assert (finish.ended_by, finish.stop_reason) == ("self", None)


def test_a_stop_during_the_sweep_cuts_the_verify_that_was_still_due() -> None:
    run = Run(replace(SPEC, verify=(("check",),)))
    run.tell(Started(), Exited(0, None), TreeSeen((DAEMON,)))
    run.pass_time(GRACE)
    assert run.tell(TreeSeen((DAEMON,))) == [SendSignal("TERM", everyone=True)]
    assert run.tell(StopRequested("stopped")) == []
    finish = run.end(TreeSeen(()))
    assert (finish.ended_by, finish.verify) == ("stop", ())


def test_a_stop_while_the_command_is_being_started_is_carried_out_then() -> None:
    run = Run()
    assert run.tell(StopRequested("stopped")) == []
    assert run.tell(Tick()) == []
    assert run.tell(Started()) == [SendSignal("TERM", everyone=True)]
    assert run.tell(Started()) == []


def test_what_ends_by_itself_within_the_grace_is_no_leftover() -> None:
    run = Run()
    run.tell(Started(), Exited(0, None))
    assert run.tell(TreeSeen((DAEMON,))) == []
    assert run.pass_time(LOOK_PERIOD + 0.01) == [LookAtTree()]
    assert run.end(TreeSeen(())).killed == ()


def test_leftovers_are_killed_and_listed() -> None:
    run = Run()
    run.tell(Started(), Exited(0, None), TreeSeen((DAEMON,)))
    assert signals(run.pass_time(GRACE)) == []
    assert run.tell(TreeSeen((DAEMON,))) == [SendSignal("TERM", everyone=True)]
    assert run.tell(TreeSeen((DAEMON,))) == []
    finish = run.end(TreeSeen(()))
    assert (finish.killed, finish.kept, finish.ended_by) == ((DAEMON,), (), "self")


def test_requirement_18_what_nobody_saw_and_the_kernel_counts_is_not_empty() -> None:
    run = Run()
    run.tell(Started(), Exited(0, None))
    assert run.tell(TreeSeen((), hidden=True)) == []
    assert not signals(run.pass_time(GRACE))
    assert run.tell(TreeSeen((), hidden=True)) == [SendSignal("TERM", everyone=True)]
    run.pass_time(10.0)
    told = run.pass_time(0.2)
    assert SendSignal("KILL", everyone=True) in told
    assert run.tell(TreeSeen((), hidden=True)) == []
    assert run.end(TreeSeen(())).tree_empty


def test_leftovers_kept_by_policy_are_listed_and_not_touched() -> None:
    run = Run(replace(SPEC, leftovers="keep"))
    finish = run.end(Started(), Exited(0, None), TreeSeen((DAEMON,)))
    assert (finish.killed, finish.kept, finish.tree_empty) == ((), (DAEMON,), True)


def test_a_name_of_never_kill_is_kept_also_at_a_stop() -> None:
    run = Run(replace(SPEC, leftovers="keep"))
    run.tell(Started(), StopRequested("stopped"), Exited(None, 15))
    assert run.tell(TreeSeen((DAEMON, GPG))) == []
    assert run.session.keeps("gpg-agent")
    assert not run.session.keeps("daemon")
    finish = run.end(TreeSeen((GPG,)))
    assert (finish.killed, finish.kept) == ((DAEMON,), (GPG,))


def test_leftovers_that_fail_the_attempt_leave_verify_out() -> None:
    run = Run(replace(SPEC, leftovers="fail", verify=(("check",),)))
    run.tell(Started(), Exited(0, None))
    run.pass_time(GRACE)
    run.tell(TreeSeen((DAEMON,)))
    finish = run.end(TreeSeen(()))
    assert (finish.killed, finish.verify) == ((DAEMON,), ())


def test_verify_commands_run_in_order_each_with_the_time_limit() -> None:
    run = Run(replace(SPEC, timeout=5.0, verify=(("a",), ("b",))))
    run.tell(Started())
    run.pass_time(4.0)
    assert run.tell(Exited(0, None), TreeSeen(()))[-1] == StartVerify(0)
    assert run.tell(Started()) == []
    assert run.pass_time(4.0) == []
    assert run.tell(Exited(0, None), TreeSeen(()))[-1] == StartVerify(1)
    run.tell(Started())
    assert SendSignal("TERM", everyone=True) in run.pass_time(5.1)
    finish = run.end(Exited(None, 15), TreeSeen(()))
    assert finish.ended_by == "timeout"
    assert [(result.code, result.signal) for result in finish.verify] == [(0, None), (None, 15)]


def test_a_verify_that_fails_ends_the_row() -> None:
    run = Run(replace(SPEC, verify=(("a",), ("b",))))
    run.tell(Started(), Exited(0, None), TreeSeen(()), Started())
    finish = run.end(Exited(1, None), TreeSeen(()))
    assert [result.code for result in finish.verify] == [1]


def test_a_verify_that_cannot_be_started_has_failed() -> None:
    run = Run(replace(SPEC, verify=(("a",), ("b",))))
    run.tell(Started(), Exited(0, None), TreeSeen(()))
    finish = run.end(NotStarted("a: command not found"), TreeSeen(()))
    assert finish.verify == (StepResult(error="a: command not found"),)


def test_nothing_is_verified_after_a_failure() -> None:
    run = Run(replace(SPEC, verify=(("a",),)))
    run.tell(Started())
    assert run.end(Exited(2, None), TreeSeen(())).verify == ()


def test_verify_goes_on_after_leftovers_were_swept() -> None:
    run = Run(replace(SPEC, verify=(("a",),), heartbeat=0.0))
    run.tell(Started(), Exited(0, None))
    run.pass_time(GRACE)
    run.tell(TreeSeen((DAEMON,)))
    assert run.tell(TreeSeen(())) == [StartVerify(0)]
    run.tell(Started())
    assert run.pass_time(20.0) == []
    assert run.end(Exited(0, None), TreeSeen(())).verify[0].passed


def beats(told: list[Instruction]) -> list[Beat]:
    """Only the beats."""
    return [instruction for instruction in told if isinstance(instruction, Beat)]


def test_it_beats_soon_after_the_start_and_then_each_period() -> None:
    run = Run(replace(SPEC, heartbeat=3.0))
    run.tell(Started())
    assert run.pass_time(FIRST_BEAT - 0.1) == []
    assert len(beats(run.pass_time(0.2))) == 1
    assert run.pass_time(2.8) == []
    assert len(beats(run.pass_time(3.1))) == 2


@pytest.mark.parametrize(
    ("heartbeat", "stale_after", "period"),
    [(30.0, None, 30.0), (30.0, 600.0, 30.0), (30.0, 2.0, 0.5), (1.0, 600.0, 1.0), (30.0, 0.0, 30.0), (0.0, 8.0, 0.0)],
)
def test_what_may_be_stale_soon_beats_four_times_as_often(
    heartbeat: float, stale_after: float | None, period: float
) -> None:
    spec = replace(SPEC, heartbeat=heartbeat, stale_after=stale_after)
    assert spec.beat_period == period
    run = Run(spec)
    run.tell(Started())
    assert len(beats(run.pass_time(FIRST_BEAT))) == (
        int(FIRST_BEAT / period) if 0 < period < FIRST_BEAT else period > 0
    )


def test_a_beat_is_made_at_each_signal_of_the_ladder() -> None:
    run = Run(replace(SPEC, heartbeat=30.0, timeout=5.0, ladder=Ladder(2.0, 3.0)))
    run.tell(Started())
    told = [beat for beat in beats(run.pass_time(11.0)) if isinstance(beat, Beat)]
    assert [(beat.phase, beat.left) for beat in told[-3:]] == [("ending", 0.0)] * 3
    assert [(by, name, round(kill_in)) for beat in told[-3:] for by, name, kill_in in [beat.ladder or ("", "", 0)]] == [
        ("timeout", "INT", 5),
        ("timeout", "TERM", 3),
        ("timeout", "KILL", 0),
    ]
    assert beats(Run(replace(SPEC, heartbeat=0.0, timeout=5.0)).pass_time(11.0)) == []


def test_a_beat_tells_the_phase_and_what_is_left_of_its_limit() -> None:
    run = Run(replace(SPEC, heartbeat=2.0, timeout=10.0, verify=(("v",),), leftovers="kill"))
    run.tell(Started())
    assert beats(run.pass_time(2.0)) == [Beat("command", 2.0, 8.0, stands=False)]
    run.tell(Exited(0, None))
    run.pass_time(GRACE)
    run.tell(TreeSeen((DAEMON,)))
    assert beats(run.pass_time(1.8)) == [Beat("ending", 4.0, 0.0, stands=False)]
    assert run.tell(TreeSeen(())) == [StartVerify(0)]
    run.tell(Started())
    assert beats(run.pass_time(2.0)) == [Beat("verify", 6.0, 8.0, stands=False)]


def test_without_a_limit_a_beat_tells_that_nothing_is_counted() -> None:
    run = Run(replace(SPEC, heartbeat=1.0))
    run.tell(Started())
    assert [beat.left for beat in beats(run.pass_time(1.0))] == [None]


def test_requirement_21_no_limit_runs_while_a_person_is_asked() -> None:
    run = Run(replace(SPEC, timeout=5.0, heartbeat=30.0))
    run.tell(Started())
    run.pass_time(3.0)
    run.tell(Asking(True))
    told = run.pass_time(100.0)
    assert not signals(told)
    assert {(beat.left, beat.stands) for beat in beats(told)} == {(2.0, True)}
    run.tell(Asking(False))
    assert not signals(run.pass_time(1.9))
    assert signals(run.pass_time(0.2)) == [SendSignal("TERM", everyone=True)]


def test_the_next_tick_is_due_when_something_is_due() -> None:
    run = Run(replace(SPEC, timeout=0.3, heartbeat=60.0))
    assert run.session.wait() == PERIOD
    run.tell(Started())
    assert run.session.wait() == pytest.approx(0.3)
    run.tell(Exited(0, None))
    assert run.session.wait() == pytest.approx(LOOK_PERIOD)
    run.pass_time(GRACE)
    run.tell(TreeSeen((DAEMON,)))
    assert run.session.wait() == pytest.approx(LOOK_PERIOD)


def test_a_tree_that_is_seen_while_the_command_runs_means_nothing() -> None:
    run = Run()
    run.tell(Started())
    assert run.tell(TreeSeen(())) == []


def test_a_command_is_not_started_when_revoked_or_when_a_newer_conductor_took_over() -> None:
    assert refusal(SPEC, None, 3) is None
    assert refusal(SPEC, "cancelled", 3) == "revoked"
    assert refusal(SPEC, None, 4) == "stale_epoch"


_EVENTS = st.one_of(
    st.just(Started()),
    st.builds(NotStarted, st.just("no")),
    st.builds(Exited, st.sampled_from([0, 1]), st.none()),
    st.builds(StopRequested, st.just("stopped")),
    st.just(Tick()),
    st.builds(Asking, st.booleans()),
    st.just(TreeUnseen()),
    st.just(NotSignalled()),
    st.builds(TreeSeen, st.sampled_from([(), (DAEMON,), (GPG,), (DAEMON, GPG)])),
    st.just(TreeSeen((), hidden=True)),
)


@given(
    st.lists(st.tuples(_EVENTS, st.floats(-1.0, 20.0))),
    st.sampled_from(["kill", "keep", "fail"]),
    st.sampled_from([(), (("a",),), (("a",), ("b",))]),
)
def test_every_event_is_accepted_in_every_phase_and_the_end_comes_once(
    events: list[tuple[Event, float]], leftovers: str, verify: tuple[tuple[str, ...], ...]
) -> None:
    run = Run(replace(SPEC, timeout=5.0, leftovers=leftovers, verify=verify, ladder=Ladder(1.0, 1.0)))
    ends = 0
    for event, seconds in [(Started(), 0.0), *events]:
        run.now += seconds
        told = run.tell(event)
        assert ends == 0 or told == []
        ends += sum(isinstance(instruction, Finish) for instruction in told)
        assert run.session.wait() >= 0.0
    assert ends <= 1


# --- a machine that is too short of something to look ---------------------------------------------------------------


def test_requirement_32_finished_work_waits_until_its_tree_can_be_seen() -> None:
    run = Run(replace(SPEC, heartbeat=0.0))
    run.tell(Started(), Exited(0, None), TreeUnseen())
    looks = 0
    for _ in range(100):
        told = run.pass_time(PERIOD)
        assert set(map(type, told)) <= {LookAtTree}, "nothing is concluded"
        looks += len(told)
        run.tell(TreeUnseen())
    assert 50 <= looks <= 200, "and the worker does not spin"
    finish = run.end(TreeSeen(()))
    assert (finish.ended_by, finish.command.code, finish.tree_empty, finish.killed) == ("self", 0, True, ())


def test_requirement_32_what_was_left_behind_unseen_is_swept_once_it_is_seen() -> None:
    run = Run()
    run.tell(Started(), Exited(0, None), TreeUnseen())
    run.pass_time(PERIOD)
    assert signals(run.tell(TreeSeen((DAEMON,)))) == [SendSignal("TERM", everyone=True)]
    assert run.end(TreeSeen(())).killed == (DAEMON,)


def test_requirement_32_a_signal_that_reached_nobody_is_sent_again() -> None:
    run = Run()
    run.tell(Started(), StopRequested("cancelled"), NotSignalled())
    assert signals(run.pass_time(PERIOD)) == [SendSignal("TERM", everyone=True)]
    assert signals(run.pass_time(9.0)) == []


def test_requirement_32_a_tree_that_cannot_be_seen_is_not_given_up() -> None:
    run = Run()
    run.tell(Started(), StopRequested("cancelled"))
    run.pass_time(SPEC.ladder.terminate + 0.1)
    run.tell(Exited(None, 9), NotSignalled(), TreeUnseen())
    told = run.pass_time(10 * UNKILLABLE_AFTER)
    assert not any(isinstance(one, Finish) for one in told)
    assert SendSignal("KILL", everyone=True) in told
    run.tell(TreeSeen((DAEMON,)))
    [*_, finish] = run.pass_time(PERIOD)
    assert isinstance(finish, Finish)
    assert not finish.tree_empty
