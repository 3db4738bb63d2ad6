"""A stream that is a terminal."""

import io

from transformer.console import ERASE, UNWRAPPED


class TerminalBytes(io.BytesIO):
    """Collects what is written to the bytes of a terminal."""

    def isatty(self):
        return True


class Terminal(io.StringIO):
    """Collects what is written to a terminal."""

    def isatty(self):
        return True

    def row(self):
        """What the last row shows."""
        row = self.getvalue().rpartition("\n")[2].rpartition(ERASE)[2]
        before, after = UNWRAPPED.split("{}")
        return row.removeprefix(before).removesuffix(after)
