"""The house in order: imports go one way, rooms stay small, everything says what it is for."""

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TEXT = "validation config storage splits lines workdir"
TEXT += " tfds_source corpus labelled plain_text images labels tokenizer characters vocabulary"
TEXT += " ragged batching masking windows image_batches bucketing"
TEXT += " bulk.chunks bulk.parts bulk.formats"
TENSORS = "masks alignment efficient_attention key_value_cache"
TENSORS += " attention embedding layers models one_stack"
DEVICES = "hosts mesh parallel topology prefetch"
LEARNING = "loss optimizer training step costs fingerprint checkpoint restoring"
SEARCH = "decoding ranking beam_search sampling search search_batches conveyor scoring"
PAGES = "metrics evaluation.faults evaluation.segments"
PAGES += " page.svg page.web_page page.figures page.document evaluation.results"  # no jax either
PAGES += " evaluation.outcome"
JOINTS = f"translator classifier language_model {PAGES} evaluation.evaluate"
JOINTS += " evaluation.checkpoint_series evaluation.comparison evaluation.classes"
JOINTS += " evaluation.text_loss tasks.task tasks.labelled tasks.translation"
JOINTS += " tasks.classification tasks.images tasks.masked_lm tasks.language_model"
EFFECTS = "progress report card compile_cache command_line export stopping"
EFFECTS += " bulk.pace bulk.job bulk.loop family trainer"
ORDER = " ".join((TEXT, TENSORS, DEVICES, LEARNING, SEARCH, JOINTS, EFFECTS)).split()
PACKAGE = ROOT / "transformer"
ROOMS = {  # "search" is search.py, "page.svg" is page/svg.py
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(path.read_bytes())
    for path in PACKAGE.rglob("*.py")
}
SCRIPTS = {
    f"{name}.py": ast.parse((ROOT / f"{name}.py").read_bytes()) for name in ("train", "eval")
}
VAGUE = {"utils", "util", "common", "base", "helpers", "misc", "tools", "core", "types"}


def imported(tree):
    """Full names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name the package"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(tree):
    """The rooms of ours that a file imports."""
    ours = (name for name in imported(tree) if name.startswith("transformer."))
    return {name.removeprefix("transformer.") for name in ours} & ROOMS.keys()


def definitions(tree):
    """(name, node) of every function and class of a file, however deep."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [(node.name, node) for node in ast.walk(tree) if isinstance(node, kinds)]


def test_every_room_has_its_place():
    """Catches a new room that nobody has placed in the order of the data."""
    assert {name for name in ROOMS if not name.endswith("__init__")} == set(ORDER)


@pytest.mark.parametrize("room", ORDER)
def test_imports_go_only_downwards(room):
    """Catches a cycle, and a room that reaches for one that comes after it."""
    assert rooms_of(ROOMS[room]) <= set(ORDER[: ORDER.index(room)])


def test_seams():
    """Catches training that knows a model, and a search or loss that knows anything of ours."""
    assert rooms_of(ROOMS["decoding"]) == rooms_of(ROOMS["ranking"]) == set()
    assert rooms_of(ROOMS["loss"]) == set()
    for room in ("beam_search", "sampling"):
        assert rooms_of(ROOMS[room]) == {"decoding", "ranking"}
    assert rooms_of(ROOMS["training"]) == {"loss"}
    assert not rooms_of(ROOMS["checkpoint"]) & {*TENSORS.split(), "training"}


@pytest.mark.parametrize("room", [*TEXT.split(), *PAGES.split()])
def test_text_rooms_import_no_jax(room):
    """Catches a tokenizer that needs an accelerator's library to split words."""
    names = {name.split(".")[0] for name in imported(ROOMS[room])}
    assert not names & {"jax", "flax", "optax", "orbax", "tensorflow"}


def test_reading_text_starts_no_jax():
    """Catches jax by a detour, which the syntax trees do not show."""
    program = (
        "import sys, transformer\n"
        "from transformer import batching, config, corpus, tokenizer, vocabulary, workdir\n"
        "corpus.load_evaluation_pairs(config.DataConfig(), 'test')\n"
        "print(sorted({'jax', 'flax', 'orbax', 'tensorflow', 'torch'} & sys.modules.keys()))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("name", [*ROOMS, *SCRIPTS])
def test_sizes(name):
    """Catches a room or a function that no longer fits a reader's head."""
    tree = (ROOMS | SCRIPTS)[name]
    path = ROOT / (name if name in SCRIPTS else f"transformer/{name.replace('.', '/')}.py")
    num_lines = path.read_text(encoding="utf-8").count("\n")
    assert num_lines <= 240
    sizes = {
        label: node.end_lineno - node.lineno + 1
        for label, node in definitions(tree)
        if not isinstance(node, ast.ClassDef)
    }
    assert {label: size for label, size in sizes.items() if size > 60} == {}


@pytest.mark.parametrize("name", [*ROOMS, *SCRIPTS])
def test_docstrings(name):
    """Catches a public function, class or file that does not say what it is for."""
    tree = (ROOMS | SCRIPTS)[name]
    assert ast.get_docstring(tree)
    public = {node.name: node for _, node in definitions(tree) if node in tree.body}
    silent = [n for n, node in public.items() if n[0] != "_" and not ast.get_docstring(node)]
    assert [n for n in silent if n != "main"] == []


def test_no_vague_names():
    """Catches the room where everything ends up."""
    files = [p for p in ROOT.rglob("*.py") if not {".venv", "build"} & set(p.parts)]
    assert not [p.name for p in files if p.stem in VAGUE and p.parent != ROOT]


def test_random_numbers_come_from_a_seed():
    """Catches a batch or a score that depends on the moment: np.random.*, random.*, time-seeded."""
    for name, tree in ROOMS.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                is_numpy = ast.unparse(node.value) in ("np.random", "numpy.random")
                assert not is_numpy or node.attr == "default_rng", f"{name}: {ast.unparse(node)}"
        assert "random" not in set(imported(tree)), name
