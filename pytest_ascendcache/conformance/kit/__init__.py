"""What the suite's checks are written with."""
