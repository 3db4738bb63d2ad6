"""The shape of the code base: layers, sizes, docstrings, and what importing it may do."""

import ast

import pytest

from tests.helpers.scripts import ROOT, run_python

PACKAGE = ROOT / "transformer"
# A package (or a module at the top) may import those to its right and never those to its left.
# Those between bars have no order among each other and may not import each other.
LAYERS = """cli > training > tasks > evaluation > interop > inference > checkpoint > search | model
    > data > parallel | workdir > config | optional_libraries > files
    > registry | console | exit_codes | special_tokens"""
RANK = {
    name.strip(): rank for rank, layer in enumerate(LAYERS.split(">")) for name in layer.split("|")
}
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(path.read_bytes())
    for path in PACKAGE.rglob("*.py")
}
NO_JAX = {name for name in RANK if RANK[name] >= RANK["data"]} - {"parallel"}
COMMANDS_KNOW = {"cli", "config", "console", "exit_codes", "registry", "workdir"}
COMMANDS_CALL = {  # besides the public names of the package
    "data.prepared.prepare.prepare_text",
    "evaluation.ablation_plan.read_rows",
    "evaluation.ablation_plan.with_num_steps",
    "evaluation.evaluation_set.read_lines",
    "evaluation.scores.checkpoint_table",
    "inference.file_job.check_files",
    "training.ablation.ablate",
    "training.automatic.choose_settings",
    "training.profile.serve_profiles",
    "training.startup_summary.describe_run",
}
DATA = ["files", "tokenizers", "rows", "corpora", "prepared"]  # its folders: none knows the later
VAGUE = {"utils", "util", "common", "base", "helpers", "misc", "tools", "core", "types"}


def package_of(name):
    return name.split(".")[0]


def imports_of(tree):
    """Full names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name the package"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(name):
    """The modules of this package that a module imports."""
    ours = (full for full in imports_of(MODULES[name]) if full.startswith("transformer."))
    return {full.removeprefix("transformer.") for full in ours} & MODULES.keys()


def definitions(tree):
    """(name, node) of every function and class of a file, however deep."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [(node.name, node) for node in ast.walk(tree) if isinstance(node, kinds)]


def test_every_package_has_a_layer():
    """Catches a package that nobody has placed, and a top level that grows into a heap."""
    assert {package_of(name) for name in MODULES} - {"__init__"} <= RANK.keys()
    assert len([path for path in PACKAGE.glob("*.py")]) <= 8


@pytest.mark.parametrize("name", [name for name in MODULES if name != "__init__"])
def test_imports_go_one_way(name):
    """Catches packages that know each other both ways."""
    others = {package_of(other) for other in own_imports(name)} - {package_of(name)}
    assert [other for other in others if RANK[other] <= RANK[package_of(name)]] == []


def test_folders_of_data_go_one_way():
    """Catches a reader of files that knows batches, and rows that know a corpus."""
    for name in MODULES:
        package, folder, *rest = [*name.split("."), ""]
        if package == "data" and folder in DATA and any(rest):
            later = tuple(f"data.{other}" for other in DATA[DATA.index(folder) + 1 :])
            assert [other for other in own_imports(name) if other.startswith(later)] == [], name


def test_commands_call_public_functions():
    """Catches a command that does what no Python program can ask for."""

    def others_of(tree):
        """What a command imports beside public names, and does not take a known function from."""
        full = {other.removeprefix("transformer.") for other in imports_of(tree)}
        inner = {other for other in full if package_of(other) in RANK.keys() - COMMANDS_KNOW}
        called = inner & COMMANDS_CALL
        return {
            other
            for other in inner
            if not any(f"{name}.".startswith(f"{other}.") for name in called)
        }

    commands = {name: others_of(MODULES[name]) for name in MODULES if name.startswith("cli.comm")}
    assert {name: others for name, others in commands.items() if others} == {}
    for wrong in ("import transformer.training", "from transformer.training import run"):
        assert others_of(ast.parse(wrong))


def test_seams():
    """Catches training that knows a model, and a search or a loss that knows either."""
    assert own_imports("search.decoding") == own_imports("search.top_k") == set()
    assert own_imports("model.loss") == set()
    for method in ("search.beam_search", "search.sampling"):
        assert own_imports(method) == {"search.decoding", "search.top_k"}
    for name in MODULES:
        if package_of(name) in ("model", "search"):
            known = {package_of(other) for other in own_imports(name)} - {package_of(name)}
            assert known <= {"config", "special_tokens", "data", "registry"}, name
        if package_of(name) != "cli":
            assert "absl" not in {full.split(".")[0] for full in imports_of(MODULES[name])}, name
    assert not {package_of(other) for other in own_imports("training.steps")} & {"model", "data"}


@pytest.mark.parametrize("name", [name for name in MODULES if package_of(name) in NO_JAX])
def test_text_is_read_without_jax(name):
    """Catches a tokenizer that needs an accelerator's library to split words."""
    names = {full.split(".")[0] for full in imports_of(MODULES[name])}
    assert not names & {"jax", "flax", "optax", "orbax", "tensorflow"}


def test_reading_text_starts_no_jax():
    """Catches jax by a detour, which the syntax trees do not show, as by a name in a registry."""
    program = (
        "import sys, transformer\n"
        "from transformer import config, workdir\n"
        "from transformer.data.corpora import training_text\n"
        "from transformer.data.rows import packing\n"
        "from transformer.data.tokenizers import files\n"
        "training_text.load_evaluation_pairs(config.DataConfig(), 'test')\n"
        "print(sorted({'jax', 'flax', 'orbax', 'tensorflow', 'torch'} & sys.modules.keys()))\n"
    )
    code, out, err = run_python(program)
    assert (code, out) == (0, b"[]\n"), err


def test_sizes():
    """Catches a module or a function that no longer fits a reader's head."""
    for name, tree in MODULES.items():
        path = PACKAGE / f"{name.replace('.', '/')}.py"
        assert path.read_text(encoding="utf-8").count("\n") <= 400, name
        for label, node in definitions(tree):
            if not isinstance(node, ast.ClassDef):
                assert node.end_lineno - node.lineno < 60, f"{name}: {label}"


def test_docstrings():
    """Catches a public function, class or file that does not say what it is for."""
    for name, tree in MODULES.items():
        assert ast.get_docstring(tree), name
        for label, node in definitions(tree):
            if node in tree.body and label[0] != "_":
                assert ast.get_docstring(node), f"{name}: {label}"


def test_no_vague_names():
    """Catches the module where everything ends up."""
    files = [path for path in ROOT.rglob("*.py") if not {".venv", "build"} & set(path.parts)]
    assert not [path.name for path in files if path.stem in VAGUE]


def test_random_numbers_come_from_a_seed():
    """Catches a batch or a score that depends on the moment: np.random.*, random.*, time-seeded."""
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
                is_numpy = ast.unparse(node.value) in ("np.random", "numpy.random")
                assert not is_numpy or node.attr == "default_rng", f"{name}: {ast.unparse(node)}"
        assert "random" not in set(imports_of(tree)), name
