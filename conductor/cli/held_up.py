"""Who stands still with the mutex of the file locks, as it is said to people."""

from __future__ import annotations


def held_up(pid: int) -> str:
    """Say what that means."""
    return f"process {pid} holds the mutex of the file locks and does not go on: nobody can lock or unlock a file"


def how_to_free(pid: int) -> str:
    """Say what to do."""
    return f"let it go on (`kill -CONT {pid}`) or end it (`kill -KILL {pid}`)"
