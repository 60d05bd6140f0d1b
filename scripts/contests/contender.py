"""The command of a task in a contest: locks random sets of files, over and over, and proves that it holds them alone.

    contender.py FOLDER FILES HOLD

FILES are locked 1 to 5 at a time until there is FOLDER/end, each time for up to HOLD seconds. Who
holds a file has a witness in FOLDER/witnesses: a name that only one can make, with its maker's identity in it. One that
is there already is a clash, unless its maker is dead. FOLDER/ledger gets one line for each turn, with one write:
`turn TASK ATTEMPT WAITED`, `clash TASK ATTEMPT PID FILE` or `starved TASK ATTEMPT`.
"""

import os
import random
import select
import sys
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bus.client import Client
from bus.errors import WaitTimedOut
from bus.process import look

PATIENCE = 60.0
"""Seconds that nobody may have to wait for a lock."""


class Contender:
    """One attempt of one task."""

    def __init__(self, folder: str) -> None:
        self.name = f"{os.environ['CONDUCTOR_TASK_ID']} {os.environ['CONDUCTOR_ATTEMPT']}"
        self._witnesses = os.path.join(folder, "witnesses")
        self._ledger = os.open(os.path.join(folder, "ledger"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._identity = os.path.join(folder, "identities", os.environ["CONDUCTOR_ATTEMPT"])
        me = look(os.getpid())
        assert me is not None
        with open(self._identity, "w", encoding="ascii") as file:
            file.write(f"{me.pid} {me.start_ticks}")

    def note(self, word: str, *rest: object) -> None:
        """Append a line to the ledger."""
        os.write(self._ledger, (" ".join([word, self.name, *map(str, rest)]) + "\n").encode())

    def enter(self, file: str) -> None:
        """Make the witness of a file."""
        witness = os.path.join(self._witnesses, file)
        while True:
            try:
                os.link(self._identity, witness)
                return
            except FileExistsError:
                if other := self._living(witness):
                    self.note("clash", other, file)
                    return
                os.unlink(witness)

    def leave(self, file: str) -> None:
        """Remove the witness of a file."""
        os.unlink(os.path.join(self._witnesses, file))

    @staticmethod
    def _living(witness: str) -> str:
        """Return who made a witness, if that process still lives; else nothing."""
        try:
            with open(witness, encoding="ascii") as file:
                pid, ticks = file.read().split()
        except FileNotFoundError:
            return f"somebody who has just left {witness}"
        info = look(int(pid))
        return pid if info is not None and not info.dead and info.start_ticks == int(ticks) else ""


def main() -> None:
    """Contend until it is over."""
    folder, files, hold = sys.argv[1:]
    contender = Contender(folder)
    chance = random.Random(os.environ["CONDUCTOR_ATTEMPT"])
    names = [f"file-{number}" for number in range(int(files))]
    with Client.from_environment() as client:
        while not os.path.exists(os.path.join(folder, "end")):
            wanted = chance.sample(names, chance.randint(1, 5))
            asked = time.monotonic()
            try:
                held = client.lock(*wanted, timeout=PATIENCE)
            except WaitTimedOut:
                contender.note("starved")
                continue
            with held:
                contender.note("turn", f"{time.monotonic() - asked:.3f}")
                for name in wanted:
                    contender.enter(name)
                select.select([], [], [], chance.uniform(0.0, float(hold)))
                for name in wanted:
                    contender.leave(name)


if __name__ == "__main__":
    main()
