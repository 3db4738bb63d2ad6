"""The train command when it is misused, and the configurations that it finds."""

import sys
from unittest.mock import patch

import pytest

from tests.helpers.commands import call
from tests.helpers.scripts import ROOT, run, run_python
from transformer.cli import command_line
from transformer.cli.commands import evaluate, train
from transformer.cli.commands.train import TrainFlags
from transformer.config import Config, python_files
from transformer.config.python_files import DEFAULT_CONFIG
from transformer.workdir import WorkDir


def parse(*words):
    line = command_line.parse(TrainFlags, ["train.py", *words])
    return line.flags, line.config


@pytest.mark.parametrize(
    ("script", "flag", "said"),
    [
        ("eval.py", "--workdir=configs", "no config.json"),
        pytest.param("train.py", "--config.data.corpus=no", "train.en", marks=pytest.mark.long),
    ],
)
def test_the_scripts_end_with_code_2_and_one_line(script, flag, said, tmp_path):
    """Catches an exit code, an output or a stack trace that only a shell sees."""
    code, out, err = run(script, f"--workdir={tmp_path / 'run'}", flag)
    assert (code, out) == (2, b"")
    assert said in err and err.startswith("error: ") and err.count("\n") == 1


def test_settings_change_on_the_command_line_in_any_order():
    """Catches a setting that is lost, and one command's values in the next."""
    flags, config = parse("--config.model.d_ff=8", "--workdir", "x", "--noconfig.tokenizer.shared",
                          "--config.model.embedding_sharing=target")  # fmt: skip
    assert (flags.workdir, config.model.d_ff, config.tokenizer.shared) == ("x", 8, False)
    assert config.model.d_model == 128  # of the default configuration
    assert parse()[1].model.d_ff == 512


def test_a_folder_is_enough(tmp_path, capsys):
    """Catches a run that is resumed with the default configuration, or changes that are lost."""
    WorkDir(tmp_path).save_config(Config(task="images"))
    _, config = parse(f"--workdir={tmp_path}", "--config.training.num_train_steps=7")
    assert (config.task, config.training.num_train_steps) == ("images", 7)
    assert capsys.readouterr().err == f"no --config: going on with {tmp_path}/config.json\n"
    assert parse(f"--workdir={tmp_path}", "--config=embedded_en_de")[1].task == "translation"
    assert parse(f"--workdir={tmp_path / 'none'}")[1].model.d_model == 128


def test_what_a_run_will_use_is_printed():
    """Catches defaults that are shown in the place of the values that a file sets."""

    def printed_by(script, *words):
        return call(script, *words)[1].decode()

    printed = printed_by("train.py", "--config=digits", "--config.model.d_ff=48", "--print_config")
    assert "config.model.d_ff = 48  # default: 2048\n" in printed
    assert "config.model.norm = 'post'\n" in printed
    code = f"from transformer.config import Config\nconfig = Config()\n{printed}"
    exec(code, found := {})  # as a file of --config may have it
    assert found["config"].model.d_ff == 48 and found["config"].task == "images"
    assert "--config.task='images' " in printed_by("train.py", "--help=run", "--config=digits")
    assert "--config.task='translation' " in printed_by("train.py", "--help=run")
    for script in ("train.py", "eval.py"):
        assert printed_by(script, "--version").startswith("transformer 0.")


def test_configurations_are_found_from_anywhere(tmp_path, monkeypatch, capsys):
    """Catches a command that only works in a checkout, and a file of one's own passed over."""
    monkeypatch.chdir(tmp_path)
    assert parse()[1].model.d_model == 128
    assert capsys.readouterr().err == ""
    for name in ("configs/digits.py", "digits.py", "digits"):
        assert parse(f"--config={name}")[1].task == "images"
        assert f"--config={name} is not a file here; taking {ROOT}" in capsys.readouterr().err
    (tmp_path / "digits.py").write_text((ROOT / DEFAULT_CONFIG).read_text())
    assert parse("--config", "digits.py")[1].task == "translation"
    with pytest.raises(ValueError, match=r"not other/digits\.py; shipped are configs/"):
        parse("--config=other/digits.py")


def test_an_installed_package_ships_its_configurations(tmp_path, monkeypatch):
    """Catches a command that finds no configuration once it is installed."""
    package = tmp_path / "transformer"
    (package / "configs").mkdir(parents=True)
    (package / "configs" / "own.py").write_text("")
    monkeypatch.setattr(python_files.transformer, "__file__", str(package / "__init__.py"))
    assert python_files.shipped_configs() == [package / "configs" / "own.py"]


def test_configurations_start_from_shipped_ones_without_a_checkout(tmp_path, monkeypatch):
    """Catches an installed command that fails on `from configs import …`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(ROOT))])
    with patch.dict(sys.modules):
        for name in [name for name in sys.modules if name.split(".")[0] == "configs"]:
            del sys.modules[name]
        assert parse("--config=table3:h1")[1].model.num_heads == 1
        assert sys.modules["configs"].__spec__ is None  # found by the command, not by Python


@pytest.mark.parametrize("command", [train, evaluate])
def test_help_and_mistakes_need_no_jax(command):
    """Catches seconds of waiting for --help, or for a word on a misspelt flag."""
    name = command.__name__
    program = (
        f"import sys, {name}\n"
        f"for word in ('--help', '--no_such_flag'):\n"
        f"    try: {name}.main(['program', word])\n"
        f"    except SystemExit as end: print('code', end.code)\n"
        "print(sorted({'jax', 'flax', 'tensorflow', 'matplotlib', 'numpy'} & sys.modules.keys()))"
    )
    code, out, err = run_python(program)
    assert code == 0, err
    text = out.decode()
    assert text.startswith((command.__doc__ or "").strip())
    assert "  --workdir=FOLDER: Work directory" in text
    assert text.endswith("code 2\n[]\n")
    assert ("  model      d_model, d_ff" in text) == (command is train)
