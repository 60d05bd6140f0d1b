"""A machine at hand for every core test; when the test is over its invariants hold and a replay equals it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conductor.core import invariants
from conductor.testing import Play


@pytest.fixture
def play() -> Iterator[Play]:
    """A machine; at the end of the test its invariants hold and the replay of its journal equals it."""
    one = Play()
    yield one
    invariants.check(one.machine.state)
    assert one.replayed().digest() == one.machine.digest()
