"""MindSpore's Ascend releases, with stand-ins for CANN, as one toolchain."""
