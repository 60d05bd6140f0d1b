"""The thin shell around the core: the one loop, the launchers, the clock."""
