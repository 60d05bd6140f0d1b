"""The one form of a time that people read."""

from __future__ import annotations

import time


def utc(wall: float | None = None) -> str:
    """ISO 8601 in UTC with milliseconds and `Z`, of `wall` seconds since the epoch, or of now."""
    whole, millis = divmod(round((time.time() if wall is None else wall) * 1000), 1000)
    year, month, day, hour, minute, second = time.gmtime(whole)[:6]
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}.{millis:03d}Z"
