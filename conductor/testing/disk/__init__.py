"""A file system in memory that crashes, loses power and fills up: a double of `bus._fs.FileSystem`.

Its processes are the doubles; each is given to what a real process would run (`open_host(…, fs=process)`).
"""

from conductor.testing.disk.calls import Killed, ModelProcess
from conductor.testing.disk.faults import Faults
from conductor.testing.disk.model import ModelDisk

__all__ = ["Faults", "Killed", "ModelDisk", "ModelProcess"]
