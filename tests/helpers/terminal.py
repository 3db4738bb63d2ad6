"""A stream that is a terminal."""

import io

from transformer.console import ERASE, UNWRAPPED


def without_commands_of_row(text):
    """A text without what the live row commands the terminal."""
    for command in (ERASE, *UNWRAPPED.split("{}")):
        text = text.replace(command, "")
    return text


class TerminalBytes(io.BytesIO):
    """Collects what is written to the bytes of a terminal."""

    def isatty(self):
        return True


class Terminal(io.StringIO):
    """Collects what is written to a terminal."""

    isatty = TerminalBytes.isatty

    def row(self):
        """What the last row shows."""
        row = self.getvalue().rpartition("\n")[2].rpartition(ERASE)[2]
        before, after = UNWRAPPED.split("{}")
        return row.removeprefix(before).removesuffix(after)
