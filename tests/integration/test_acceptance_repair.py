"""A journal that is damaged before its end, from the refusal to the end of the run."""

from __future__ import annotations

from tests.integration.tools import Project


def test_a_damaged_journal_is_refused_repaired_and_gone_on_with(project: Project) -> None:
    project.plan([project.task("a"), project.task("b", after=["a"]), project.shell("c", "exit 1", retries=0)])
    project.run().expect(1)
    assert sorted(project.starts()) == ["a", "b"]
    journal = project.bus / "queue.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], lines[4][:20] + b"?" + lines[4][21:], *lines[5:]]))
    for verb in ("run", "status"):
        error = project.call(verb, str(project.track), "--json").expect(5).error
        assert (error["code"], error["line"]) == ("bus_corrupt", 5)
        assert f"conductor doctor {project.track} --repair" in error["hint"]
    assert journal.read_bytes().count(b"?") == 1
    said = project.call("doctor", str(project.track), "--repair").expect(0).out
    assert "quarantine/" in said
    assert "the journal can be read to its end" in said
    project.plan([project.task("a"), project.task("b", after=["a"]), project.shell("c", "exit 0", retries=0)])
    if project.run().code == 1:  # the round that was cut off ends as it had; the next one reads the plan again
        project.run().expect(0)
    assert project.statuses() == {"a": "done", "b": "done", "c": "done"}
    assert sorted(project.starts()) == ["a", "b"], "what was done was done again"
    project.call("doctor", str(project.track), "--verify").expect(0)
