"""Signals in the first milliseconds of a verb, while its modules are loaded: no traceback, nothing lost, no odd code.

Python cannot raise out of a callback and turns what meets the making of a class into another error: there, too.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.tools import START, Project

SCRIPT = Path(__file__).with_name("early_signals.py")

Case = tuple[int, str, int]

CALLBACKS: list[Case] = [(signal.SIGINT, "cb", times) for times in (1, 30)]
"""`cb` is what importlib lets a lock call that goes: nothing can be raised out of it."""
CLASSES: list[Case] = [(signal.SIGINT, "__set_name__", times) for times in (1, 20)]
MODULES: list[Case] = [(signal.SIGINT, "import", times) for times in (10, 120)]
ENDING: list[Case] = [(number, "import", 60) for number in (signal.SIGTERM, signal.SIGHUP)]
HARMLESS: list[Case] = [(signal.SIGPIPE, "import", 50)]

ENDED = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP, signal.SIGPIPE: 0}


@pytest.mark.parametrize(
    ("verb", "cases"),
    [
        ("status", [*CALLBACKS, *CLASSES, *MODULES, *ENDING, *HARMLESS]),
        ("run", [(signal.SIGINT, "cb", 120), (signal.SIGINT, "import", 220)]),
    ],
)
def test_requirement_20_a_signal_while_a_verb_is_loaded_ends_it_quietly(
    project: Project, verb: str, cases: list[Case]
) -> None:
    project.plan([project.task("a")])
    project.run().expect(0)
    argv = [sys.executable, "-P", str(SCRIPT), str(START.parent), json.dumps(cases), verb, str(project.track)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env=project.environment())
    ends = [(code, err) for code, err in json.loads(done.stdout)]
    assert ends == [(ENDED[signal.Signals(number)], "") for number, _, _ in cases]
    assert project.status()["run"]["state"] == "done"
