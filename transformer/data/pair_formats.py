"""What a line of a file with both sides of a pair looks like: .tsv and .jsonl."""

import json
from contextlib import suppress
from dataclasses import dataclass


def parse_tsv(line: str) -> tuple[str, str]:
    """Returns the pair of a line SOURCE<tab>TARGET; raises ValueError, whose text begins "must"."""
    row = line.split("\t")
    if len(row) != 2:
        raise ValueError(f"must be SOURCE<tab>TARGET, but has {len(row)} columns")
    return row[0], row[1]


@dataclass(frozen=True)
class ParseJson:
    """Returns the pair of a JSON object: `ParseJson("en", "de")('{"en": "a", "de": "b"}')`.

    The languages are keys of the object, or of the one below its key "translation", as datasets of
    Hugging Face have them. Raises ValueError, whose text begins "must".
    """

    source: str
    target: str

    def __call__(self, line: str) -> tuple[str, str]:
        source = target = None
        with suppress(ValueError, RecursionError, LookupError, AttributeError, TypeError):
            value = json.loads(line)
            value = value.get("translation", value)
            source, target = value[self.source], value[self.target]
        if isinstance(source, str) and isinstance(target, str):
            return source, target
        raise ValueError(
            f'must be a JSON object of at most 1 MiB with a text each for "{self.source}" and '
            f'"{self.target}" (perhaps below "translation"), but begins with {line[:40]!r}'
        )
