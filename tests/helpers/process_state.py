"""What tests could leave to each other in their process, and how it is put back.

pytest itself puts back the filters of warnings and `warnings.showwarning`.
"""

import logging
import os
import signal
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from transformer import console
from transformer.registry import REGISTRIES

OF_PYTEST = "PYTEST_CURRENT_TEST"  # names the part of a test that runs
OF_LIBRARIES = "KMP_"  # begins what scikit-learn sets when it is imported, for OpenMP
OF_SYS = "argv", "path", "excepthook", "unraisablehook"
OF_LOGGERS = "level", "propagate", "disabled", "handlers", "filters"
OF_CONSOLE = "has_stamps", "is_silent", "shows_phases", "log", "_phases", "_text", "_row"
SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXFSZ


def attributes() -> dict[tuple[Any, str], Any]:
    """Returns the values of attributes that tests may change, by object and name."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    names = {
        sys: OF_SYS,
        console.live_line(): OF_CONSOLE,
        **{logger: OF_LOGGERS for logger in loggers if isinstance(logger, logging.Logger)},
    }
    places = [(owner, name) for owner, names in names.items() for name in names]
    values = [getattr(owner, name) for owner, name in places]
    copies = [value[:] if isinstance(value, list) else value for value in values]
    return dict(zip(places, copies, strict=True))


def restore_attributes(before: dict[tuple[Any, str], Any]) -> None:
    """Sets those that differ; lists stay the same objects."""
    for (owner, name), value in before.items():
        now = getattr(owner, name)
        if now == value:
            continue
        if isinstance(value, list) and isinstance(now, list):
            now[:] = value
        elif name == "level":
            owner.setLevel(value)  # which forgets what loggers below it remember
        else:
            setattr(owner, name, value)


def environment() -> dict[str, str]:
    """Returns the variables of the environment that tests may change."""
    found = os.environ.items()
    return {k: v for k, v in found if k != OF_PYTEST and not k.startswith(OF_LIBRARIES)}


def restore_environment(before: dict[str, str]) -> None:
    """Sets and removes only what differs, as threads may read the others."""
    now = environment()
    for name in now.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before.items() - now.items())


def jax_settings() -> dict[str, Any]:
    """Returns the values of jax.config; nothing before JAX is imported."""
    jax = sys.modules.get("jax")
    return dict(jax.config.values) if jax else {}


def restore_jax_settings(before: dict[str, Any]) -> None:
    """Sets those that differ."""
    for name, value in jax_settings().items():
        if name in before and before[name] != value:
            sys.modules["jax"].config.update(name, before[name])


@contextmanager
def own_names() -> Generator[None]:
    """Forgets, at the end of the block, what was registered in it."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(patch.dict(registry._registered))
        yield


def kept_state() -> Generator[None]:
    """Puts back what was changed while this generator was waiting."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before = attributes(), environment(), jax_settings()
    folder = os.getcwd()
    with own_names():
        yield
    restore_attributes(before[0])
    restore_environment(before[1])
    restore_jax_settings(before[2])
    os.chdir(folder)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
