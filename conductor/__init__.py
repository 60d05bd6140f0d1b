"""Runs a plan of tasks: `cli` over `runtime` over the pure `core`."""
