"""MindSpore's published wheel as two toolchains: its operator cache and its graph cache."""
