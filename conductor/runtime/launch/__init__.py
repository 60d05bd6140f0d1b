"""Launchers: how an attempt becomes a process."""
