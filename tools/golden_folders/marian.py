"""Packages as Marian writes them, with what Marian itself makes of some text.

Needs pymarian (Marian itself) and sentencepiece; neither needs this project.
"""

import io
import json
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile

import sentencepiece

ROOT = pathlib.Path(__file__).parents[2]
MODEL = "opus.npz.best-perplexity.npz"
CORPUS = ROOT / "transformer/embedded/en-de.tsv.xz"
NUM_PAIRS, LONGEST = 3000, 14  # short texts, so that a small model learns where to end
NUM_TRANSLATED, NUM_LONG = 16, 4
# Characters that Marian's vocab.yml holds in ways that no reader of YAML takes.
NASTY = [
    ("\x7f \x85 \ufeff", "\ufeff \x7f \x85"),
    ('"x" \\ it\'s # : ~ null -', "- 'x' \\ \"y\" : # ~"),
    ("§ unseen 漢", "漢 ungesehen §"),  # only here: UNK
]
SIZES = {
    "type": "transformer",
    "dim-emb": 16,
    "transformer-heads": 4,
    "transformer-dim-ffn": 32,
    "enc-depth": 2,
    "dec-depth": 1,
}
PRE_NORM = {
    "transformer-preprocess": "n",
    "transformer-postprocess": "da",
    "transformer-postprocess-top": "n",
}
MODELS = {
    # One SentencePiece vocabulary, which Marian applies itself.
    "marian_joint": ("spm", {"tied-embeddings-all": True}),
    # The package of most OPUS-MT models: text is split outside, and one list has both sides.
    "marian_pieces": ("yml", {"tied-embeddings-all": True}),
    "marian_pre_norm": (
        "two spm",
        {"transformer-ffn-activation": "gelu", "transformer-postprocess-emb": "nd"} | PRE_NORM,
    ),
    "marian_separate": (
        "two yml",
        {"tied-embeddings": True, "transformer-ffn-activation": "relu", "output-omit-bias": True},
    ),
}


def write_package(folder):
    """Writes the package whose name in `MODELS` is that of the folder."""
    vocabulary, options = MODELS[folder.name]
    pairs = _read_pairs("train", 0, LONGEST)[:NUM_PAIRS] + NASTY[:2] * 30
    vocabularies, processors = _write_vocabularies(folder, vocabulary, pairs)
    # Marian splits text itself where its vocabulary is a SentencePiece model.
    split = [_as_it_is if "spm" in vocabulary else _to_pieces(p) for p in processors]
    (folder / "decoder.yml").write_text(
        f"relative-paths: true\nmodels:\n  - {MODEL}\nvocabs:\n"
        + "".join(f"  - {path.name}\n" for path in vocabularies)
        + "beam-size: 4\nnormalize: 1\nword-penalty: 0\nmini-batch: 1\nmaxi-batch: 1\n"
    )
    translated = _read_pairs("test", 0, LONGEST)[:NUM_TRANSLATED] + NASTY
    scored = translated + _read_pairs("test", 50, 100)[:NUM_LONG]
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        _write_text(scratch / "train", pairs, split)
        _train(folder, scratch, vocabularies, options)
        _write_text(scratch / "test", scored, split)
        expected = {
            "pairs": _score(folder, scratch, vocabularies, processors, scored),
            "translations": _translate(folder, [split[0](source) for source, _ in translated]),
        }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def _read_pairs(split, shortest, longest):
    """Returns the pairs whose source has so many characters."""
    with lzma.open(CORPUS, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    rows = [row for row in rows if row[0] == split and shortest <= len(row[1]) <= longest]
    return [(source, target) for _, source, target in rows]


def _write_vocabularies(folder, kind, pairs):
    """Returns (the two files that Marian gets, the two processors that split text)."""
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    if kind == "spm":
        path = folder / "vocab.spm"
        path.write_bytes(_train_spm(sides[0] + sides[1]))
        names = [path, path]
    else:
        names = [folder / "source.spm", folder / "target.spm"]
        for path, text in zip(names, sides, strict=True):
            path.write_bytes(_train_spm(text))
    processors = [sentencepiece.SentencePieceProcessor(model_file=str(p)) for p in names]
    if "yml" not in kind:
        return names, processors
    split = [list(map(_to_pieces(p), text)) for p, text in zip(processors, sides, strict=True)]
    if kind == "yml":
        paths, texts = [folder / "opus.vocab.yml"] * 2, [split[0] + split[1]] * 2
    else:
        paths, texts = [folder / "opus.src.vocab.yml", folder / "opus.trg.vocab.yml"], split
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(_marian("vocab", stdin="\n".join(text) + "\n"))
    return paths, processors


def _train_spm(text, vocab_size=110):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=vocab_size,
        model_type="unigram", character_coverage=1.0, normalization_rule_name="identity",
        bos_id=-1, eos_id=0, unk_id=1, num_threads=1, minloglevel=2,
        hard_vocab_limit=False,
    )  # fmt: skip
    return model.getvalue()


