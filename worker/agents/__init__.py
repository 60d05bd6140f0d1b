"""One pure adapter per kind of agent. The plain command is the adapter that always works."""
