"""Optional libraries: those that only models of other systems need."""

from importlib import import_module
from types import ModuleType

from transformer.files.reading import TransientError


def require(name: str) -> ModuleType:
    """Returns the module of that name; raises TransientError if its library is not installed."""
    try:
        return import_module(name)
    except ImportError:
        library = name.partition(".")[0]
        raise TransientError(f"This needs {library}: pip install -e '.[interop]'.") from None
