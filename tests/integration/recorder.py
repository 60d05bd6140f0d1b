"""A scripted worker: appends a line when it starts and one when it ends, and waits for its gate in between.

    recorder.py LOG [--gates DIR] [--linger SECONDS] [--fail-first N] [--exit CODE] [--stubborn]

A gate is a file of the task's name in DIR; its content is the exit code, nothing means 0. One line is one write with
O_APPEND, so that the order of the lines is the order of what happened.
"""

import argparse
import json
import os
import select
import signal
import urllib.parse


def main() -> int:
    """Record, wait, record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--gates")
    parser.add_argument("--linger", type=float, default=0.0)
    parser.add_argument("--fail-first", type=int, default=0)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--stubborn", action="store_true")
    options = parser.parse_args()
    if options.stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    task = os.environ["CONDUCTOR_TASK_ID"]
    note(options.log, "start", task)
    code = int(options.exit)
    if int(os.environ["CONDUCTOR_ATTEMPT_NUMBER"]) <= options.fail_first:
        code = 1
    if options.gates:
        code = wait(os.path.join(options.gates, urllib.parse.quote(task, safe=""))) or code
    if options.linger:
        select.select([], [], [], options.linger)
    note(options.log, "end", task)
    return code


def note(log: str, what: str, task: str) -> None:
    """Append one line."""
    line = {"what": what, "task": task, "attempt": os.environ["CONDUCTOR_ATTEMPT"], "pid": os.getpid()}
    fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def wait(gate: str) -> int:
    """Wait for the gate; end by itself where whoever holds it is gone for good."""
    for _ in range(6000):
        if os.path.exists(gate):
            with open(gate, encoding="ascii") as file:
                return int(file.read() or "0")
        select.select([], [], [], 0.01)
    return 99


if __name__ == "__main__":
    raise SystemExit(main())
