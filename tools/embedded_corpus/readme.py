"""The README beside an embedded corpus: what it is, how it was made, what to compare it with."""

import collections

TEXT = """# The embedded English-{name} corpus

`en-{language}.tsv.xz` is a small parallel corpus that needs no download. Each line of the
uncompressed UTF-8 text holds `split<TAB>English<TAB>{name}`.

It is generated, but it is language: names, dates, units and plurals come from the Unicode CLDR
(written by translators, read through Babel), numbers in words from num2words{frames}.
Neither package is needed at run time.

SHA-256 of the uncompressed bytes: `{digest}`

Made with Babel {babel} and num2words {num2words} by

    python tools/make_embedded_corpus.py --target_language={language} --output=transformer/embedded

## What is comparable

A BLEU score on its test split is comparable only with another score on the same SHA-256. The
sentences are short and built from parts that training has seen, so scores are far above those
of free text: never set one beside a score on WMT. `tools/baselines.py` prints what copying the
source and what looking up the nearest training sentence score.

## Splits

Pairs are split by the hash of their content (a date, a time, a number of 100 or more, a list, or
else the combination of fillers), not of their text: two renderings of one date never lie on both
sides of train, validation and test. Weekdays, numbers below 100, words and names are closed
classes: only their combinations are held out. The atomic names are all in train. No source and no
target of another split is in train, and every source has one target.

`challenge` is no part of the headline score: it holds numbers and dates beyond the range of train,
longer lists, and sentence frames with fillers that they never have in train (a date in such a
frame may be one of train; the text never is).

| kind | {splits} |
|---|{rules}
{rows}

Words per sentence, on average: {words}.

## Left out

{dropped}

## Licence of the CLDR data

The names, dates and patterns are derived from the Unicode CLDR:

> UNICODE LICENSE V3. COPYRIGHT AND PERMISSION NOTICE. Copyright © 1991-2025 Unicode, Inc. NOTICE
> TO USER: Carefully read the following legal agreement. BY DOWNLOADING, INSTALLING, COPYING OR
> OTHERWISE USING DATA FILES, AND/OR SOFTWARE, YOU UNEQUIVOCALLY ACCEPT, AND AGREE TO BE BOUND BY,
> ALL OF THE TERMS AND CONDITIONS OF THIS AGREEMENT. IF YOU DO NOT AGREE, DO NOT DOWNLOAD,
> INSTALL, COPY, DISTRIBUTE OR USE THE DATA FILES OR SOFTWARE.
>
> Permission is hereby granted, free of charge, to any person obtaining a copy of data files and
> any associated documentation (the "Data Files") or software and any associated documentation
> (the "Software") to deal in the Data Files or Software without restriction, including without
> limitation the rights to use, copy, modify, merge, publish, distribute, and/or sell copies of
> the Data Files or Software, and to permit persons to whom the Data Files or Software are
> furnished to do so, provided that either (a) this copyright and permission notice appear with
> all copies of the Data Files or Software, or (b) this copyright and permission notice appear in
> associated Documentation.
>
> THE DATA FILES AND SOFTWARE ARE PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
> IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A
> PARTICULAR PURPOSE AND NONINFRINGEMENT OF THIRD PARTY RIGHTS. IN NO EVENT SHALL THE COPYRIGHT
> HOLDER OR HOLDERS INCLUDED IN THIS NOTICE BE LIABLE FOR ANY CLAIM, OR ANY SPECIAL INDIRECT OR
> CONSEQUENTIAL DAMAGES, OR ANY DAMAGES WHATSOEVER RESULTING FROM LOSS OF USE, DATA OR PROFITS,
> WHETHER IN AN ACTION OF CONTRACT, NEGLIGENCE OR OTHER TORTIOUS ACTION, ARISING OUT OF OR IN
> CONNECTION WITH THE USE OR PERFORMANCE OF THE DATA FILES OR SOFTWARE.
>
> Except as contained in this notice, the name of a copyright holder shall not be used in
> advertising or otherwise to promote the sale, use or other dealings in these Data Files or
> Software without prior written authorization of the copyright holder.

SPDX-License-Identifier: Unicode-3.0
"""


def count_rows(splits):
    """Returns the rows of the table of kinds: the number of pairs per split."""
    counts = {
        name: collections.Counter(pair.kind for pair in pairs) for name, pairs in splits.items()
    }
    kinds = sorted({kind for count in counts.values() for kind in count})
    rows = [
        f"| {kind} | " + " | ".join(str(counts[name][kind]) for name in splits) + " |"
        for kind in kinds
    ]
    return "\n".join(
        [*rows, "| all | " + " | ".join(f"{len(splits[name])}" for name in splits) + " |"]
    )


def readme_text(language, name, has_frames, splits, dropped, digest, versions):
    """Returns the whole README as Markdown."""
    words = ", ".join(
        f"{split} {sum(len(p.source.split()) for p in pairs) / max(len(pairs), 1):.1f}"
        for split, pairs in splits.items()
    )
    return TEXT.format(
        language=language,
        name=name,
        digest=digest,
        words=words,
        **versions,
        frames=", and sentence\nframes were written by hand" if has_frames else "",
        splits=" | ".join(splits),
        rules="---:|" * len(splits),
        rows=count_rows(splits),
        dropped="\n".join(f"- {count} × {reason}" for reason, count in sorted(dropped.items())),
    )
