"""Timers by key: the earliest first, a key set again replaces, a cancelled one is silent."""

from conductor.runtime.timers import Timers


def test_keys_run_out_in_order_of_their_deadlines() -> None:
    timers = Timers()
    timers.start("late", 3.0)
    timers.start("early", 1.0)
    assert timers.next_deadline() == 1.0
    assert timers.pop_due(2.9) == ["early"]
    assert timers.pop_due(3.0) == ["late"]
    assert timers.next_deadline() is None


def test_a_key_set_again_runs_out_once_at_its_new_deadline() -> None:
    timers = Timers()
    timers.start("retry:1", 1.0)
    timers.start("retry:1", 5.0)
    assert timers.next_deadline() == 5.0
    assert timers.pop_due(4.0) == []
    assert timers.pop_due(9.0) == ["retry:1"]
    assert timers.pop_due(9.0) == []


def test_a_cancelled_key_never_runs_out() -> None:
    timers = Timers()
    timers.start("retry:1", 1.0)
    timers.cancel("retry:1")
    timers.cancel("unknown")
    assert timers.next_deadline() is None
    assert timers.pop_due(9.0) == []
