"""The parts of the whole-system simulation: `conductor.testing.simulation` puts them together."""
