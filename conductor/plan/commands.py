"""Commands are argument lists. A string is split as a shell would split it, and never given to one."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "ash"))
_SCRIPT_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_VARIABLE = re.compile(r"\$[A-Za-z_{]")
_MOST_SHOWN = 100
"""Characters of a command that a hint repeats."""


class CommandError(ValueError):
    """A string that is not one plain command; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str, *, needs_shell: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.needs_shell = needs_shell
        """Whether a shell could run it."""


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line into arguments.

    Raises CommandError where it is empty, has an open quote, or means something only to a shell: an unquoted
    `&& | ; > < &` or backtick, `$(`, a line break, or a variable set in front.
    """
    token = _shell_token(text)
    if token is not None:
        message = f"{token} means something only to a shell, and no shell is used"
        raise CommandError(message, shell_hint("run", text), needs_shell=True)
    try:
        arguments = tuple(shlex.split(text))
    except ValueError as error:
        raise CommandError(f"the command cannot be split: {error}", "Close the quote.") from None
    if not arguments or not arguments[0]:
        raise CommandError("the command is empty", 'Write an argument list, such as ["make", "test"].')
    if _ASSIGNMENT.match(arguments[0]):
        name = arguments[0].partition("=")[0]
        raise CommandError(
            f"{name}=… in front of a command means something only to a shell", f"Set it in env: {{{name}: …}}."
        )
    return arguments


def shell_hint(key: str, text: str) -> str:
    """Say how `key` (`run` or `verify`) gives the text to a shell."""
    command = as_list(("sh", "-c", text if "\n" not in text.strip() else "…"))
    value = f"[{command}]" if key == "verify" else command
    return f"For a shell, say so: {key}: {value}; otherwise put the character in quotes."


def as_list(arguments: Sequence[str]) -> str:
    """Write a command as the list that a plan wants; what is long is cut."""
    shown = (word.strip() if len(word) <= _MOST_SHOWN else "…" for word in arguments[:8])
    return json.dumps([*shown, *("…" for _ in arguments[8:9])], ensure_ascii=False)


def unread_variable(arguments: Sequence[str]) -> bool:
    """Whether an argument names a `$VARIABLE` and is not a script that some shell gets."""
    scripts = {script for at in range(len(arguments)) if (script := _script_of(arguments, at)) is not None}
    return any(_VARIABLE.search(word) for at, word in enumerate(arguments) if at not in scripts)


def _script_of(arguments: Sequence[str], at: int) -> int | None:
    """Return the place of the script where the argument `at` is a shell that is given one by `-c`."""
    if posixpath.basename(arguments[at]) not in _SHELLS:
        return None
    place = at + 1
    while place < len(arguments) - 1 and arguments[place].startswith(("-", "+")):
        if _SCRIPT_OPTION.fullmatch(arguments[place]):
            return place + 1
        place += 2 if arguments[place].endswith("o") else 1  # -o pipefail
    return None


def _shell_token(text: str) -> str | None:
    """Return the first thing in the text that only a shell would act on."""
    quote = ""
    at = 0
    text = text.strip()
    while at < len(text):
        char = text[at]
        if char == "\\" and quote != "'":
            at += 2
            continue
        if quote != "'" and (char == "`" or text.startswith("$(", at)):
            return "a backtick" if char == "`" else "$("
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
        elif not quote and char in "&|;<>\n":
            pair = text[at : at + 2]
            return "a line break" if char == "\n" else pair if pair in ("&&", "||", ">>", "<<") else char
        at += 1
    return None
