"""Optional libraries: those that only some models or corpora need."""

from importlib import import_module
from types import ModuleType

from transformer.files.reading import TransientError


def require(name: str, extra: str = "interop") -> ModuleType:
    """Returns a module; raises TransientError, which names the extra, if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        library = name.partition(".")[0]
        raise TransientError(f"This needs {library}: pip install -e '.[{extra}]'.") from None
