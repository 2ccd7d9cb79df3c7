"""CANN's own cache code, built from its public sources and put behind an atc-compatible command."""
