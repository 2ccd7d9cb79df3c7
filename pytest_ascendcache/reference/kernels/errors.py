"""Errors of the kernel compiler. Each message is one sentence for the user."""


class KernelError(ValueError):
    """A kernel cannot be built as requested. Any step of a build may raise it."""


class UnsupportedOperator(KernelError):
    """The compiler does not support the operator's type, a data type, a shape or an attribute."""


class UnsupportedSoc(KernelError):
    """The SoC or the machine architecture is not in the table of targets."""
