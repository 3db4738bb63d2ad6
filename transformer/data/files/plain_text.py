"""Reads one long text, for language models.

A corpus is a text file (also .gz, .xz), whose split is "all", or a folder with a file for each
split (`train.txt` …).
"""

from transformer.config import DataConfig
from transformer.data.files.splits import parse_split, part_of
from transformer.data.files.text import Text, describe_folder, find_file, name_in_folder, read_text
from transformer.files.storage import locate


def load_text_lines(config: DataConfig, split: str) -> Text:
    """Reads the lines of a split; a part of a split is counted in characters.

    Raises ValueError if the file is missing or unreadable, or the split holds no text.
    """
    name, start, stop = parse_split(split)
    corpus = locate(config.corpus)
    if corpus.is_file() and name != "all":
        raise ValueError(
            f"{corpus} is one file: its split is 'all', or a part as all[:90%] and all[90%:], not "
            f"'{split}'; set data.train_split, data.validation_split and data.test_split."
        )
    file = f"{name_in_folder(corpus, name)}.txt"
    path = corpus if corpus.is_file() else find_file(corpus, file)
    if path is None:
        raise ValueError(
            f"data.corpus must be a text file, or a folder that holds {name}.txt (also .gz, .xz); "
            f"{corpus}: {describe_folder(corpus)}."
        )
    lines, repairs = read_text(path)
    text = part_of("".join(f"{line}\n" for line in lines), start, stop)
    if not text.strip():
        raise ValueError(f"The split '{split}' of {path} holds no text.")
    return Text(text.removesuffix("\n").split("\n"), repairs)
