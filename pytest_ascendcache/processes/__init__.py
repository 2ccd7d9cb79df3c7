"""Starting, guarding and ending other processes."""
