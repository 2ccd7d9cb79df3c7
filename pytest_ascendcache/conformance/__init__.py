"""The suite: one short check after the other, in the order the documents promise things.

Checks name a rule, compile, and compare an outcome. They know no concrete toolchain.
"""
