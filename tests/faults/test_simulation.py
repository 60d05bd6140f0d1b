"""Requirement 35: the whole system under many seeds, through the seams for files, clock and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.testing import LedgerBroken, Simulation, Trouble, Troubles
from conductor.testing.long_run import main

HOME = Path(__file__).parents[2]
SEEDS = range(0, 200, 25)


@pytest.mark.parametrize("first", SEEDS)
def test_requirement_35_seeds_are_clean(first: int) -> None:
    """Among them all that can go wrong happens; more seeds: scripts/simulate."""
    recoveries = 0
    for seed in range(first, first + SEEDS.step):
        try:
            recoveries += Simulation(seed).run().recoveries
        except Exception as error:
            error.add_note(f"scripts/simulate --seed {seed} --trace")
            raise
    assert recoveries > SEEDS.step


def test_requirement_35_a_seed_tells_the_same_story_whatever_the_order_of_sets() -> None:
    program = "from conductor.testing import Simulation; print(*Simulation(3).run().story, sep='\\n')"
    stories = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": order},
            cwd=HOME,
            capture_output=True,
            check=True,
        ).stdout
        for order in ("1", "2")
    }
    assert len(stories) == 1
    assert b"has recovered" in stories.pop()


@pytest.mark.parametrize("trouble", Trouble)
def test_each_trouble_happens_and_is_survived(trouble: Trouble) -> None:
    happened = 0
    for seed in range(6):
        run = Simulation(seed, durability="power", troubles=Troubles(kinds=(trouble,), most=3)).run()
        happened += sum(f" {trouble.name} at " in line for line in run.story)
    assert happened > 0


def test_a_calm_run_is_worked_off_by_one_conductor() -> None:
    run = Simulation(5, troubles=Troubles(kinds=(), failure=0.0), rounds=1).run()
    assert [record.type for record in run.records if record.type.startswith("RUN_")] == ["RUN_STARTED", "RUN_ENDED"]


def test_scripts_simulate_stops_at_the_first_seed_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "40", "--jobs", "2", "--plant", "quarantine-unexplained"]) == 1
    said = capsys.readouterr().out
    assert "lies there without a reason" in said
    replay = next(line for line in said.splitlines() if line.startswith("replay: "))
    words = replay.removeprefix("replay: scripts/simulate ").split()
    assert main(words) == 1
    assert "without a reason" in capsys.readouterr().out


def test_scripts_simulate_does_not_wait_for_a_process_that_died(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.testing.long_run._CHILD", "raise SystemExit(9)")
    assert main(["--seeds", "40", "--jobs", "2"]) == 1
    assert capsys.readouterr().out == "the process that played the seeds 0 to 19 died: 9\n"


def test_scripts_simulate_says_how_many_were_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "4", "--from", "10", "--jobs", "1", "--process"]) == 0
    assert "4 seeds clean" in capsys.readouterr().out


def test_a_failure_says_what_is_wrong() -> None:
    run = Simulation(1).run()
    run.accounts.acknowledged[1] = "0" * 32
    with pytest.raises(LedgerBroken, match="acknowledged and is lost"):
        run.accounts.check(run.records, (), ended=True)
