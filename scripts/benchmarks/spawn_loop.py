"""The floor: a bare Python loop that keeps five commands running. spawn_loop.py COUNT COMMAND…"""

import os
import sys

count, command = int(sys.argv[1]), sys.argv[2:]
running = 0
for _ in range(count):
    if running == 5:
        os.wait()
        running -= 1
    os.posix_spawn(command[0], command, os.environ)
    running += 1
while running:
    os.wait()
    running -= 1
