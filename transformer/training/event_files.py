"""TensorBoard's event files, in a folder or in an object store."""

import warnings

from tensorboardX import SummaryWriter
from tensorboardX.record_writer import register_writer_factory

from transformer.storage import GrowingObject, is_remote
from transformer.workdir import WorkDir


def make_event_writer(workdir: WorkDir, first_step: int) -> SummaryWriter:
    """Returns a writer into a work directory; TensorBoard forgets events from `first_step` on."""
    if is_remote(workdir.path):
        register_writer_factory("gs", _EventsObjectFactory())
    return SummaryWriter(str(workdir.path), purge_step=first_step, write_to_disk=workdir.writes)


class _EventsObject(GrowingObject):
    """Events in an object store, rewritten whole every two minutes.

    tensorboardX's own writer ends its thread at the first failure, and then training waits for
    that thread for ever.
    """

    def flush(self) -> None:
        try:
            super().flush()
        except Exception as error:
            warnings.warn(f"the events for TensorBoard were not written: {error}", stacklevel=2)

    close = flush


class _EventsObjectFactory:
    """What tensorboardX asks of a kind of storage."""

    open = _EventsObject

    def directory_check(self, path: str) -> None:
        """Does nothing: an object store has no directories to make."""
