"""The environment of an attempt's command. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from bus.wire import WorkerSpec

AGENT_MARKERS = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"})
"""Variables by which an agent tells its children that they run inside it. Ours must not believe that."""

OWN_PREFIX = "CONDUCTOR_"


def command_environment(inherited: Mapping[str, str], spec: WorkerSpec) -> dict[str, str]:
    """Return the whole environment of the command of `spec`.

    What is inherited, without the CONDUCTOR_* of an outer run and the markers of a surrounding agent session, and with
    `env_keep` only what one of its globs names; over it `spec.env`. CONDUCTOR_NONCE is always there, because
    processes that escaped from the tree are recognised by it.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(OWN_PREFIX) and name not in AGENT_MARKERS and _wanted(name, spec)
    }
    return {**kept, "CONDUCTOR_NONCE": spec.nonce, **spec.env}


def _wanted(name: str, spec: WorkerSpec) -> bool:
    return spec.env_keep is None or any(fnmatchcase(name, glob) for glob in spec.env_keep)
