"""What tests could leave to each other in their process, and how it is put back.

pytest itself puts back the filters of warnings and `warnings.showwarning`.
"""

import logging
import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from transformer import console
from transformer.registry import REGISTRIES

OF_PYTEST = "PYTEST_CURRENT_TEST"  # names the part of a test that runs
OF_LIBRARIES = "KMP_"  # begins what scikit-learn sets when it is imported, for OpenMP
OF_SYS = "argv", "path", "excepthook", "unraisablehook"
OF_LOGGERS = "level", "propagate", "disabled", "handlers", "filters"
OF_CONSOLE = "has_stamps", "is_silent", "shows_phases", "log", "_phases", "_text", "_row"
SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXFSZ


def attributes():
    """[(owner, name, value)] of the attributes that tests may change."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    loggers = [logger for logger in loggers if isinstance(logger, logging.Logger)]
    names = {sys: OF_SYS, console.live_line: OF_CONSOLE} | dict.fromkeys(loggers, OF_LOGGERS)
    found = [(owner, name, getattr(owner, name)) for owner in names for name in names[owner]]
    return [(o, name, value[:] if isinstance(value, list) else value) for o, name, value in found]


def restore_attributes(before):
    """Sets those that differ; lists stay the same objects."""
    for owner, name, value in before:
        now = getattr(owner, name)
        if now == value:
            continue
        if isinstance(value, list) and isinstance(now, list):
            now[:] = value
        elif name == "level":
            owner.setLevel(value)  # which forgets what loggers below it remember
        else:
            setattr(owner, name, value)


def environment():
    """The variables of the environment that tests may change."""
    found = os.environ.items()
    return {k: v for k, v in found if k != OF_PYTEST and not k.startswith(OF_LIBRARIES)}


def restore_environment(before):
    """Sets and removes only what differs, as threads may read the others."""
    now = environment()
    for name in now.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before.items() - now.items())


def jax_settings():
    """The values of jax.config; nothing before JAX is imported."""
    jax = sys.modules.get("jax")
    return dict(jax.config.values) if jax else {}


@contextmanager
def own_names():
    """Forgets, at the end of the block, what was registered in it."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(patch.dict(registry.data))
        yield


def kept_state():
    """Puts back what was changed while this generator was waiting."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    before, variables, settings = attributes(), environment(), jax_settings()
    folder = os.getcwd()
    with own_names():
        yield
    restore_attributes(before)
    restore_environment(variables)
    for name, value in jax_settings().items():
        if name in settings and settings[name] != value:
            sys.modules["jax"].config.update(name, settings[name])
    os.chdir(folder)
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)
