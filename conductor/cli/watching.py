"""`status --watch`: the screen of a run, from another terminal."""

from __future__ import annotations

import sys
from functools import partial

from conductor.cli.holder import how_to_wake, is_suspended
from conductor.cli.load import OPEN_STATES, Loaded, load
from conductor.cli.polling import pause
from conductor.cli.screen_live import LiveScreen
from conductor.cli.supervised import for_people
from conductor.cli.terminal import orderly
from conductor.cli.track import Track
from conductor.runtime.clock import SystemClock

LOOK_EVERY = 0.5


def watch_run(track: Track, loaded: Loaded) -> None:
    """Show the run until it ends or nobody runs it any more."""
    clock = SystemClock()
    with orderly(), LiveScreen(sys.stdout, track, loaded.reader, own=False) as screen:
        screen.start(clock.stamp().mono)
        screen.lines(for_people(track, loaded))
        rest = LOOK_EVERY
        asleep = False
        while loaded.view.state in OPEN_STATES:
            pause(rest)
            records = list(loaded.reader.records(loaded.last_seq))
            holder = loaded.reader.holder()
            if holder is not None and asleep is not is_suspended(holder):
                asleep = not asleep
                screen.note(f"the conductor is suspended; {how_to_wake(holder)}" if asleep else "the conductor goes on")
            if records or holder is None:
                begun = clock.monotonic()
                loaded = load(loaded.reader)
                rest = max(LOOK_EVERY, 10 * (clock.monotonic() - begun))  # a long journal is read less often
            screen.update(partial(getattr, loaded, "view"), records, clock.stamp().mono)
        screen.close(loaded.view, 0)
