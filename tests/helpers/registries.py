"""Names that a test registers and that the next test does not know."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from transformer.registry import REGISTRIES


@contextmanager
def own_names() -> Generator[None]:
    """Forgets, at the end of the block, what was registered in it."""
    with ExitStack() as stack:
        for registry in REGISTRIES:
            stack.enter_context(patch.dict(registry._registered))
        yield
