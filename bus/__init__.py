"""The contract on disk: a message bus of plain files. Usable alone; imports neither conductor nor worker."""
