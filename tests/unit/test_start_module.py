"""Where every process of ours enters: what it takes from `sys.path`, how little it loads, how it leaves early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import conductor_bus_start
from conductor_bus_start import clean_path

START = conductor_bus_start.__file__


def test_what_the_environment_and_the_cwd_add_is_taken_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path)
    assert clean_path([here, "/usr/lib"], ".", here) == ["/usr/lib"]
    assert clean_path(["/a", "/b", "/usr/lib"], "/a:/b", here) == ["/usr/lib"]
    assert clean_path(["", "/usr/lib", here], "", here) == ["/usr/lib"]
    assert clean_path(["/usr/lib"], "", "") == ["/usr/lib"]


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    script = f"import sys; {code}; print(*sys.modules)"
    argv = [sys.executable, "-E", "-P", "-c", script]
    return set(subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split())


def test_the_version_costs_no_more_than_the_interpreter() -> None:
    argv = [sys.executable, "-E", "-P", "-X", "importtime", START, "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == f"conductor {conductor_bus_start.__version__}\n"
    names = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not names & {"click", "conductor", "bus", "worker", "json", "dataclasses"}


def test_what_workers_are_forked_from_stays_light() -> None:
    heavy = {
        "pydantic",
        "click",
        "watchdog",
        "filelock",
        "rich",
        "psutil",
        "yaml",
        "asyncio",
        "subprocess",
        "bus.schema",
    }
    found = loaded("import conductor_bus_start; conductor_bus_start.pin_packages(); import worker.warm")
    assert "worker.runner" in found
    assert not found & heavy


def test_what_forks_workers_cannot_start_a_thread() -> None:
    """A fork copies the locks that other threads hold, and no thread of the child will ever open them."""
    found = loaded(
        "import conductor_bus_start; conductor_bus_start.pin_packages(); import worker.warm, ctypes, traceback"
    )
    assert "worker.warm" in found
    assert not found & {"threading", "concurrent.futures", "multiprocessing"}


def test_our_packages_win_over_those_on_the_path(tmp_path: Path) -> None:
    for name in ("bus", "conductor", "worker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('a foreign package was imported')\n")
    loaded(f"sys.path.insert(0, {str(tmp_path)!r}); import conductor_bus_start as c; c.pin_packages()")


@pytest.mark.parametrize(
    "error", ["OSError(24, 'Too many open files', '/some/file.py')", "ImportError('libx.so: Too many open files')"]
)
def test_a_part_that_cannot_be_loaded_is_said_without_a_traceback(error: str) -> None:
    script = (
        "import sys, conductor_bus_start\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'conductor.cli.main': raise {error}\n"
        "sys.meta_path.insert(0, Finder())\n"
        "conductor_bus_start.main()\n"
    )
    argv = [sys.executable, "-E", "-c", script, "status", "."]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=Path(START).parent, check=False)
    assert done.returncode == 74
    said, hint = done.stderr.splitlines()
    assert "cannot be loaded" in said
    assert "Too many open files" in said
    assert hint.startswith("hint: ")


def test_ctrl_c_is_recognised_in_what_python_makes_of_it() -> None:
    assert conductor_bus_start.is_interrupt(KeyboardInterrupt())
    assert not conductor_bus_start.is_interrupt(RuntimeError())
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    assert conductor_bus_start.is_interrupt(error)
