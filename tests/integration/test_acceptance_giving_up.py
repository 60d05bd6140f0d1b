"""A run in which nothing succeeds gives up before its retries do."""

from __future__ import annotations

from tests.integration.tools import Project


def test_a_run_gives_up_where_failures_come_too_fast(project: Project) -> None:
    project.config('retry_delay = "0s"\n')
    project.plan([project.task("a", "--exit", "1", retries=50), project.task("b", after=["a"])])
    run = project.run("--restart-intensity", "3/5m").expect(6)
    assert "something may be wrong with all of them.\n    exit 1" in run.out
    assert f"Why:      conductor why {project.track} a\n" in run.out
    status = project.status()
    assert (status["run"]["state"], status["run"]["reason"]) == ("escalated", "restart_intensity")
    assert [task["status"] for task in status["tasks"]] == ["skipped", "skipped"]
    assert len(project.starts("a")) == 4
    project.plan([project.task("a", "--exit", "1", retries=9), project.task("b", after=["a"])])
    project.run("--restart-intensity", "none").expect(1)
    assert len(project.starts("a")) == 14


def test_a_restart_intensity_that_cannot_be_read_is_refused(project: Project) -> None:
    project.plan([project.task("a")])
    for text in ("5", "x/5m", "5/x", "-1/5m", ""):
        error = project.run("--restart-intensity", text, "--json").expect(2).error
        assert error["code"] == "usage"
        assert error["message"].startswith("--restart-intensity: ")
        assert "more than 20 failed attempts within 5 minutes" in error["hint"]
    assert not project.bus.exists()
