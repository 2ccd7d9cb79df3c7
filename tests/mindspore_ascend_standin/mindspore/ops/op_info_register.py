"""Registration of a user's operators; this stand-in needs none of it."""

from unittest.mock import MagicMock

DataType, TBERegOp = MagicMock(), MagicMock()


def op_info_register(_):
    return lambda function: function
