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

# The part of a test that runs, and what scikit-learn sets for OpenMP when it is imported.
NOT_KEPT = "PYTEST_CURRENT_TEST", "KMP_"
OF_SYS = "argv", "path", "excepthook", "unraisablehook"
OF_LOGGERS = "level", "propagate", "disabled", "handlers", "filters"
OF_CONSOLE = "has_stamps", "is_silent", "shows_phases", "log", "_phases", "_text", "_row"
SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGXFSZ


def attributes():
    """[(owner, name, value)] of the attributes that tests may change."""
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    loggers = [logger for logger in loggers if isinstance(logger, logging.Logger)]
    names = {sys: OF_SYS, console.live_line: OF_CONSOLE} | dict.fromkeys(loggers, OF_LOGGERS)
    every = [(owner, name, getattr(owner, name)) for owner in names for name in names[owner]]
    return [(o, name, value[:] if isinstance(value, list) else value) for o, name, value in every]


def restore_attributes(before):
    """Sets those that differ; lists stay the same objects."""
    for owner, name, value in before:
        now = getattr(owner, name)
        if now != value and name == "level":
            owner.setLevel(value)  # which forgets what loggers below it remember
        elif now != value and isinstance(value, list):
            now[:] = value
        elif now != value:
            setattr(owner, name, value)


def environment():
    """The variables of the environment that tests may change."""
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_KEPT)}


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
    with ExitStack() as stack:
        stack.callback(os.chdir, os.getcwd())
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
        before, variables, settings = attributes(), environment(), jax_settings()
        with own_names():
            yield
        restore_attributes(before)
        now = environment()  # threads may read what does not differ
        for name in now.keys() - variables.keys():
            del os.environ[name]
        os.environ.update(variables.items() - now.items())
        for name, value in settings.items() - jax_settings().items():
            sys.modules["jax"].config.update(name, value)
