"""The settings and configs/: every experiment validates, every mistake gets one sentence."""

import importlib
import json
import re
import sys

import pytest
from sacrebleu.metrics import BLEU

from configs import embedded_en_de, g2p, table3, wmt14_en_de_base, wmt14_en_de_big
from tests.helpers.rings import others_long
from tests.helpers.scripts import ROOT
from tests.helpers.tiny_models import count_parameters
from transformer.config import Config
from transformer.config.python_files import load_config_file
from transformer.config.setting import SYNONYMS, naming_all_mistakes
from transformer.workdir import WorkDir

CONFIGS = sorted(path.stem for path in (ROOT / "configs").glob("*.py"))
SETTINGS = {setting.name: setting for setting in Config.settings()}


@pytest.mark.parametrize("name", CONFIGS)
def test_every_config_validates_and_is_a_lab_note(name, tmp_path):
    """Catches a misspelt setting, which would have no effect, settings that exclude others, and an
    experiment that nobody could repeat: no command, no score."""
    WorkDir(tmp_path).save_config(Config())
    argument = [str(tmp_path)] if name in ("fine_tune", "lora") else []  # the run to start from
    module = importlib.import_module(f"configs.{name}")
    config = module.get_config(*argument).validate()
    assert Config.from_json(config.to_json()) == config
    assert f"--config=configs/{name}.py" in module.__doc__ or name == "embedded_en_de"
    assert "python train.py" in module.__doc__ and "python eval.py" in module.__doc__
    assert re.search("BLEU|score|error rate|accuracy|nats", module.__doc__)


def test_defaults_and_wmt14_are_the_paper_s():
    """Catches a default that drifts from the paper (63.1 million parameters by arithmetic), and
    other lengths or averages than in sections 5 and 6.1."""
    config = Config().validate()
    assert count_parameters(config.model, 37_000, 37_000) == 63_045_632
    assert (config.optimizer.beta2, config.optimizer.epsilon) == (0.98, 1e-9)
    assert (config.decoding.beam_size, config.decoding.alpha) == (4, 0.6)
    for module, steps, averaged in ((wmt14_en_de_base, 100_000, 5), (wmt14_en_de_big, 300_000, 20)):
        config = module.get_config()
        assert config.training.num_train_steps == steps
        assert config.decoding.average_checkpoints == config.training.keep_checkpoints == averaged
        assert config.training.eval_every % config.training.checkpoint_every == 0


def test_table_3_is_wmt14_and_changes_only_what_the_row_says():
    """Catches a row that inherits a neighbour's change, Table 3 on the test set, and d_k that is
    not scaled with the number of heads."""
    base, follows = table3.get_config(), {"optimizer.decay_steps"}  # 0 in the base, so in all rows
    for row, changes in table3.ROWS.items():
        differences = table3.get_config(row).validate().differences(base)
        assert differences.keys() == changes.keys() - follows, row
    differences = table3.get_config("base").differences(wmt14_en_de_base.get_config())
    assert differences.keys() == {"data.test_split", "decoding.average_checkpoints"}
    widths = {r: table3.get_config(r).model.widths_of_head[0] for r in ("h1", "h4", "h16", "h32")}
    assert widths == {"h1": 512, "h4": 128, "h16": 32, "h32": 16}


COUNTED = [row for row, published in table3.PUBLISHED.items() if published.get("parameters")]


@pytest.mark.parametrize("row", others_long(COUNTED, "base", "big"))
def test_table_3_has_the_published_numbers_of_parameters(row):
    """Catches a row of another size; the paper counts about 4,000 pieces more than 37,000."""
    num_parameters = count_parameters(table3.get_config(row).model, 37_000, 37_000)
    assert num_parameters == pytest.approx(table3.PUBLISHED[row]["parameters"], rel=0.07)


def test_rows_are_in_proportion_to_another_base():
    """Catches the paper's sizes in a row of a small model, rounding down to nothing, and a base
    that its variations change."""
    base = embedded_en_de.get_config()

    def changed(row):
        config = base.with_values(table3.ROWS[row]).validate()
        return {name: value for name, (value, _) in config.differences(base).items()}

    assert changed("h1") == {"model.num_heads": 1} and changed("h16") == {"model.num_heads": 8}
    assert changed("n2") == {"model.num_layers": 1} and changed("n8") == {"model.num_layers": 3}
    assert changed("dk16") == {"model.head_dim": 8, "model.value_dim": 32}
    assert changed("d256") == {"model.d_model": 64} and changed("ff4096") == {"model.d_ff": 1024}
    assert changed("big")["training.num_train_steps"] == 3 * base.training.num_train_steps
    assert base == embedded_en_de.get_config()


def test_a_language_of_g2p_changes_its_data_alone():
    """Catches two languages in one folder."""
    configs = [g2p.get_config(language).validate() for language in g2p.LANGUAGES]
    assert len({config.data.corpus for config in configs}) == len(configs)
    for config in configs[1:]:
        changed = config.differences(configs[0]).keys()
        assert changed == {"data.corpus", "data.source_language"}


