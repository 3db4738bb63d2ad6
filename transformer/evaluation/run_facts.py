"""Where a run comes from: its settings, and when, with what and on what it was trained."""

import shlex
from dataclasses import dataclass, field
from typing import Any

from transformer.config import Config
from transformer.console import quantity
from transformer.workdir import WorkDir


@dataclass(frozen=True)
class RunFacts:
    """What a report says of a run besides its scores.

    settings: {flag: (value, default)} of those that have not their default. starts: the records of
    environment.json, one for each start of the training; none in folders of version 0.1.
    """

    settings: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    starts: list[dict[str, Any]] = field(default_factory=list)

    def origin(self) -> dict[str, str]:
        """Returns {what: text} of the last start, with the command of the first.

        Empty if none is known.
        """
        if not self.starts:
            return {}
        last = self.starts[-1]
        devices = [f"{count} × {kind}" for kind, count in last.get("devices", {}).items()]
        versions = {"Python": last.get("python", "?"), **last.get("packages", {})}
        facts = {
            "started": f"{last['time']}, {quantity(len(self.starts), 'start')}",
            "devices": f"{', '.join(devices)} on {quantity(last.get('num_hosts', 1), 'host')}",
            "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
            "commit": last.get("commit") or "",
            "command": shlex.join(self.starts[0].get("command", [])),  # which had the settings
        }
        return {name: text for name, text in facts.items() if text}


def read_facts(workdir: WorkDir) -> RunFacts:
    """Returns the facts of the run in a work directory; none of a folder without a run."""
    if not workdir.has_run:
        return RunFacts()
    config, defaults = workdir.load_config(), Config()
    differences = config.differences(defaults)
    settings = {f"--config.{name}": pair for name, pair in differences.items()}
    return RunFacts(settings, workdir.read_starts())
