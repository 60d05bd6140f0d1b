"""What the acceptance tests share: a project folder with a track, the real program as a process, gates and looking.

The program is only used from outside here: command lines, exit codes, what it prints, and the files of the bus.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

REPO = Path(__file__).resolve().parents[2]
START = REPO / "conductor_bus_start.py"
EVERY_RUN = tuple(os.environ.get("CONDUCTOR_TEST_RUN_FLAGS", "").split())
"""Flags for each `run` of the suite: CONDUCTOR_TEST_RUN_FLAGS=--no-watch proves that all holds without the watch."""

RECORDER = Path(__file__).with_name("recorder.py")
PATIENCE = 30.0
"""Seconds after which a condition that was waited for will not come true any more."""

T = TypeVar("T")
Node = dict[str, Any]


def wait_for(condition: Callable[[], T | Literal[False] | None], what: str, patience: float = PATIENCE) -> T:
    """Poll until `condition()` is true and return what it gave; fail, saying `what` was waited for."""
    pause = threading.Event()
    for _ in range(int(patience / 0.02)):
        if found := condition():
            return found
        pause.wait(0.02)
    raise AssertionError(f"waited in vain for: {what}")


@dataclass(frozen=True)
class Finished:
    """How a process ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line of stdout as a JSON object; fails where one is not."""
        found = [json.loads(line) for line in self.out.splitlines()]
        assert all(isinstance(line, dict) for line in found), self.out
        return found

    @property
    def data(self) -> dict[str, Any]:
        """The whole of stdout as one JSON object."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The error object on the last line of stdout."""
        found = json.loads(self.out.splitlines()[-1])["error"]
        assert isinstance(found, dict)
        return found

    def expect(self, code: int) -> Finished:
        """Check the exit code; show everything where it is another."""
        assert self.code == code, f"exit {self.code}, not {code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"
        assert "Traceback" not in self.out + self.err
        return self


class Running:
    """A process of the program that was started and not waited for."""

    def __init__(self, process: subprocess.Popen[bytes], out: Path, err: Path) -> None:
        self.process = process
        self.pid = process.pid
        self._out, self._err = out, err

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process only."""
        self.process.send_signal(number)

    def finish(self) -> Finished:
        """Wait for its end."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs\n--- stdout\n{self.out()}\n--- stderr\n{self.err()}") from None
        return Finished(code, self.out(), self.err())

    def out(self) -> str:
        """What it has written to stdout so far."""
        return self._out.read_text(encoding="utf-8")

    def err(self) -> str:
        """What it has written to stderr so far."""
        return self._err.read_text(encoding="utf-8")


