"""Signals to whoever holds a terminal while no loop of a run has taken them over."""

from __future__ import annotations

import os
import signal

import pytest

from conductor.cli.terminal import orderly


def test_requirement_20_term_leaves_by_way_of_what_gives_the_terminal_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    given_back = []
    with pytest.raises(SystemExit) as leaving, orderly():  # noqa: PT012
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            given_back.append(True)
    assert (leaving.value.code, given_back) == (143, [True])
    assert signal.getsignal(signal.SIGTERM) is before


def test_requirement_20_a_hangup_does_nothing_and_who_ignored_it_goes_on_to() -> None:
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    with orderly():
        os.kill(os.getpid(), signal.SIGHUP)
        # What is ignored is inherited by every program that is started; a handler is not.
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with orderly():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
