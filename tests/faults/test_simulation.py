"""Requirement 35: the whole system under many seeds, through the seams for files, clock and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conductor.testing import LedgerBroken, Simulation, Trouble
from conductor.testing.long_run import main
from conductor.testing.simulated.troubles import CALM, Errand

HOME = Path(__file__).parents[2]
SEEDS = range(13, 85, 9)


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
        run = Simulation(seed, durability="power", troubles=replace(CALM, kinds=(trouble,), most=3)).run()
        happened += sum(f" {trouble.name} at " in line for line in run.story)
    assert happened > 0


@pytest.mark.parametrize("errand", Errand)
def test_each_errand_is_run_and_leaves_no_harm(errand: Errand) -> None:
    troubles = replace(CALM, kinds=(Trouble.KILL_CONDUCTOR, Trouble.KILL_CALLER), most=4, rare=((errand, 1.0),))
    stories = ["\n".join(Simulation(seed, troubles=troubles).run().story) for seed in range(6)]
    signs = {Errand.PLAN: "the plan is edited", Errand.RESET: "has set back"}
    assert sum(signs.get(errand, f"{errand.name.lower()} ") in story for story in stories) > 3


def test_most_snapshots_are_kept_where_they_are_tiny_and_some_are_cut_off() -> None:
    """Kills are aimed at them: each recovery afterwards compares the state from each snapshot with that of the whole
    journal."""
    troubles = replace(CALM, kinds=(Trouble.KILL_CALLER,), most=6, tiny=1.0)
    runs = [Simulation(seed, troubles=troubles).run() for seed in range(12)]
    aimed = [line for run in runs for line in run.story if "KILL" in line and "snapshot" in line]
    assert len(aimed) > 12


def test_a_calm_run_is_worked_off_by_one_conductor() -> None:
    run = Simulation(5, troubles=CALM, rounds=1).run()
    assert [record.type for record in run.records if record.type.startswith("RUN_")] == ["RUN_STARTED", "RUN_ENDED"]


def test_scripts_simulate_stops_at_the_first_seed_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "40", "--from", "2", "--jobs", "2", "--plant", "quarantine-unexplained"]) == 1
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
    run = Simulation(3).run()
    run.accounts.acknowledged[1] = "0" * 32
    with pytest.raises(LedgerBroken, match="acknowledged and is lost"):
        run.accounts.check(run.records, (), ended=True)
