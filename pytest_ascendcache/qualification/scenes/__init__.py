"""Seeded faulty files, one module a suite that judges files."""
