"""parts.py: what is there as a whole counts, and what others write is waited for."""

from itertools import count

import pytest
from etils import epath

from transformer.files import parts as files_parts
from transformer.files.parts import LOOK_EVERY, Parts, part_name


class Clock:
    """Stands in for the module `time`: only sleeping takes time, in which others may work."""

    now, others = 0.0, staticmethod(lambda: None)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.others()


@pytest.fixture
def parts(tmp_path):
    return Parts(epath.Path(tmp_path))


def test_what_is_finished(parts, tmp_path):
    """Catches half a part that is taken for one, and what killed writers leave for ever."""
    assert Parts(epath.Path(tmp_path / "none")).finished() == {}
    parts.write(part_name(3, "arrow"), b"whole")
    parts.write(part_name(1_234_567, "0badcafe"), "more than six digits")
    parts.write("header.json", "{}")
    half = tmp_path / f"{part_name(4, 'arrow')}.1f2e.tmp"
    half.write_bytes(b"ha")
    assert parts.finished() == {3: "arrow", 1_234_567: "0badcafe"}
    parts.remove_unfinished()
    assert not half.exists() and len(list(tmp_path.iterdir())) == 3
    parts.remove()
    assert not tmp_path.exists()


def test_parts_of_others_are_waited_for_while_they_come(parts, monkeypatch):
    """Catches a wait that ends although parts come, and one that never ends."""
    monkeypatch.setattr(files_parts, "time", clock := Clock())
    patience, looks = 10 * LOOK_EVERY, count(1)

    def write_sometimes():
        number, rest = divmod(next(looks), 5)
        if rest == 0 and number <= 4:
            parts.write(part_name(number - 1, "arrow"), b"")

    clock.others = write_sometimes
    assert parts.wait_for({*range(6)}, patience, "waiting") == {4, 5}
    assert 20 * LOOK_EVERY + patience <= clock.now < 40 * LOOK_EVERY
    assert parts.wait_for({0, 1}, 0.0, "waiting") == set()
