"""The client's errors."""


class StaticKernelError(Exception):
    """Static kernels cannot be made. The text says what is wrong, and what to set instead.

    Any step of a client may raise it.
    """


class CardsError(StaticKernelError):
    """The cards cannot go on together: one of them failed, is missing, or has other settings."""
