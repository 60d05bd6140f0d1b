"""One clock over all boots: it stands still over a reboot, never goes back, and knows no wall clock."""

from __future__ import annotations

from bus.wire import Stamp
from conductor.core.journal_time import JournalTime


def at(mono: float, boot: str = "one", wall: float = 0.0) -> Stamp:
    return Stamp(wall, mono, boot)


def test_it_begins_with_the_first_record() -> None:
    time = JournalTime()
    assert [time.at(at(5000.0)), time.at(at(5001.5))] == [0.0, 1.5]


def test_it_stands_still_over_a_reboot() -> None:
    time = JournalTime()
    passed = [time.at(stamp) for stamp in (at(900.0), at(910.0), at(3.0, "two"), at(4.0, "two"), at(9000.0, "three"))]
    assert passed == [0.0, 10.0, 10.0, 11.0, 11.0]


def test_it_never_goes_back() -> None:
    time = JournalTime()
    assert [time.at(at(50.0)), time.at(at(60.0)), time.at(at(55.0)), time.at(at(61.0))] == [0.0, 10.0, 10.0, 11.0]


def test_requirement_21_ten_years_of_wall_clock_are_nothing() -> None:
    years = 10 * 365 * 86400.0
    time = JournalTime()
    assert [time.at(at(float(n), wall=wall)) for n, wall in enumerate((0.0, years, -years))] == [0.0, 1.0, 2.0]
