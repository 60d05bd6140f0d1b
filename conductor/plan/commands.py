"""Commands are argument lists. A string is split as a shell would split it, and never given to one."""

from __future__ import annotations

import re
import shlex

HINT = 'For a shell, say so: ["sh", "-c", "…"]; otherwise put the character in quotes.'
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class CommandError(ValueError):
    """A string that is not one plain command; `hint` says what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line into arguments.

    Raises CommandError where it is empty, has an open quote, or means something only to a shell: an unquoted
    `&& | ; > < &` or backtick, `$(`, a line break, or a variable set in front.
    """
    token = _shell_token(text)
    if token is not None:
        raise CommandError(f"{token} means something only to a shell, and no shell is used", HINT)
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
