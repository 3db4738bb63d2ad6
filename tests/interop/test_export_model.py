"""One function writes every format: a folder is there as a whole, or not at all."""

import re

import pytest

import transformer
from tests.helpers.random_runs import write_run
from tests.helpers.rings import others_long
from tests.helpers.scripts import run_python
from transformer.cli.commands.export import main
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer
from transformer.inference.translator import Translator
from transformer.interop import export_model as module

FILES = {  # of each format, some of those that make it usable
    "run": {"config.json", "checkpoints", "tokenizer.vocab"},
    "ctranslate2": {"model.bin", "shared_vocabulary.json", "README.md"},
    "safetensors": {"params.safetensors", "config.json", "README.md"},
    "program": {"program.jaxexport", "params.safetensors", "README.md"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), steps=(20, 40))


def names_in(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("format", FILES)
def test_a_folder_appears_with_all_its_files(run, tmp_path, format):
    """Catches a format that is not wired, and temporary files that stay."""
    for library in ("ctranslate2", "safetensors", "flatbuffers"):
        pytest.importorskip(library)
    folder = tmp_path / "new" / "model"
    said = transformer.export_model(run, folder, format, 40, check=False)
    assert said[0].startswith(f"{folder}: ")
    assert names_in(folder) >= FILES[format]
    assert names_in(tmp_path / "new") == {"model"}
    with pytest.raises(ValueError, match="exists already; name a new folder"):
        transformer.export_model(run, folder, format)


@pytest.mark.parametrize("format", others_long(["ctranslate2", "huggingface"]))
def test_a_folder_is_checked(tmp_path, format):
    """Catches a check that compares nothing, and a length penalty that is not told of."""
    for library in ("ctranslate2",) if format == "ctranslate2" else ("torch", "transformers"):
        pytest.importorskip(library)
    tokenizer = SentencePieceTokenizer.train(["some words, and some others"], 280)
    run = write_run(tmp_path / "run", tokenizer=tokenizer, output_bias=True)
    *_, note, said = transformer.export_model(run, tmp_path / "model", format)
    assert re.search(r"^checked.*: log-probabilities of tokens within \de-0[5-9]$", said)
    assert "The run divides log-probabilities by ((5+n)/6)^0.6" in note


def test_a_failure_leaves_nothing(run, tmp_path, monkeypatch):
    """Catches a folder that looks complete, and is the half of one."""

    def fail(run, folder):
        (folder / "part").mkdir(parents=True)
        raise ValueError("disk full")

    monkeypatch.setattr(module, "export_parameters", fail)
    with pytest.raises(ValueError, match="disk full"):
        transformer.export_model(run, tmp_path / "new" / "model", "safetensors")
    assert names_in(tmp_path / "new") == set()


@pytest.mark.parametrize(
    "options, problem",
    [
        (dict(format="onnx"), "format is one of run, huggingface, .*, not onnx"),
        (dict(quantization="int8"), "quantization=int8 is for ctranslate2, not for run"),
        (dict(format="huggingface"), "MarianMT cannot hold a tokenizer that is not SentencePiece"),
        (dict(checkpoint="7"), "not 7"),
    ],
)
def test_wrong_options_are_refused(run, tmp_path, options, problem):
    """Catches an option that is dropped, or a folder for a checkpoint that does not exist."""
    with pytest.raises(ValueError, match=problem):
        transformer.export_model(run, tmp_path / "model", **options)
    assert names_in(tmp_path) == set()


def test_the_command(run, tmp_path, capsys):
    """Catches flags that do not reach the function, and mistakes with another exit code than 2."""
    command = ["transformer-export", str(run)]
    assert main([*command, str(tmp_path / "a"), "last"]) == 0
    assert "last (40)" in capsys.readouterr().err
    assert Translator.from_checkpoint(tmp_path / "a").translate(["w1"])
    for words, problem in (
        ([], "takes WORKDIR FOLDER [CHECKPOINT]"),
        ([str(tmp_path / "a")], "exists already"),
        ([str(tmp_path / "b"), "--format=onnx"], "--format must be one of run"),
        ([str(tmp_path / "b"), "--fromat=run"], "did you mean --format?"),
    ):
        with pytest.raises(SystemExit) as end:
            main([*command, *words])
        assert end.value.code == 2
        assert problem in capsys.readouterr().err
    assert names_in(tmp_path) == {"a"}


def test_help_needs_no_jax():
    """Catches a command whose --help takes seconds."""
    program = "import sys; from transformer.cli.commands.export import main; main(['x', '--help'])"
    code, out, err = run_python(f"{program}; assert 'jax' not in sys.modules")
    assert code == 0 and b"--quantization=TYPE" in out, err
