"""The command line: a table of verbs, each imported when it is used, and one place where errors end."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise, takewhile
from typing import NamedTuple

import click

from bus.errors import BusError
from bus.process import is_shortage
from conductor.cli.exit_codes import Exit
from conductor.cli.failure import describe, report
from conductor.cli.options import BUS_DIR, TRACK
from conductor.cli.output import is_gone, out, silence
from conductor.cli.track import BUS_NAME, spoken
from conductor.errors import ConductorError, PlanError
from conductor_bus_start import is_interrupt


class Verb(NamedTuple):
    """One line of the table of verbs."""

    place: str
    """`module:attribute` of its click command."""
    section: str
    summary: str


VERBS: dict[str, Verb] = {
    "run": Verb("conductor.cli.run:run", "Work", "Run a track, or go on with it, until nothing more can be done."),
    "plan": Verb("conductor.cli.plan:plan", "Work", "Check a plan; show its waves, critical path and conflicts."),
    "init": Verb("conductor.cli.init:init", "Work", "Begin a track: a folder with a plan to fill in."),
    "status": Verb("conductor.cli.status:status", "Look", "Show how a track stands, task by task."),
    "why": Verb("conductor.cli.why:why", "Look", "Say why a task is where it is, and what happened to it."),
    "logs": Verb("conductor.cli.logs:logs", "Look", "Show what a task's command printed."),
    "events": Verb("conductor.cli.events:events", "Look", "Show the journal of a track, line by line."),
    "pause": Verb("conductor.cli.pause:pause", "Steer", "Start nothing new; what runs goes on."),
    "resume": Verb("conductor.cli.resume:resume", "Steer", "Go on after a pause, or with what a provider held back."),
    "stop": Verb("conductor.cli.stop:stop", "Steer", "End a run: stop its workers, or let them finish."),
    "reload": Verb("conductor.cli.reload:reload", "Steer", "Let a run follow its plan as it is on disk now."),
    "cancel": Verb("conductor.cli.cancel:cancel", "Steer", "Call tasks off."),
    "retry": Verb("conductor.cli.retry:retry", "Steer", "Take up again what failed, was cancelled or skipped."),
    "approve": Verb("conductor.cli.approve:approve", "Steer", "Let pass what waits for approval."),
    "reject": Verb("conductor.cli.reject:reject", "Steer", "Refuse what waits for approval: it fails."),
    "complete": Verb("conductor.cli.complete:complete", "Steer", "Say that the work of a person is done."),
    "fail": Verb("conductor.cli.fail:fail", "Steer", "Say that the work of a person cannot be done."),
    "answer": Verb("conductor.cli.answer:answer", "Steer", "Answer what a worker asked."),
    "steer": Verb("conductor.cli.steer:steer", "Steer", "Give words to a worker that works."),
    "unlock": Verb("conductor.cli.unlock:unlock", "Steer", "Take a lock on a file from its holder."),
    "reset": Verb("conductor.cli.reset:reset", "Steer", "Set tasks, or all of a track, back to pending."),
    "doctor": Verb(
        "conductor.cli.doctor:doctor", "Care", "Check this machine, a file system, a bus; mend a damaged one."
    ),
    "bus": Verb("conductor.cli.bus:bus", "For workers", "Talk to the conductor from inside a worker."),
}

EPILOG = """\b
Examples:
  conductor init my-track            begin a track
  conductor plan my-track            check it before running it
  conductor run my-track             run it; run it again to go on
  conductor status my-track --watch  look on from another terminal
  conductor why my-track 1.2         what happened to task 1.2

\b
Exit codes:
    0  all tasks are done
    1  a task failed, or was not done
    2  the command line is wrong
    3  the plan cannot be run, or there is no worker for it
    4  another conductor holds the track
    5  the bus cannot be used
    6  the run gave up before its tasks did
   70  an error of conductor itself
   74  the system refused a file or the output
   75  a provider's limit, and told not to wait
  130  stopped by Ctrl-C or by `conductor stop`
  143  stopped by TERM
"""


class Verbs(click.Group):
    """The group `conductor`: knows the verbs by the table, imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a verb; None where there is none of this name."""
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name].place.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or say which one may be meant."""
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            ctx.fail(f"there is no verb {name!r}.{did_you_mean(name, list(VERBS))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs by purpose; from the table alone, so that help imports none of them."""
        for section in dict.fromkeys(verb.section for verb in VERBS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items() if verb.section == section])


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return ` Did you mean …?` for the closest known word, or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def _version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from conductor_bus_start import __version__

        out(f"conductor {__version__}")
        context.exit()


@click.group(cls=Verbs, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def conductor() -> None:
    """Run a plan of tasks with several workers at once, over a message bus of plain files."""


def run_command_line(arguments: Sequence[str]) -> int:
    """Carry out one command line and return its exit code. Never raises, never prints a traceback unasked."""
    _prepare_streams()
    as_json = wants_json(arguments)
    try:
        try:
            code = _invoke(list(arguments) or ["--help"])
        except (KeyboardInterrupt, click.Abort):
            code = Exit.INTERRUPTED
        except BrokenPipeError:
            code = Exit.OK  # whoever read us has seen enough
        except Exception as error:
            code = Exit.INTERRUPTED if is_interrupt(error) else report(error, as_json=as_json)
        return _flushed(int(code))
    except BrokenPipeError:
        return int(code)


def wants_json(arguments: Sequence[str]) -> bool:
    """Tell whether errors, too, are to be JSON; asked of the bare words, because they may be the error."""
    words = list(takewhile(lambda argument: argument != "--", arguments))
    return "--json" in words or "--format=json" in words or ("--format", "json") in pairwise(words)


def _invoke(arguments: list[str]) -> int:
    for argument in arguments:
        _check_text(argument)
    try:
        with conductor.make_context("conductor", arguments) as context:
            try:
                code = conductor.invoke(context)
            except OSError as error:
                track = context.meta.get(TRACK)
                if not track or not is_shortage(error):
                    raise
                failure = describe(error)
                raise ConductorError(failure.code, failure.message, path=track, hint=failure.hint) from error
            except (ConductorError, BusError) as error:
                track = context.meta.get(TRACK)
                if isinstance(error, PlanError):
                    error.track = track
                elif track and isinstance(error, BusError) and error.path and not os.path.isabs(error.path):
                    # The bus names its own files; whoever reads this is somewhere else.
                    error.path = os.path.join(context.meta.get(BUS_DIR) or os.path.join(track, BUS_NAME), error.path)
                if track and error.hint:
                    error.hint = spoken(error.hint, track, context.meta.get(BUS_DIR))
                raise
    except click.exceptions.Exit as done:
        return done.exit_code
    return code if isinstance(code, int) else Exit.OK


def _check_text(argument: str) -> None:
    """Refuse bytes that are no text: what is asked for is recorded, and the journal is UTF-8."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        hint = "write it in UTF-8; a folder must be renamed"
        raise ConductorError("usage", "this argument is not valid UTF-8", path=argument, hint=hint) from error


def _prepare_streams() -> None:
    """Make printing safe: a closed stream swallows, a narrow encoding shows escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flushed(code: int) -> int:
    """Flush now, where an error can still be told; the interpreter would print its own at exit."""
    try:
        sys.stdout.flush()
        return code
    except OSError as error:
        silence(sys.stdout)
        if is_gone(error) or code == Exit.IO:  # nobody reads, or it was told already
            return code
        return int(report(error, as_json=False))
