"""Command-line options: how they are declared, checked, and read into one value."""
