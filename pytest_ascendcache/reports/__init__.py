"""One stream of verdict records, and the writers that show it. No verdict is derived twice."""
