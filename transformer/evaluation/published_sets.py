"""Test sets that sacrebleu knows by name, as "wmt14/full", and downloads at their first use."""

from sacrebleu.dataset import DATASETS

from transformer.data.files.text import read_text


def read_published(name: str, direction: str) -> list[tuple[str, tuple[str, ...]]]:
    """Returns (source, references) of each sentence of a test set; direction: "en-de".

    Raises ValueError if sacrebleu has no such test set, or cannot download it.
    """
    if name not in DATASETS or direction not in DATASETS[name].langpairs:
        known = [key for key, found in DATASETS.items() if direction in found.langpairs]
        raise ValueError(
            f"--test_set is one that sacrebleu has for {direction} ({', '.join(known) or 'none'}), "
            f"not {name!r}; other texts are given with --input and --reference."
        )
    try:
        source = DATASETS[name].get_source_file(direction)
        references = DATASETS[name].get_reference_files(direction)
    except (OSError, SystemExit) as error:
        raise ValueError(
            f"The test set {name} cannot be downloaded ({error}): copy ~/.sacrebleu from a machine "
            f"on which sacrebleu --download {name} -l {direction} has run."
        ) from None
    sources, *columns = (read_text(path).lines for path in [source, *references])
    return list(zip(sources, zip(*columns, strict=True), strict=True))
