"""Why a run of atc did not take its kernels from the cache: found out by experiment.

This room runs the user's own command on copies of the cache. The kernels of a copy are marked, so
the delivered files show which of them were served.
"""
