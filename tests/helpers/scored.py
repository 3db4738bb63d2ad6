"""Evaluations of texts that a test writes itself, without a model."""

from transformer.config import Config
from transformer.evaluation.comparison import ComparedRun
from transformer.evaluation.metrics import all_references
from transformer.evaluation.translation import make_evaluation
from transformer.inference.translation import Translation

CORPUS = [  # (source, reference, translation)
    ("a dog runs", "ein Hund rennt", "ein Hund rennt"),
    ("a cat sleeps on the old mat", "eine Katze schläft auf der alten Matte", "eine Katze schläft"),
    ("two men look at a red car", "zwei Männer sehen ein rotes Auto an", "zwei Männer sehen an"),
    ("she reads", "sie liest", "er liest viel"),
    ("one " * 14, "eins " * 14, "eins " * 12),
    ("rain falls on the roof of the barn", "Regen fällt auf das Dach", "Regen fällt auf das Dach"),
]


def evaluation(rows=CORPUS, *, tokenize="13a", selection_metric="bleu", maps=(), **options):
    """An `Evaluation` of (source, reference, translation); references cost 2 nats per word."""
    config = Config()
    config.data.bleu_tokenize, config.data.selection_metric = tokenize, selection_metric
    sources, references, texts = (list(side) for side in zip(*rows, strict=True))
    translations = [Translation(text, score=-0.5, log_prob=-1.0) for text in texts]
    lengths = [len(all_references(reference)[0].split()) + 1 for reference in references]
    columns = sources, references, translations, [(-2.0 * length, length) for length in lengths]
    usual = dict(checkpoint="last (20)", corpus="own", search={"beam_size": 4}, vocab_size=100)
    usual |= dict(longest_source=256, num_bootstrap=20)
    result = make_evaluation(config, *columns, **usual | options)
    result.maps = list(maps)
    return result


def compared(path, result, *, vocabulary=1, **settings):
    """A run that reached this; settings: those of its configuration, "." written as "__"."""
    changes = {name.replace("__", "."): value for name, value in settings.items()}
    return ComparedRun(
        path=path,
        checkpoint=result.checkpoint,
        step=20,
        config=result.config.with_values(changes),
        num_parameters=1_234_567,
        vocabulary=vocabulary,
        corpus=result.corpus,
        scores=result.scores,
        segments=result.segments,
        origin={},
    )
