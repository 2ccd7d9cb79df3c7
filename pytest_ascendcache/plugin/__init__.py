"""The face towards pytest: ``hooks`` is the entry point and imports the rest when needed."""