def _as_it_is(text):
    return text


def _to_pieces(processor):
    """Returns a function of text to its pieces, separated by spaces."""
    return lambda text: " ".join(processor.encode(text, out_type=str))


def _write_text(path, pairs, split):
    for side in (0, 1):
        lines = [split[side](pair[side]) for pair in pairs]
        path.with_suffix(f".{side}").write_text("\n".join(lines) + "\n", newline="\n")


def _train(folder, scratch, vocabularies, options):
    config = SIZES | options
    arguments = [f"--{name}={value}" for name, value in config.items() if value is not True]
    arguments += [f"--{name}" for name, value in config.items() if value is True]
    _marian(
        "train", "--model", scratch / "opus.npz", *arguments, "--cpu-threads=1", "--seed=1",
        "--train-sets", scratch / "train.0", scratch / "train.1", "--vocabs", *vocabularies,
        "--workspace=128", "--mini-batch=32", "--after=600u", "--learn-rate=0.01",
        "--overwrite", "--max-length=100",
    )  # fmt: skip
    shutil.copy(scratch / "opus.npz", folder / MODEL)


def _score(folder, scratch, vocabularies, processors, pairs):
    """Returns, per pair, its text, its pieces and Marian's log-probability of each."""
    printed = _marian(
        "score", "--model", folder / MODEL, "--vocabs", *vocabularies,
        "--train-sets", scratch / "test.0", scratch / "test.1", "--word-scores",
        "--cpu-threads=1", "--workspace=128",
    )  # fmt: skip
    rows = []
    for pair, line in zip(pairs, printed.decode().splitlines(), strict=True):
        pieces = [p.encode(text, out_type=str) for p, text in zip(processors, pair, strict=True)]
        scores = line.split("WordScores=")[1].strip()
        assert scores.count(" ") == len(pieces[1])
        rows.append({"source": pair[0], "target": pair[1], "log_probs": scores})
        rows[-1] |= {"source_pieces": " ".join(pieces[0]), "target_pieces": " ".join(pieces[1])}
    return rows


def _translate(folder, sources):
    """Returns Marian's best translation of each source: its pieces and its score."""
    printed = _marian(
        "decode", "--config", folder / "decoder.yml", "--n-best", "--no-spm-decode",
        "--cpu-threads=1", "--workspace=128", stdin="\n".join(sources) + "\n",
    )  # fmt: skip
    best = {}
    for line in printed.decode().split("\n")[:-1]:
        number, text, _, score = line.split(" ||| ")
        best.setdefault(int(number), {"pieces": text, "score": float(score)})
    return [best[number] for number in range(len(sources))]


def _marian(*arguments, stdin=""):
    command = [sys.executable, "-m", "pymarian", *map(str, arguments)]
    done = subprocess.run(command, input=stdin.encode(), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-3000:])
    return done.stdout
