"""Levels of CANN's log, which writes nothing here."""


class AscendLog:
    """Takes any level."""

    def set_level(self, module, level, event):
        pass
