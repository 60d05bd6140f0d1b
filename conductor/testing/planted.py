"""Bugs to plant into the product, by name: a harness that does not find each of them is too weak."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

PLANTED: dict[str, Callable[[], AbstractContextManager[object]]] = {}
