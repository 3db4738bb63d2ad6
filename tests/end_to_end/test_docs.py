"""The documentation is true: its Python runs, its links lead somewhere, its front page is short."""

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sacrebleu import sentence_chrf

from tests.data.corpus_files import write
from tests.helpers.commands import call, one_device
from tests.helpers.used_names import check_names

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")
COMMAND = re.compile(r"^((?:python \w|transformer-).*)\n", re.MULTILINE)
BIN = str(Path(sys.executable).parent)
POCKET = "## From teacher to pocket"
PUBLISHED = {  # folders that pages name, and those that stand for them here
    "opus-mt-en-de": "marianmt_shared",
    "nllb-200-distilled-600M": "nllb",
    "bert-base-uncased": "bert",
}


def blocks_of(page):
    """The ```python blocks of a page, or the cells of code of a notebook."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return BLOCK.findall(text)
    cells = json.loads(text)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


WITH_PYTHON = [page for page in PAGES if blocks_of(page)]


def shell_of(name):
    """The ```sh blocks of a page: those before and those after the heading `POCKET`."""
    parts = (ROOT / "docs" / name).read_text(encoding="utf-8").partition(POCKET)
    return SHELL.findall(parts[0]), SHELL.findall(parts[2])


@pytest.fixture(scope="module")
def runs(finished, classes, text, tmp_path_factory):
    """A folder with the runs that the pages name, each a tiny one."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "runs").mkdir()
    named = {"mine": finished, "embedded_en_de": finished, "trec": classes, "shakespeare": text}
    for name, run in named.items():
        (folder / "runs" / name).symlink_to(run)
    return folder


@pytest.mark.filterwarnings("ignore:the prompts have")  # a tiny run stands for that of the page
@pytest.mark.long
@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_run(page, runs, monkeypatch, capsys):
    """Catches a snippet that has not kept up with the code; a page is one program."""
    monkeypatch.chdir(runs)
    namespace = {"__name__": "__main__"}
    with one_device():
        for number, block in enumerate(blocks_of(page), 1):
            exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


@pytest.mark.parametrize(
    "page", [*WITH_PYTHON, ROOT / "docs" / "first_model.ipynb"], ids=lambda page: page.name
)
def test_python_blocks_name_what_there_is(page):
    """Catches a public name or a setting that a page still has by its former name."""
    check_names("\n".join(blocks_of(page)))


@pytest.mark.long
def test_models_come_in_and_go_out_as_the_page_says(runs, monkeypatch):
    """Catches an import, an export or a flag that has another name than the page gives it."""
    monkeypatch.chdir(runs)
    for name, golden in PUBLISHED.items():
        (runs / name).symlink_to(ROOT / "tests" / "golden" / golden)
    (runs / "runs" / "opus_tuned").symlink_to("opus")
    (runs / "texts.en").write_text("a house\n\na tree\n")
    lines = "".join(shell_of("other_systems.md")[0]).splitlines()
    used = [line for line in lines if line.startswith("transformer-") or "--input" in line]
    used = [line.removeprefix("python ").split() for line in used]
    assert {words[0] for words in used} == {"transformer-import", "transformer-export", "eval.py"}
    for words in used:
        code, _, err = call(*words)
        assert code == 0, err
    assert (runs / "texts.de").read_text().count("\n") == 3


def run_block(block):
    """Runs a ```sh block: this project's commands in this process, all else as it stands."""
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    for part in COMMAND.split(block.replace("\\\n", "")):
        if not COMMAND.match(f"{part}\n"):
            shell = "bash", "-e", "-o", "pipefail", "-c"
            subprocess.run([*shell, part], check=True, env=environment)
        elif "--compare" not in part:
            words = shlex.split(part.removeprefix("python "))
            is_search = words[0] == "eval.py" and "--nbest" not in part
            more = {"train.py": ["--print_config"]}.get(words[0], ["--beam_size=1"] * is_search)
            code, _, err = call(*words, *more)
            assert code == 0, err


def lines_of(*names):
    """The lines of each of these files in the folder `text`."""
    return [Path("text", name).read_text().splitlines() for name in names]


@pytest.fixture
def place(finished, tmp_path, monkeypatch):
    """The folder in which the page on back-translation is at work, with its runs."""
    (tmp_path / "runs").mkdir()
    for name in ("reverse", "teacher", "student"):
        (tmp_path / "runs" / name).symlink_to(finished)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
def test_back_translation_works_as_the_page_says(place):
    """Catches a command that fails, mixes up lines, or lets a test sentence through."""
    for split, target in (("train", "5 1"), ("validation", "1, 2 3 4"), ("test", "Ab 5")):
        files = {f"{split}__en": "one two\n", f"{split}__de": f"{target}\n"}
        write(place / "text" / "real", **files)
    fresh = [f"{a} {b} {a}" for a in range(5) for b in range(4)]
    known = ["1 2 3 4!", "aB  5", fresh[7], "", "0 " * 101]  # and one with a tab
    (place / "text" / "mono.de").write_text("\n".join([*fresh[:-1], "4\t3 4", *known]) + "\n")
    for block in shell_of("back_translation.md")[0]:
        run_block(block)

    clean, back, synthetic = lines_of("clean.de", "back.tsv", "synthetic/train.tsv")
    assert clean == fresh
    scores = {}  # of each line that could be in synthetic/train.tsv
    for line, target in zip(back, clean, strict=True):
        source, score = line.split("\t")
        scores[f"{source}\t{target}"] = float(score)
    left_out = scores.keys() - synthetic
    assert (len(synthetic), len(left_out)) == (18, 2)
    assert max(scores[line] for line in left_out) <= min(scores[line] for line in synthetic)
    (distilled,) = lines_of("distilled/train.de")
    assert len(distilled) == 1 and distilled[0].strip()


@pytest.mark.long
def test_a_teacher_comes_into_the_pocket_as_the_page_says(place):
    """Catches a command that fails, pairs a source with another's translation or picks a worse."""
    pieces = place / "data" / "multi30k" / "bpe10k"
    pieces.mkdir(parents=True)
    for name in (f"{split}.{side}" for split in ("train", "val", "test") for side in ("en", "de")):
        lines = "".join(f"on@@ {i} 1 2@@ 3 {'ab'[i % 2]}\n" for i in range(10))
        (pieces / f"{name}.gz").write_bytes(gzip.compress(lines.encode()))
    for block in shell_of("back_translation.md")[1]:
        if "benchmarks/" not in block:
            run_block(block)

    names = "real/train.en", "real/train.de", "nbest.tsv", "distilled/train.tsv"
    sources, references, nbest, pairs = lines_of(*names)
    assert sources[3] == "on3 1 23 b" and len(pairs) == 9
    for source, translation in (pair.split("\t") for pair in pairs):
        line = sources.index(source)
        candidates = [row.split("\t")[1] for row in nbest[5 * line : 5 * line + 5]]
        scores = [sentence_chrf(text, [references[line]]).score for text in candidates]
        assert scores[candidates.index(translation)] == max(scores)
    assert Path("student_ct2/model.bin").exists() and Path("text/distilled/val.de").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """Catches a page or a heading that was renamed."""
    for target, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        file = page.parent / target
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in slugs, f"{target}#{anchor}"


def test_the_front_page_is_short():
    """Catches a README that grows into the documentation again."""
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 150
