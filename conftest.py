"""Tests run with the plugin installed as users have it, through its entry point."""
