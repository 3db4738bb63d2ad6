"""Small files that anybody may have made."""

import os

import pytest
from etils import epath

from transformer.config import Config, TokenizerConfig
from transformer.data.labels import Labels
from transformer.data.tokenizer_files import load_tokenizers, train_tokenizer
from transformer.reading import parse_json, read_file
from transformer.workdir import WorkDir


def test_a_pipe_is_refused_wherever_a_file_is_read(tmp_path):
    """Catches a command that waits for ever for a pipe into which nobody writes."""
    names = ("config.json", "tokenizer.model", "classes.json")
    for name in names:
        os.mkfifo(tmp_path / name)
    for read in (
        WorkDir(tmp_path).load_config,
        lambda: load_tokenizers(tmp_path),
        lambda: train_tokenizer(TokenizerConfig(model=str(tmp_path / "tokenizer.model")), []),
        lambda: Labels.load(epath.Path(tmp_path)),
    ):
        with pytest.raises(ValueError, match="must be a file, not a pipe or a device"):
            read()
    with pytest.raises(FileNotFoundError):
        read_file(epath.Path(tmp_path / "missing"))


def test_json_that_is_nested_deep(tmp_path):
    """Catches a RecursionError, and what a file of reports says before a line of that kind."""
    deep = "[" * 100_000
    with pytest.raises(ValueError, match="nested too deep"):
        parse_json(deep)
    (tmp_path / "config.json").write_text(deep)
    with pytest.raises(ValueError, match=r"config\.json: This is not a configuration"):
        WorkDir(tmp_path).load_config()
    (tmp_path / "config.json").write_text(Config().to_json())
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1}}\n{deep}\n')
    (tmp_path / "environment.json").write_text(deep)
    assert WorkDir(tmp_path).read_metrics() == [{"step": 1}]
    assert WorkDir(tmp_path).read_starts() == []
