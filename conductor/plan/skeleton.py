"""Plans to start from: an example that runs as it is, or a DAG proposed from the check boxes of a plan without one."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from bus.layout import collision_key
from bus.wire import TaskId
from conductor.plan.ids import reason_against
from conductor.plan.locate import find_blocks, split_lines
from conductor.plan.prose import Item, find_items, first_token, without_word

_COMMENT = re.compile(r"<!--.*?(?:-->|$)")

_EXAMPLE = """
```yaml
dag:
  # The folder in which the commands run, relative to this file. Without this line it is the git repository.
  project: .
  # What holds for every task that does not say otherwise.
  defaults: {timeout: 5m, retries: 1}
  nodes:
    - id: "1"
      name: "Write a greeting"
      # A command is a list of arguments. Only "sh", "-c" brings a shell into play.
      run: ["sh", "-c", "echo hello > greeting.txt"]
      # Files that the task writes. Two tasks that write the same file never run at the same time.
      files: ["greeting.txt"]
    # These two wait for task 1, and then run side by side.
    - id: "2.1"
      name: "Count the letters"
      depends_on: ["1"]
      run: ["sh", "-c", "wc -c < greeting.txt > letters.txt"]
      files: ["letters.txt"]
    - id: "2.2"
      name: "Shout"
      depends_on: ["1"]
      run: ["sh", "-c", "tr a-z A-Z < greeting.txt > shout.txt"]
      files: ["shout.txt"]
    - id: "3"
      name: "Put it together"
      depends_on: ["2.1", "2.2"]
      run: ["sh", "-c", "cat greeting.txt shout.txt letters.txt > result.txt"]
      files: ["result.txt"]
      # The task counts as done only if each of these commands passes, too. One for a shell is a list in the list:
      # verify: [["sh", "-c", "test -s result.txt && test -s shout.txt"]]
      verify: ["test -s result.txt"]
```

## Tasks

What stands here about a task is given to its worker, which matters where the worker is an agent.

- [ ] Task 1: Write a greeting
  - **Acceptance**: `greeting.txt` holds one word
- [ ] Task 2.1: Count the letters
- [ ] Task 2.2: Shout
- [ ] Task 3: Put it together
  - **Acceptance**: `result.txt` holds all three
"""


@dataclass(frozen=True, slots=True)
class ProposedTask:
    """A task that a check box, or a heading, seems to mean."""

    id: str
    name: str


def plan_text(track_name: str, tasks_from_boxes: Sequence[ProposedTask] = ()) -> str:
    """Return a whole plan.md: the example, or a plan of the given tasks."""
    body = dag_block(tasks_from_boxes) if tasks_from_boxes else _EXAMPLE
    return f"# {_one_line(track_name) or 'Plan'}\n{body}"


def dag_block(tasks: Sequence[ProposedTask]) -> str:
    """Return a fenced block that runs the tasks in their order; it can be put into the plan that they came from."""
    lines = [
        "",  # so that it may be put behind a last line without an end
        "```yaml",
        "# Proposed from the check boxes, in their order: each task waits for the one before it. Take dependencies out",
        "# where tasks can run side by side, and name under files: what each one writes.",
        "# The tasks say what to do but not by whom: give each a command (run:), or all the same one, which is told by",
        "# {prompt_file} what to do: conductor run TRACK --command 'my-worker {prompt_file}'",
        "dag:",
        "  nodes:",
    ]
    before: str | None = None
    for task in tasks:
        lines.append(f"    - id: {_quoted(task.id)}")
        lines.append(f"      name: {_quoted(task.name)}")
        lines.append(f"      depends_on: [{_quoted(before) if before is not None else ''}]")
        before = task.id
    return "\n".join([*lines, "```", ""])


def tasks_in(markdown: str) -> list[ProposedTask]:
    """Return the tasks that a plan without a DAG seems to have, in order.

    Lines with the word "Task" or "Step" and an id, boxes before headings; else all boxes that are not nested.
    """
    lines = split_lines(markdown)
    items = find_items(lines, find_blocks(lines))
    named = [item for item in items if without_word(item.text)[1] and first_token(without_word(item.text)[0])[1]]
    chosen = [item for item in named if not item.heading] or named or _outermost_boxes(items)
    proposed: dict[str, ProposedTask] = {}
    for item in chosen:
        task = _proposed(item, len(proposed) + 1)
        proposed.setdefault(collision_key(TaskId(task.id)), task)
    return list(proposed.values())


def _outermost_boxes(items: Sequence[Item]) -> list[Item]:
    boxes = [item for item in items if item.mark is not None]
    least = min((item.level for item in boxes if not item.heading), default=0)
    return [item for item in boxes if item.heading or item.level <= least]


def _proposed(item: Item, number: int) -> ProposedTask:
    rest, word = without_word(_COMMENT.sub("", item.text))
    task, believed = first_token(rest)
    if (word or (believed and any(c.isdigit() for c in task))) and reason_against(task) is None:
        name = _one_line(rest[len(task) :].lstrip(" :.)-–—*_`"))
        return ProposedTask(task, name or task)
    return ProposedTask(str(number), _one_line(rest) or f"Task {number}")


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).replace("**", "").split())


def _quoted(text: str) -> str:
    """Quote for YAML, whose double quotes know all escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)
