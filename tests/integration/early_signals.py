"""Runs the program again and again, each time struck by a signal at another moment, and says how each run ended.

Arguments: the folder of the program, cases as JSON, the command line. A case is [signal, moment, times]: at the
`times`-th call of a function named `moment`, or at the `times`-th module that is looked for where it is "import". Each
run is forked from here, where nothing of the program is loaded yet. Prints a list of [code, stderr].
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from types import FrameType
from typing import Any


def strike(number: int, moment: str, times: int) -> None:
    """Arrange for the signal."""
    left = times

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), number)

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name == moment:
            count()

    class Finder:
        def find_spec(self, *_: Any) -> None:
            count()

    if moment == "import":
        sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
    else:
        sys.setprofile(called)


def run(home: str, case: tuple[int, str, int], words: list[str], out: int, err: int) -> None:
    """Be the program."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    sys.path.insert(0, home)
    sys.argv[:] = ["conductor", *words]
    import conductor_bus_start

    strike(*case)
    conductor_bus_start.main()


def main() -> None:
    """Run all cases, with the signals as a shell in a terminal would have them, whoever started us."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    home, cases, *words = sys.argv[1:]
    ends = []
    for case in json.loads(cases):
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()  # noqa: TID251  (there is one thread)
            if child == 0:
                run(home, case, words, out.fileno(), err.fileno())
            _, status = os.waitpid(child, 0)
            err.seek(0)
            ends.append([os.waitstatus_to_exitcode(status), err.read().decode()])
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
