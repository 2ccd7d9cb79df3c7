"""The log of CANN's Python. It goes to the host's log files, not to the terminal."""


def _nothing(*args, **kwargs):
    pass


debug = info = warn = warning = error = exception = _nothing
