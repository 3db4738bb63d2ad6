"""What a run was started with, for environment.json: versions, devices, host, command, commit."""

import platform
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import transformer

PACKAGES = [
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "orbax-checkpoint",
    "numpy",
    "sacrebleu",
    "sentencepiece",
]
ROOT = Path(transformer.__file__).parents[1]


def describe_environment() -> dict[str, Any]:
    """Returns a JSON object that describes this process and its machine."""
    kinds = [device.device_kind for device in jax.devices()]
    return {
        "command": sys.orig_argv,
        "host": socket.gethostname(),
        "num_hosts": jax.process_count(),
        "devices": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {"transformer": transformer.__version__}
        | {name: version for name in PACKAGES if (version := _version(name))},
        "commit": _commit(),
    }


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _commit() -> str | None:
    """Returns the commit of the checkout, "…-dirty" if files differ; None if there is none."""
    if not (ROOT / ".git").exists():
        return None
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
        return found.stdout.strip()
    return None
