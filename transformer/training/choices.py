"""A configuration whose automatic settings are chosen one after the other, each with a reason."""

from collections.abc import Iterable
from typing import Any

from transformer.config import Config


class Choices:
    """A copy of a configuration that is completed; what it sets already stays as it is.

    config: the configuration so far. reasons: why each value was chosen, by the setting's name.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.reasons: dict[str, str] = {}
        self._automatic = frozenset(config.automatic_settings())

    def is_open(self, *names: str) -> bool:
        """Whether any of these settings is to be chosen."""
        return not self._automatic.isdisjoint(names)

    def set(self, name: str, value: Any, reason: str) -> None:
        """Gives an automatic setting a value, for the first time or anew."""
        if name in self._automatic:
            self.config = self.config.with_values({name: value})
            self.reasons[name] = reason

    def take(self, names: Iterable[str], run: Config, reason: str) -> None:
        """Gives automatic settings the values that they have in another run, for good."""
        for name in self._automatic.intersection(names):
            self.set(name, run.values()[name], reason)
        self._automatic = self._automatic.difference(names)

    def copy(self) -> "Choices":
        """Returns choices to try out, which leave these as they are."""
        other = Choices(self.config)
        other._automatic, other.reasons = self._automatic, dict(self.reasons)
        return other

    def lines(self) -> list[str]:
        """Returns the block of the start-up summary: each setting, its value and the reason."""
        values = self.config.values()
        rows = [(name, format_value(values[name]), why) for name, why in self.reasons.items()]
        widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
        heads = ["chosen", *[""] * len(rows)]
        return [
            f"{head:<12}{name:<{widths[0]}}  {value:<{widths[1]}}  {why}"
            for head, (name, value, why) in zip(heads, rows, strict=False)
        ]


def format_value(value: Any) -> str:
    """Formats a setting's value for people: "3,000", "0.0039", "en"."""
    return f"{value:,}" if isinstance(value, int) else str(value)
