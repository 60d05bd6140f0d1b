"""Who gives an order."""

from __future__ import annotations

import getpass


def operator() -> str:
    """Return the name of the user; `operator` where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"
