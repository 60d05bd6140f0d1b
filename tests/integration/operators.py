"""What the tests of an operator's orders share: giving one by its verb or by a file, looking at what was recorded."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.integration.tools import Finished, Project

Task = dict[str, Any]


def order(project: Project, verb: str, *arguments: str, code: int = 0) -> Finished:
    """Give an order by its verb."""
    return project.call(verb, str(project.track), *arguments).expect(code)


def drop(project: Project, verb: str, **body: str) -> None:
    """Give an order by a file, as a shell would: empty where there is nothing more to say."""
    control, scratch = project.bus / "control", project.bus / "tmp" / "operator.0000000000000001"
    scratch.write_text(json.dumps(body) + "\n" if body else "", encoding="utf-8")
    scratch.chmod(0o600)
    number = 1 + max((int(name[:8]) for name in os.listdir(control) if name[:8].isdecimal()), default=0)
    scratch.rename(control / f"{number:08d}-{verb}")


def orders(project: Project) -> list[tuple[str, str | None, str]]:
    """The orders that were recorded: verb, target, who."""
    found = (record["payload"] for record in project.recorded("CONTROL"))
    return [(payload["verb"], payload.get("target"), payload["who"]) for payload in found]


def task(project: Project, id: str) -> Task:
    """A task as `status --json` has it."""
    return next(one for one in project.status()["tasks"] if one["id"] == id)


def why(project: Project, id: str) -> str:
    """The sentences of `why`."""
    return " ".join(project.call("why", str(project.track), id, "--json").expect(0).data["why"])
