"""The machine: what every run needs, whatever the track."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module, metadata
from pathlib import Path

from bus.process import HAVE_PROC, look
from conductor.cli.examine.finding import Finding, fine, note, problem
from conductor.core.task import RunOptions
from conductor.core.wording import plural
from conductor.errors import ConductorError
from conductor.runtime.descriptors import check
from conductor_bus_start import HOME, __version__

PACKAGES = {name: import_module(name) for name in ("bus", "conductor", "worker")}
"""By name: they are looked at here, and nothing of them is used."""

DISTRIBUTION = "conductor-bus"

AGENTS = ("claude", "codex", "gemini", "opencode", "qwen", "aider", "cursor-agent", "goose", "amp", "copilot")
"""Programs that plans often start. Only looked for by name: none is started, and no configuration of them is read."""

FEW_FILES, FEW_PROCESSES = 256, 256
"""Descriptors below which five workers may meet the limit, and processes likewise."""

FEW_INSTANCES, FEW_WATCHES = 16, 256

INOTIFY = Path("/proc/sys/fs/inotify")


def machine() -> Iterator[Finding]:
    """Look at everything that does not depend on a track."""
    yield fine("python", f"conductor {__version__}, Python {platform.python_version()} ({sys.executable})")
    yield _platform()
    yield from packages(metadata.distributions())
    yield from _limits()
    yield from _inotify()
    yield _proc()
    yield _git()
    yield _agents()


def _platform() -> Finding:
    text = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() == "Linux":
        return fine("platform", text)
    return note("platform", f"{text}: strays of a command are found by its process group only")


def packages(installed: Iterable[metadata.Distribution]) -> Iterator[Finding]:
    """Make sure that our three packages are ours: their names are common ones."""
    elsewhere = [name for name, module in PACKAGES.items() if not _is_below(module.__file__, HOME)]
    if elsewhere:
        text = f"other packages are loaded in the place of ours: {', '.join(elsewhere)}"
        yield problem("packages", text, "start the program as `conductor` or `conductor-bus`, from its own environment")
        return
    sharing = sorted(f"{name} ({owner})" for owner in installed if _name(owner) != DISTRIBUTION for name in _top(owner))
    if sharing:
        yield problem(
            "packages",
            f"another distribution has files in our packages: {', '.join(sharing)}",
            "install conductor-bus in an environment of its own (`pipx install`, or a venv)",
        )
        return
    yield fine("packages", f"bus, conductor and worker are ours, in {HOME}")


def _is_below(file: str | None, folder: str) -> bool:
    return file is not None and os.path.realpath(file).startswith(os.path.realpath(folder) + os.sep)


def _name(distribution: metadata.Distribution) -> str:
    return (distribution.metadata["Name"] or "").lower().replace("_", "-")


def _top(distribution: metadata.Distribution) -> Iterator[str]:
    """Yield which of our package names the distribution has files of, in the folder that ours are in."""
    found = {file.parts[0] for file in distribution.files or () if len(file.parts) > 1}
    for name in sorted(found & PACKAGES.keys()):
        if os.path.realpath(str(distribution.locate_file(name))) == os.path.realpath(os.path.join(HOME, name)):
            yield f"{name} of {_name(distribution)}"


def _limits() -> Iterator[Finding]:
    files, processes, size = (
        resource.getrlimit(limit)[0] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE)
    )
    for workers, judged in ((1, problem), (RunOptions().max_workers, note)):
        try:
            check(workers)
        except ConductorError as error:
            yield judged(
                "limits", f"a run with {plural(workers, 'worker')} would be refused: {error.message}", error.hint
            )
            return
    low = []
    if 0 <= files < FEW_FILES:
        low.append(f"open files (ulimit -n) {files}")
    if 0 <= processes < FEW_PROCESSES:
        low.append(f"processes (ulimit -u) {processes}")
    if size != resource.RLIM_INFINITY:
        low.append(f"size of a file (ulimit -f) {size} bytes: beyond it the journal counts as a full disk")
    if low:
        yield note("limits", f"low limits: {'; '.join(low)}", "raise them in the shell that starts the run")
    else:
        yield fine("limits", f"open files {_limit(files)}, processes {_limit(processes)}, size of a file unlimited")


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _inotify() -> Iterator[Finding]:
    if platform.system() != "Linux":
        return
    try:
        instances, watches = (int((INOTIFY / name).read_text()) for name in ("max_user_instances", "max_user_watches"))
    except (OSError, ValueError):
        yield note("inotify", "the limits of inotify cannot be read; without file events a run looks every 250 ms")
        return
    text = f"inotify: {instances} instances, {watches} watches for each user; a run takes one instance"
    if instances < FEW_INSTANCES or watches < FEW_WATCHES:
        yield note("inotify", f"{text}. That is little", "raise fs.inotify.max_user_instances and max_user_watches")
    else:
        yield fine("inotify", text)


def _proc() -> Finding:
    if not HAVE_PROC:
        return note("proc", "there is no /proc: processes that a command left behind are found by its group only")
    if look(1) is None:
        return note(
            "proc",
            "/proc hides the processes of others (hidepid): which process holds a track cannot always be told",
        )
    return fine("proc", "/proc can be read")


def _git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return note("git", "git is not found; nothing of ours needs it, commands of a plan may")
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return note("git", f"git does not start: {error}")
    return fine("git", f"{said.strip() or 'git'} ({path})")


def _agents() -> Finding:
    found = [name for name in AGENTS if shutil.which(name)]
    return fine("agents", f"agents on PATH: {', '.join(found) or 'none'} (a plan starts them by `run:`)")
