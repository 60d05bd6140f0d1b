"""A process that is another one every moment: it forks, and ends, for 20 seconds. Its pid is old when one has read it.

hopper.py [--new-sessions]
"""

import os
import signal
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("up", "w") as file:
    file.write("up\n")
until = time.monotonic() + 20
while time.monotonic() < until:
    if os.fork():  # noqa: TID251  (there is one thread)
        os._exit(0)
    if sys.argv[1:]:
        os.setsid()
