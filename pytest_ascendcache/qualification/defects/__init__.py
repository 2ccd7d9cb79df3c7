"""Seeded defects, one module for each kind of decision. The tags T1, T2, ... are faults of a vendor
(facts ``cann-operator-cache``, section 8)."""
