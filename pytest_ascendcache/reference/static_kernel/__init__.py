"""Static kernels: one binary per shape, packages that install them, and their lookup at run time.

``op_compiler`` is the command that makes packages, ``installer`` is the program inside each
package, and ``selection`` looks kernels up. The modules inside a package need only Python's
standard library; ``package`` lists them.
"""