@dataclass
class Project:
    """A folder with a track in it, a home of its own, and everything that was started in it."""

    root: Path
    dir: Path = field(init=False)
    track: Path = field(init=False)
    bus: Path = field(init=False)
    home: Path = field(init=False)
    log: Path = field(init=False)
    gates: Path = field(init=False)
    started: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dir = self.root / "project"
        self.track = self.dir / "track"
        self.bus = self.track / ".message-bus"
        self.home = self.root / "home"
        self.log = self.root / "record.jsonl"
        self.gates = self.root / "gates"
        for folder in (self.dir, self.track, self.home, self.gates):
            folder.mkdir()

    # --- what is to be done ---

    def plan(
        self, nodes: Sequence[Node], *, groups: Sequence[Node] | None = None, prose: str = "", **keys: Any
    ) -> None:
        """Write plan.md: one node a line (JSON is YAML), further keys of `dag` as given."""
        lines = ["# Plan", "", "```yaml", "dag:", "  nodes:", *(f"    - {json.dumps(node)}" for node in nodes)]
        if groups is not None:
            lines += [f"  parallel_groups: {json.dumps(list(groups))}"]
        lines += [f"  {key}: {json.dumps(value)}" for key, value in keys.items()]
        (self.track / "plan.md").write_text("\n".join([*lines, "```", "", prose]), encoding="utf-8")

    def config(self, text: str) -> None:
        """Write the track's conductor.toml."""
        (self.track / "conductor.toml").write_text(text, encoding="utf-8")

    def recorder(self, *options: str) -> list[str]:
        """The argument list of a recording worker."""
        return [sys.executable, "-I", "-S", str(RECORDER), str(self.log), *options]

    def task(self, id: str, *options: str, after: Sequence[str] = (), gated: bool = False, **keys: Any) -> Node:
        """A node whose command is a recording worker, gated or not."""
        gate = ("--gates", str(self.gates)) if gated else ()
        return {
            "id": id,
            "name": f"Task {id}",
            "depends_on": list(after),
            "run": self.recorder(*gate, *options),
            **keys,
        }

    def shell(self, id: str, script: str, *, after: Sequence[str] = (), **keys: Any) -> Node:
        """A node that runs a shell script."""
        return {"id": id, "name": f"Task {id}", "depends_on": list(after), "run": ["sh", "-c", script], **keys}

    def open_gate(self, *tasks: str, code: int = 0) -> None:
        """Let gated workers end."""
        for task in tasks:
            gate = self.gates / urllib.parse.quote(task, safe="")
            fresh = gate.with_name(f".{gate.name}")
            fresh.write_text(str(code) if code else "", encoding="ascii")
            fresh.replace(gate)

    def close_gate(self, task: str) -> None:
        """Make workers wait again."""
        (self.gates / urllib.parse.quote(task, safe="")).unlink()

    # --- the program ---

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """A small environment with a home of its own."""
        path = os.environ.get("PATH", "/usr/bin:/bin")
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **(extra or {})}

    def start(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        program: Sequence[str] | None = None,
        stdout_fd: int | None = None,
    ) -> Running:
        """Start the program and return at once."""
        number = len(self.started)
        out, err = self.root / f"out-{number}", self.root / f"err-{number}"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [*(program or (sys.executable, "-E", "-P", str(START))), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout if stdout_fd is None else stdout_fd,
                stderr=stderr,
                cwd=cwd or self.dir,
                env=self.environment(env),
            )
        running = Running(process, out, err)
        self.started.append(running)
        return running

    def call(self, *arguments: str, **how: Any) -> Finished:
        """Run the program to its end."""
        return self.start(*arguments, **how).finish()

    def run(self, *options: str, **how: Any) -> Finished:
        """`conductor run` of the track, to its end."""
        return self.call("run", str(self.track), *options, *EVERY_RUN, **how)

    def start_run(self, *options: str, **how: Any) -> Running:
        """`conductor run` of the track, in the background."""
        return self.start("run", str(self.track), *options, *EVERY_RUN, **how)

    # --- looking ---

    def status(self) -> dict[str, Any]:
        """`status --json`."""
        return self.call("status", str(self.track), "--json").expect(0).data

    def statuses(self) -> dict[str, str]:
        """The status word of each task, in the order in which they are listed."""
        return {task["id"]: task["status"] for task in self.status()["tasks"]}

    def records(self, *types: str) -> list[dict[str, Any]]:
        """The lines of the journal, sealed parts included, as far as they are whole."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for path in (*sorted(self.bus.glob("segments/*.jsonl")), self.bus / "queue.jsonl"):
            if path.exists():
                whole = path.read_text(encoding="utf-8").rpartition("\n")[0]
                lines = map(json.loads, whole.splitlines())
                found |= {(line["epoch"], line["seq"]): line for line in lines}
        return [record for record in found.values() if not types or record["type"] in types]

    def recorded(self, type: str, task: str | None = None) -> list[dict[str, Any]]:
        """The journal's records of one type, of one task where it is named."""
        return [record for record in self.records(type) if task in (None, record["task"])]

    def notes(self) -> list[dict[str, Any]]:
        """The lines that recording workers wrote."""
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def starts(self, *tasks: str) -> list[str]:
        """Tasks in the order in which their workers started; of some only where they are named."""
        return [
            note["task"] for note in self.notes() if note["what"] == "start" and (not tasks or note["task"] in tasks)
        ]

    def ends(self) -> list[str]:
        """Tasks in the order in which their workers ended."""
        return [note["task"] for note in self.notes() if note["what"] == "end"]

    def wait_started(self, *tasks: str, times: int = 1) -> None:
        """Wait until recording workers of these tasks have started."""
        for task in tasks:
            wait_for(partial(self._started, task, times), f"the start of {task}")

    def _started(self, task: str, times: int) -> bool:
        return self.starts().count(task) >= times

    def wait_recorded(self, type: str, task: str | None = None, times: int = 1) -> dict[str, Any]:
        """Wait for the journal to hold `times` records of a type; return the last."""
        return wait_for(lambda: self.recorded(type, task)[times - 1 :], f"{type} of {task or 'the run'}")[-1]

    def printed(self, task: str, stream: str = "log") -> str:
        """What the only attempt of a task printed, from the file on the bus."""
        (attempt,) = {record["attempt"] for record in self.recorded("WORKER_DISPATCHED", task)}
        (folder,) = self.bus.glob(f"attempts/*/{attempt}")
        path = folder / stream
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def processes(self) -> dict[int, str]:
        """Living processes that come from here, by their environment."""
        marks = (f"HOME={self.home}".encode(), str(self.bus).encode())
        return {pid: name for pid, name in processes_with(marks).items() if pid != os.getpid()}

    def end_all(self) -> dict[int, str]:
        """End everything that was started here, by pid; return what was left behind by the program itself."""
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
            running.process.wait()
        left: dict[int, str] = {}
        try:
            wait_for(lambda: not self.processes(), "the end of all processes", patience=5.0)
        except AssertionError:
            left = self.processes()
            for pid in left:
                kill(pid)
        return left


def processes_with(marks: Sequence[bytes]) -> dict[int, str]:
    """Living processes whose environment holds one of `marks`, with their command lines."""
    found = {}
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdecimal():
            try:
                environ = Path(f"/proc/{entry}/environ").read_bytes()
                if environ and any(mark in environ for mark in marks):
                    line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(entry)] = line.decode("utf-8", "replace").strip()
            except (OSError, ValueError):
                continue
    return found


def alive(pid: int) -> bool:
    """Tell whether a process lives; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def kill(pid: int) -> None:
    """End one process of ours."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def listing(root: Path, *, without: Path | None = None) -> dict[str, bytes | None]:
    """Every path below `root` and the content of the files; `without` and what is below it left out."""
    found: dict[str, bytes | None] = {}
    for path in sorted(root.rglob("*")):
        if without is None or (path != without and without not in path.parents):
            found[str(path.relative_to(root))] = path.read_bytes() if path.is_file() else None
    return found
