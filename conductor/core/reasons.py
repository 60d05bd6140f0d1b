"""Why a run gave up, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from conductor.core.task import RunOptions
from conductor.core.wording import duration, plural

_REASONS: Mapping[str, str] = {
    "fail_fast": "a task failed, and --fail-fast starts nothing more then",
    "run_timeout": "the time for the whole run is up",
    "budget_exceeded": "the money for the whole run is spent",
    "waits_for_people": "only people could let the run go on, and it does not wait for them",
    "provider_limit": "its workers are held back by their provider, and the run does not wait for that",
    "unkillable": "what is left of the run cannot be ended",
}


GAVE_UP = "the run gave up: "
"""With this begins the text of a reason that does not say by itself that the run gave up."""


def gave_up_text(reason: str, options: RunOptions | None = None) -> str:
    """Say why a run gave up, where a code says it; any other reason is text already. `options` tell the limit."""
    if reason in _REASONS:
        return _REASONS[reason]
    if reason != "restart_intensity":
        return reason
    if options is None or options.restart_intensity is None:
        return f"{GAVE_UP}too many attempts failed, and none succeeded in between"
    limit, window = plural(options.restart_intensity, "failed attempt"), duration(options.restart_window)
    return f"{GAVE_UP}more than {limit} within {window}, and no success in between"


def gave_up_line(reason: str, options: RunOptions | None = None, text: str = "") -> str:
    """Say that a run gave up, why, and what comes of it; `text` is the reason in words, where it was recorded."""
    why = (text or gave_up_text(reason, options)).removeprefix(GAVE_UP)
    goes_on = "" if reason == "waits_for_people" else "; what runs goes on to its end"  # who asks them is stopped
    return f"gave up: {why}{goes_on}"
