"""Decisions: pure state machines that take an event and the time and return instructions. Nothing here does IO."""
