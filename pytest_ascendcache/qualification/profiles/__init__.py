"""Profiles: bundles of seeded defects that behave as a vendor's toolchain does."""
