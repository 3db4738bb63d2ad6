"""Fonts of pictures that matplotlib draws: installed ones for scripts that its own font lacks."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress

OWN = "DejaVu Sans"  # comes with matplotlib: Latin, Greek, Cyrillic, Hebrew, Arabic, …
# Of each group the first one that is installed: Chinese and Japanese; Korean; further scripts.
GROUPS = (
    "Noto Sans CJK JP, Noto Sans CJK SC, Noto Sans JP, Noto Sans SC, IPAexGothic, IPAGothic, "
    "WenQuanYi Zen Hei, WenQuanYi Micro Hei, Droid Sans Fallback, Hiragino Sans, PingFang SC, "
    "Arial Unicode MS, Unifont",
    "Noto Sans CJK KR, Noto Sans KR, NanumGothic, UnDotum, Apple SD Gothic Neo",
    "Noto Sans Devanagari, Lohit Devanagari, Kohinoor Devanagari",
    "Noto Sans Thai, Loma, Thonburi",
)


@functools.cache
def installed_fonts() -> list[str]:
    """Returns the fonts to draw text with, in the order in which glyphs are looked for."""
    from matplotlib import font_manager

    fonts = font_manager.fontManager
    listed = {font.fname for font in fonts.ttflist}  # by matplotlib, once and for all
    for path in set(font_manager.findSystemFonts()) - listed:
        with suppress(Exception):  # no font after all, in many ways
            fonts.addfont(path)
    known = {font.name for font in fonts.ttflist}
    groups = (group.split(", ") for group in GROUPS)
    found = (next((name for name in group if name in known), None) for group in groups)
    return [OWN, *filter(None, found)]


@contextmanager
def one_warning_for_missing_glyphs(*, is_shown: bool) -> Generator[None]:
    """Replaces the warnings for each missing glyph in the block by one, if `is_shown`, or none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", "Glyph .* missing")
        yield
    numbers = [re.match(r"Glyph (\d+) .*missing", str(warning.message)) for warning in caught]
    missing = {chr(int(number[1])): None for number in numbers if number}
    for warning, number in zip(caught, numbers, strict=True):
        if not number:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if missing and is_shown:
        warnings.warn(
            f"no installed font has {', '.join(list(missing)[:8])}{' …' * (len(missing) > 8)}: the "
            f"picture shows boxes. Install one that has (as the package fonts-noto-cjk), or write "
            f"an .svg, which a browser draws with its own fonts.",
            stacklevel=2,
        )
