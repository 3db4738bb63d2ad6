"""The live line: one row of a terminal, plain lines elsewhere."""

import io

import pytest

from tests.helpers.terminal import ERASE, Terminal
from transformer.terminal import LiveLine, cut, escaped, write_any_character


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("step 1", 6, "step 1"),
        ("step 12", 6, "step…"),
        ("翻訳中です", 10, "翻訳中です"),
        ("翻訳中です", 9, "翻訳中で…"),
        ("翻訳中です", 8, "翻訳中…"),
        ("e\u0301" * 4, 4, "e\u0301" * 4),
    ],
)
def test_a_line_is_cut_to_the_width(text, width, shown):
    """Catches wide characters counted as one column, and accents counted at all."""
    assert cut(text, width) == shown


def test_a_row_never_wraps(monkeypatch):
    """Catches a line that is longer than the terminal, of which each report leaves a row behind."""
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    line = LiveLine(stream)
    for step in (1, 2):
        line.show(f"step {step}  " + 60 * "x")
        line.note("validating")
    assert len(stream.row()) < 40 and "\n" not in stream.getvalue()
    line.say("done")
    *_, kept, last, row = stream.getvalue().split("\n")
    assert kept.rpartition("K")[2].startswith("step 2") and len(kept.rpartition("K")[2]) < 40
    assert (last, row.rpartition("K")[2]) == ("done", "validating")


def test_lines_of_a_file_have_dates_where_a_command_asks_for_it():
    """Catches a log of a cluster that cannot say when a run stalled."""
    stream = io.StringIO()
    line = LiveLine(stream)
    line.show("plain")
    line.has_stamps = True
    line.say("one\ntwo")
    plain, *stamped = stream.getvalue().splitlines()
    assert plain == "plain"
    assert [(text[4], text[13], text[19:]) for text in stamped] == [
        ("-", ":", " one"),
        ("-", ":", " two"),
    ]


def test_a_terminal_that_has_gone_ends_nothing():
    """Catches a run that ends because its terminal was closed."""
    stream = io.StringIO()
    line = LiveLine(stream)
    stream.close()
    line.show("step 1")
    line.say("done")


HOSTILE = "a\x1b]0;title\x07 \r over \x9b2J \u202etxt.exe\u2066 \x7f \udc9b b"
RAW = set(HOSTILE) - set(escaped(HOSTILE))


def test_texts_cannot_command_a_terminal():
    """Catches sentences and names that clear the screen, rewrite a line or turn its order."""
    assert set("\x1b\x07\r\x9b\u202e\u2066\x7f\udc9b") == RAW
    assert escaped("a\tb\n\u200fשלום 👩\u200d🔬 e\u0301") == "a\tb\n\u200fשלום 👩\u200d🔬 e\u0301"
    for stream in (Terminal(), io.StringIO()):
        line, log = LiveLine(stream), []
        line.log = log.append
        for use in (line.say, line.show, line.note, line.remark):
            use(HOSTILE)
        line.close()
        assert not RAW & set(stream.getvalue().replace(ERASE, "") + "".join(log))
        assert "\\x1b]0;title\\x07 \\r over" in stream.getvalue()


def test_a_name_with_a_line_break_stays_in_its_row():
    """Catches a phase whose name leaves a row behind at each tick."""
    stream = Terminal()
    LiveLine(stream).note("restoring a\nb")
    assert "\n" not in stream.getvalue() and stream.row() == "restoring a\\nb"


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("ascii", b"2+-1 1-2 ... \\xe4 \\u8a9e \xc3"),
        ("latin-1", b"2\xb11 1-2 ... \xe4 \\u8a9e \xc3"),
        ("utf-8", "2±1 1–2 … ä 語 ".encode() + b"\xc3"),
    ],
)
def test_a_terminal_gets_what_its_encoding_has(encoding, written):
    """Catches scores that are lost for a "±", and file names that come out as others."""
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding, write_through=True)
    write_any_character(stream)
    stream.write("2±1 1–2 … ä 語 \udcc3")
    assert file.getvalue() == written
    write_any_character(None)  # closed
