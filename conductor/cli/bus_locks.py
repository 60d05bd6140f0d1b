"""`conductor bus lock|unlock|wait|ask|inbox`: what one worker needs of the others, and of people."""

from __future__ import annotations

import sys

import click

from bus.errors import AttemptRevoked, LockBusy, TaskNotDone, WaitTimedOut
from conductor.cli.bus_worker import duration_option, standing, stopped, waited, worker
from conductor.cli.escape import lines, one_line
from conductor.cli.exit_codes import BusExit
from conductor.cli.options import examples
from conductor.cli.output import err, is_terminal, out, print_json
from conductor.errors import ConductorError

TIMEOUT = duration_option("--timeout", "Wait no longer than this:")


@click.command(epilog=examples(("bus lock src/a.py 'tests/*.py'", "both, or wait for both")))
@click.option("--shared", is_flag=True, help="Others may lock the same files with --shared, too: all only read them.")
@TIMEOUT
@click.option("--no-wait", is_flag=True, help="If somebody else holds one of them, end at once with exit code 1.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
def lock(shared: bool, timeout: float | None, no_wait: bool, paths: tuple[str, ...]) -> int:
    """Lock files, folders (with all in them) or globs: all of them or none.

    Waits until no other worker holds any of them; who came first goes first. They are held until `unlock`, or until
    the attempt is over. Exit code 1: busy, 75: timed out.
    """
    with worker() as client:
        try:
            client.lock(*paths, shared=shared, timeout=timeout, wait=not no_wait)
        except (LockBusy, WaitTimedOut, AttemptRevoked) as error:
            return waited(error)
        return standing(client)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Release all that this attempt holds.")
@click.argument("paths", nargs=-1, metavar="PATH…")
def unlock(everything: bool, paths: tuple[str, ...]) -> int:
    """Release what was locked, named as it was locked. Exit code 1: one of them was not held.

    What the worker itself has locked for its command (`--on-conflict lock`) is held until the attempt ends.
    """
    if bool(paths) is everything:
        raise click.UsageError("name what to release, or say --all")
    with worker() as client:
        try:
            released = client.unlock(*paths)
        except AttemptRevoked as error:
            return stopped(error)
        left = [path for path in paths if client.key_of(path) not in released]
        missing = [path for path in left if not client.lasts(path)]
        for path in left:
            word = "not held" if path in missing else "held until the attempt ends, as its task declares it"
            err(f"{word}: {one_line(path)}")
        return standing(client) or (BusExit.NO if missing else BusExit.YES)


@click.command()
@TIMEOUT
@click.argument("tasks", nargs=-1, required=True, metavar="TASK…")
def wait(timeout: float | None, tasks: tuple[str, ...]) -> int:
    """Wait until other tasks are done. Exit code 1: one of them failed, or will not be done; 75: timed out."""
    with worker() as client:
        try:
            client.wait(*tasks, timeout=timeout)
        except (TaskNotDone, WaitTimedOut, AttemptRevoked) as error:
            return waited(error)
        return standing(client)


@click.command()
@TIMEOUT
@click.argument("question")
def ask(timeout: float | None, question: str) -> int:
    """Ask a person, wait for the answer and print it. The time limit of the task stands still meanwhile.

    If it was ended while it waited, ask the same again: an answer that came meanwhile is printed at once.
    """
    if sys.__stdout__ is None:
        hint = "an answer can be taken once: let it go somewhere, as in `answer=$(conductor bus ask …)`"
        raise ConductorError("usage", "the answer has nowhere to go: standard output is closed", hint=hint)
    with worker() as client:
        try:
            _print(client.ask(question, timeout=timeout))
        except (WaitTimedOut, AttemptRevoked) as error:
            return waited(error)
        return BusExit.YES


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A list of objects with `name` and `text`.")
def inbox(as_json: bool) -> int:
    """Print what people sent to this attempt (`conductor steer`), oldest first. Exit code 1: nothing yet."""
    with worker() as client:
        texts = client.texts()
        if as_json:
            print_json([{"name": name, "text": text} for name, text in texts])
        else:
            for _, text in texts:
                _print(text)
        return BusExit.YES if texts else BusExit.NO


def _print(text: str) -> None:
    """Print what people wrote: as it is, but for a terminal."""
    text = text.removesuffix("\n")
    out(lines(text) if is_terminal(sys.stdout) else text)
