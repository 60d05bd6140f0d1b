from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from conductor.cli.frame import Row, Totals, bar, cells, rest_line, totals_text, visible
from conductor.cli.output import STATUS_STYLE, cell_width

STATUSES = st.sampled_from(sorted(STATUS_STYLE))
ROWS = st.lists(
    st.builds(Row, id=st.text(max_size=20), name=st.text(max_size=60), status=STATUSES, note=st.text(max_size=40)),
    max_size=30,
)
COUNTS = st.dictionaries(STATUSES, st.integers(0, 500))


def test_few_rows_are_all_shown_in_plan_order() -> None:
    rows = [Row("2", "b", "done"), Row("1", "a", "running")]
    assert visible(rows, 2) == (rows, {})


def test_many_rows_keep_what_matters_now_and_sum_up_the_rest() -> None:
    rows = [Row(f"d{n}", "", "done", age=60.0) for n in range(20)]
    rows += [Row("new", "", "done", age=1.0), Row("bad", "", "failed"), Row("r1", "", "running")]
    rows += [Row(f"p{n}", "", "pending") for n in range(20)] + [Row("r2", "", "running"), Row("w", "", "waiting")]
    shown, rest = visible(rows, 7)
    assert [row.id for row in shown] == ["new", "bad", "r1", "p0", "r2", "w"]
    assert rest_line(rest) == "… and 39 more: 20 done, 19 pending"


def test_the_latest_done_come_before_older_ones() -> None:
    rows = [Row("old", "", "done", age=500.0), Row("mid", "", "done", age=50.0), Row("x", "", "done", age=400.0)]
    assert [row.id for row in visible(rows, 2)[0]] == ["mid"]


@given(ROWS, st.integers(1, 40))
def test_nothing_is_lost_between_shown_and_summed_up(rows: list[Row], room: int) -> None:
    shown, rest = visible(rows, room)
    assert len(shown) + sum(rest.values()) == len(rows)
    assert len(shown) + (1 if rest else 0) <= max(room, 1)


@given(ROWS, st.integers(20, 200))
def test_req31_rows_fit_the_width_and_line_up(rows: list[Row], width: int) -> None:
    laid = cells(rows, width)
    for cell in laid:
        line = "  ".join(
            part for part in (f"x {cell.status}", cell.id, cell.name, cell.attempt + cell.elapsed, cell.note)
        )
        assert "\n" not in line
        assert cell_width(line) <= max(width, 24 + cell_width(cell.id)) + 2
    assert len({cell_width(cell.id) for cell in laid}) <= 1
    assert len({cell_width(cell.name) for cell in laid}) <= 1


@given(COUNTS, st.integers(8, 80))
def test_the_bar_is_as_wide_as_asked_for(counts: dict[str, int], width: int) -> None:
    parts = bar(counts, width)
    assert sum(columns for _, columns in parts) == width
    assert all(columns > 0 for _, columns in parts)


def test_the_bar_shows_each_kind_and_is_full_only_at_the_end() -> None:
    assert bar({"done": 5, "failed": 1, "running": 2, "pending": 992}, 20) == [
        ("done", 1),
        ("failed", 1),
        ("running", 1),
        ("pending", 17),
    ]
    assert bar({"done": 3}, 10) == [("done", 10)]
    assert bar({"done": 2, "failed": 1}, 10) == [("done", 7), ("failed", 3)]
    assert bar({}, 10) == [("pending", 10)]


def test_the_whole_in_words() -> None:
    counts = {"done": 12, "failed": 1, "running": 3, "pending": 24}
    assert (
        totals_text(Totals(counts, 80, 190.3, 3, 5))
        == "12/40 done, 1 failed · 3 of 5 workers · 1m 20s, about 3m 10s left"
    )
    assert (
        totals_text(Totals(counts, 80, None, 3, 5, "draining"))
        == "12/40 done, 1 failed · 3 of 5 workers · draining · 1m 20s"
    )
    assert totals_text(Totals({"done": 1}, 0.4, 0.2, 0, 5)) == "1/1 done · 0 of 5 workers · 0.4s, about 1s left"
