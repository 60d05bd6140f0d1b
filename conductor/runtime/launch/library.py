"""Where the library is installed that locking takes. Workers start without any, as most of them need none."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec


@cache
def library_folder() -> str:
    """Return the folder to import `filelock` from; empty where it is not installed."""
    spec = find_spec("filelock")
    return os.path.dirname(os.path.dirname(spec.origin)) if spec is not None and spec.origin else ""
