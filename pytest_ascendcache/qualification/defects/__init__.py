"""Seeded defects, one module a kind of decision. The tags T1, T2, ... are faults a vendor has
(facts ``cann-operator-cache`` section 8)."""
