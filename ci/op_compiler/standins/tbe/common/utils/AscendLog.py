"""The levels of CANN's log, which writes nothing here."""


class AscendLog:
    """Accepts any level."""

    def set_level(self, module, level, event):
        pass
