"""The README beside an embedded corpus: what it is, how it was made, what to compare it with."""

import collections
from pathlib import Path

TEXT = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")


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