def test_a_file_is_run_without_bytecode_beside_it(tmp_path, monkeypatch):
    """Catches half a file in __pycache__, of a full disk, that ends all later starts."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    file.write_text("from configs.trec import get_config")
    assert load_config_file(str(file)).task == "classification"
    assert [*tmp_path.iterdir()] == [file]


def test_a_value_that_cannot_be_gets_one_sentence_where_it_is_set():
    """Catches a run that fails after its compile; tests/cli/mistakes.py has more of them."""
    for setting, value, said in (
        ("model.num_layers", True, "of type int, not True"),
        ("model.num_layers", 2.0, "of type int, not 2.0"),
        ("model.dropout_rate", None, "of type float, not None"),
        ("decoding.length_penalty", "", "one of gnmt, power, not ''"),
        ("training.num_train_steps", -1, "at least 1, or 0 to have it chosen, not -1"),
        ("mesh.tensor", 0, "at least 1, or -1 for the devices that are left, not 0"),
    ):
        with pytest.raises(ValueError, match=f"^{setting} must be {said}\\.$"):
            Config().with_values({setting: value})


def test_each_value_that_cannot_be_gets_a_line(tmp_path):
    """Catches a mistake that is said only once the one before it is mended, one of config.json that
    seems to be in the configuration file which reads it, and a name that nobody misses."""
    wrong = {"model": {"norm": "both"}, "training": {"seed": -1}}
    lines = r"^model\.norm must be [^\n]*\ntraining\.seed must be at least 0[^\n]*$"
    with naming_all_mistakes() as mistakes:
        with pytest.raises(ValueError, match=lines):
            Config().with_values({"model.norm": "both", "training.seed": -1})
        with pytest.raises(ValueError, match=lines):
            Config.from_json(json.dumps(wrong))
        for name in ("model.norms", "modle.norm", "norm"):
            with pytest.raises(AttributeError, match="there is no "):
                Config().with_values({name: "pre"})
    assert not mistakes
    code = "Config().with_values({'model.norm': 'both', 'training.seed': -1})"
    (tmp_path / "mine.py").write_text(f"from transformer.config import Config\n{code}\n")
    with pytest.raises(ValueError) as error:
        load_config_file(str(tmp_path / "mine.py"))
    start = f"{tmp_path}/mine.py, line 2, {code}: "
    assert [line.startswith(start) for line in str(error.value).split("\n")] == [True, True]


def test_settings_that_exclude_each_other():
    """Catches a setting that would be ignored in silence."""
    for changes in (
        {"model.d_model": 15, "model.num_heads": 3},
        {"tokenizer.model": "a.model", "tokenizer.kind": "pieces"},
        {"data.subword_dropout": 0.1, "tokenizer.kind": "pieces"},
        {"task": "masked_lm", "data.mask_rate": 0.0},
        {"task": "classification", "data.drop_overlap": True},
        {"task": "language_model", "data.held_out": "test@2%"},
        {"task": "language_model", "model.evaluation_memory": 256},
    ):
        with pytest.raises(ValueError, match=r"^(model|data|tokenizer)\.[^\n]*\.$"):
            Config().with_values(changes).validate()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_a_setting_that_is_still_to_be_chosen_breaks_no_rule(positions):
    """Catches a rule that reads such a setting and does not name it, as a number of heads of 0."""
    for setting in SETTINGS.values():
        if setting.automatic is not None:
            changes = {"model.positions": positions, setting.name: setting.automatic}
            Config().with_values(changes).validate()


def test_every_setting_is_described():
    """Catches a setting without help, bounds that its own default breaks, or an unknown fact, and a
    tokenisation of BLEU that fails at the first evaluation, an hour into the run."""
    assert set(SETTINGS["data.bleu_tokenize"].choices) <= set(BLEU.TOKENIZERS)
    for setting in SETTINGS.values():
        assert setting.help.endswith(".") and "\n" not in setting.help
        assert setting.check(setting.default) == setting.default
        assert type(setting.default) is setting.type in (bool, int, float, str)
        assert not setting.choices or setting.type is str


def test_synonyms_name_settings_and_values_that_exist():
    """Catches a hint that is a mistake itself."""
    for name, meant in SYNONYMS.items():
        assert name not in {known.rpartition(".")[2] for known in SETTINGS} - {"batch_size"}
        for part in meant.split(" and "):
            known, _, value = part.partition("=")
            assert SETTINGS[known].check(value or SETTINGS[known].default) is not None


def test_what_may_change_and_what_does_not_matter():
    """Catches a resumed run with other weights, and a job begun anew for another batch size."""
    resumable = {name for name, setting in SETTINGS.items() if setting.resumable}
    groups = {name.split(".")[0] for name in resumable}
    assert groups == {"data", "training", "decoding", "mesh", "parallelism", "remat", "scan_layers"}
    assert not resumable & {"training.seed", "training.batch_tokens", "data.row_length"}
    unimportant = {name for name, setting in SETTINGS.items() if not setting.changes_result}
    assert "decoding.batch_size" in unimportant < resumable
    assert "decoding.beam_size" not in unimportant


def test_json_round_trip():
    """Catches a field that does not survive config.json, a number of another type, a run of an
    earlier version that no longer opens, and one that opens as another network."""
    changes = {"model.norm": "pre", "training.seed": 2**40, "data.corpus": "ä@2"}
    config = Config().with_values(changes | {"decoding.alpha": 1})
    assert Config.from_json(config.to_json()) == config and type(config.decoding.alpha) is float
    assert Config.from_json("{}") == Config()
    text = '{"training": {"memory_gib": 3.0}, "model": {"attention_features": %d}}'
    assert Config.from_json(text % 256) == Config()
    with pytest.raises(ValueError, match="attention_features is always 256 now"):
        Config.from_json(text % 8)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", '{"model": 5}', '{"model": {"no_such_field": 1}}', '{"no_such_group": {}}',
        '{"model": {"d_model": [512]}}', '{"model": {"__class__": "os.system"}}',
        '{"model": {"self": 1}}', '{"training": {"seed": NaN}}', "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_foreign_json_is_refused(text):
    """Catches a config.json that is damaged, of another version or malicious."""
    with pytest.raises(ValueError) as caught:
        Config.from_json(text)
    assert len(str(caught.value)) < 300
    assert "no_such" not in text or "no_such" in str(caught.value)
