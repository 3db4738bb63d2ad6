"""Keeps what a released version writes: python tools/make_old_runs.py CHECKOUT NAME

CHECKOUT holds the sources of that version, which trains tiny runs. The runs, with what that version
makes of them and of some more steps, are packed into tests/golden/runs/NAME/RUN.tar.xz, which
tests/checkpoint/test_old_runs.py opens forever. See the README there.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

RUNS = Path(__file__).parents[1] / "tests" / "golden" / "runs"
STEPS, MORE = 120, 124  # of the run that is kept, and of the one that goes on from it
PAIRS = [
    ("a red car", "ein rotes auto"),
    ("a blue house", "ein blaues haus"),
    ("the car is blue", "das auto ist blau"),
    ("the house is red", "das haus ist rot"),
    ("a dog sleeps", "ein hund schläft"),
    ("the dog is here", "der hund ist hier"),
]
LANGUAGES = "en", "de"
TEXT = "the dog is here, the car is red and the house is blue; a dog sleeps."
# A batch holds the whole text and nothing is dropped: losses do not depend on how it is packed.
SETTINGS = {
    "model.d_model": 8,
    "model.d_ff": 8,
    "model.num_heads": 2,
    "model.num_layers": 1,
    "model.dropout_rate": 0.0,
    "data.row_length": 64,
    "optimizer.warmup_steps": 20,
    "optimizer.peak_learning_rate": 0.03,
    "training.num_train_steps": STEPS,
    "training.batch_tokens": 512,
    "training.log_every": 1,
    "training.eval_every": STEPS,  # so that no older checkpoint is kept as the best
    "training.checkpoint_every": 20,
    "training.keep_checkpoints": 1,
    "training.label_smoothing": 0.0,
    "decoding.batch_size": 8,
    "decoding.beam_size": 2,
    "decoding.max_extra_length": 8,
}
SPLITS = dict.fromkeys(("data.train_split", "data.validation_split", "data.test_split"), "train")
TASKS = {
    "sentencepiece": ("translation", {"tokenizer.vocab_size": 290}),
    "characters": (
        "translation",
        {
            "tokenizer.kind": "characters",
            "tokenizer.shared": "False",
            "model.embedding_sharing": "target",
            "training.keep_checkpoints": 2,
        },
    ),
    "classifier": ("classification", {"tokenizer.kind": "characters"}),
    "language_model": ("language_model", {"tokenizer.kind": "characters"}),
}
CORPORA = {"translation": "pairs", "classification": "labelled", "language_model": "text"}
ANSWERING = {  # the checkpoints whose answers are kept
    "sentencepiece": ["last"],
    "characters": ["last", "average:2"],
    "classifier": ["last"],
}


def write_corpora(folder: Path) -> None:
    """Writes pairs, labelled sentences and a text."""
    (folder / "pairs").mkdir()
    for side, language in enumerate(LANGUAGES):
        lines = "".join(f"{pair[side]}\n" for pair in PAIRS)
        (folder / "pairs" / f"train.{language}").write_text(lines)
    (folder / "labelled").mkdir()
    rows = "".join(
        f"{language}\t{pair[side]}\n" for pair in PAIRS for side, language in enumerate(LANGUAGES)
    )
    (folder / "labelled" / "train.tsv").write_text(rows)
    (folder / "text").mkdir()
    (folder / "text" / "train.txt").write_text(TEXT[:63] + "\n")


def run(checkout: Path, folder: Path, script: str, *arguments: str) -> str:
    """Runs a command of the version in `checkout` on a CPU; returns its standard output."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "JAX_PLATFORMS": "cpu"}
    environment |= {"JAX_DISABLE_MOST_OPTIMIZATIONS": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(checkout / script), *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def make_run(checkout: Path, folder: Path, name: str) -> dict:
    """Trains `folder`/`name`; returns what the version makes of it, and of more steps of a copy."""
    task, settings = TASKS[name]
    (folder / "config.py").write_text(
        "from transformer.config import Config\n\n\ndef get_config():\n"
        f'    return Config(task="{task}")\n'
    )
    values = SETTINGS | SPLITS | settings | {"data.corpus": CORPORA[task]}
    flags = ["--config=config.py", *(f"--config.{key}={value}" for key, value in values.items())]
    run(checkout, folder, "train.py", f"--workdir={name}", *flags)
    answers = {}
    lines = [pair[0] for pair in PAIRS]
    lines += [pair[1] for pair in PAIRS] if task == "classification" else []
    (folder / "input.txt").write_text("".join(f"{line}\n" for line in lines))
    for checkpoint in ANSWERING.get(name, ()):
        arguments = f"--workdir={name}", f"--checkpoints={checkpoint}", "--input=input.txt"
        answers[checkpoint] = run(checkout, folder, "eval.py", *arguments).splitlines()
    shutil.copytree(folder / name, folder / "copy")
    more = f"--config.training.num_train_steps={MORE}"
    run(checkout, folder, "train.py", "--workdir=copy", *flags, more)
    records = [json.loads(line) for line in (folder / "copy" / "metrics.jsonl").open()]
    losses = {r["step"]: r["loss"] for r in records if r["step"] > STEPS and "loss" in r}
    test = {key: value for key, value in records[-1].items() if key.startswith("test_")}
    shutil.rmtree(folder / "copy")
    remove_what_is_not_read(folder / name)
    expected = {"corpus": CORPORA[task], "steps": MORE, "losses": losses, "test": test}
    return expected | {"lines": lines, "answers": answers}


def remove_what_is_not_read(workdir: Path) -> None:
    """Removes what is there for people alone, and of all checkpoints but the last the optimizer."""
    steps = sorted(int(path.name) for path in (workdir / "checkpoints").glob("[0-9]*"))
    for step in steps[:-1]:
        shutil.rmtree(workdir / "checkpoints" / str(step) / "rest")
    shutil.rmtree(workdir / "results", ignore_errors=True)
    for path in workdir.iterdir():
        if path.suffix in (".png", ".txt", ".tsv") or path.name.startswith(("events.", "lock")):
            path.unlink()
    environment = workdir / "environment.json"
    if environment.exists():
        starts = json.loads(environment.read_text())
        starts = [start | {"host": "host", "command": [], "platform": ""} for start in starts]
        environment.write_text(json.dumps(starts) + "\n")


def pack(folder: Path, name: str, expected: dict, archive: Path) -> None:
    """Packs a run, its corpus and what is expected of it."""
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for source, target in ((name, "run"), (expected["corpus"], None), ("expected.json", None)):
            tar.add(folder / source, arcname=target or source, filter=anonymous)
    print(archive, archive.stat().st_size, "bytes")


def main(checkout: Path, version: str) -> None:
    """Writes the archives."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "transformer_old_runs")
        folder.mkdir()
        write_corpora(folder)
        for name in TASKS:
            expected = make_run(checkout, folder, name)
            pack(folder, name, expected, RUNS / version / f"{name}.tar.xz")


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Removes names of the machine's user from an archive's member."""
    member.uname = member.gname = ""
    member.uid = member.gid = member.mtime = 0
    return member


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
