"""The task of translation."""

from collections import Counter
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from etils import epath
from flax import linen as nn

from transformer.checkpoint.restore import restore
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import quantity
from transformer.data.corpora.cleaning import length_warnings
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.pair_files import Pairs
from transformer.data.corpora.training_text import TrainingText, load_evaluation_pairs
from transformer.data.prepared.corpus import PreparedCorpus
from transformer.data.prepared.prepare import Share, training_corpus
from transformer.data.rows.batch import Batch
from transformer.data.rows.bpe_dropout import SubwordDropout
from transformer.data.rows.epoch_plan import with_temperature
from transformer.data.rows.packing import PackedBatches, full_rows, num_rows_of_batch
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import load_tokenizers
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.evaluation.metrics import check_tokenisation, score_by, tokenisation_note
from transformer.evaluation.translation import Evaluation, evaluate_translator
from transformer.inference.translator import Translator
from transformer.model.attention import causal_mask, segment_mask
from transformer.model.costs import StepCost, training_flops
from transformer.model.encoder_decoder import Transformer
from transformer.model.loss import LossFn, Sums, make_loss_fn, per_token
from transformer.parallel.hosts import check_same, split_over_hosts
from transformer.parallel.mapping import Parallel
from transformer.registry import METRICS
from transformer.tasks.task import Metrics, Task, with_training_options
from transformer.workdir import WorkDir

FACTS = "path, size or time of change of the text (data.cache_key=hash compares what is in it)"
FEW_PAIRS = 50  # of fewer, a score tells hardly which checkpoint is better
MAX_TOO_LONG = 0.001  # of the training pairs may have a source too long for rows of the best shape


def make_translation_loss_fn(model: nn.Module, label_smoothing: float) -> LossFn:
    """Returns `loss.make_loss_fn`, with what trains the draws of a `Transformer` if it has any.

    With model.attention=hard training adds (R - b) log p(s) for each sample s, whose gradient is
    what a draw does not pass on. R is the loss of the target that the sample is for and, but in the
    last layer, of the later ones of its sentence, which it reaches by self-attention. b, the
    baseline, is the same of the model without dropout that takes the likeliest positions
    (self-critical: Rennie et al., arXiv 1612.00563), so nothing is kept from step to step. Xu et
    al. have a moving average of the loss of the whole sentence. The sums are of the loss alone.
    """
    loss_without_draws = make_loss_fn(model, label_smoothing)
    if not isinstance(model, Transformer) or model.config.attention != "hard":
        return loss_without_draws

    def loss_fn(params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        if rng is None:
            return loss_without_draws(params, batch, None)
        call = partial(model.apply, {"params": params}, batch)
        logits, sown = call(deterministic=False, rngs={"dropout": rng}, mutable=["samples"])
        losses, nll = per_token(logits, batch.targets, label_smoothing)
        baseline, _ = per_token(call(deterministic=True), batch.targets, label_smoothing)
        weights = batch.weights
        advantage = jax.lax.stop_gradient(losses - baseline) * weights
        score = score_of_samples(sown["samples"]["decoder"], advantage, batch.target_segments)
        loss, nll, tokens = (x.sum() for x in (losses * weights, nll * weights, weights))
        return loss + score, {"loss": loss, "nll": nll, "tokens": tokens}

    return loss_fn


def score_of_samples(samples: Any, advantage: jax.Array, segments: jax.Array) -> jax.Array:
    """Returns the sum of (R - b) log p(s) over all samples; advantage [B, T]: of each target."""
    sees = segment_mask(segments, segments)[:, 0] & causal_mask(segments.shape[1])[0]
    gains = [jnp.einsum("BTS,BT->BS", sees, advantage)] * (len(samples) - 1) + [advantage]
    score = jnp.zeros(())
    for i, gain in enumerate(gains):
        (log_probs,) = samples[f"layer_{i}"]["encoder_attention"]["alignment"]["log_probs"]
        score += (gain[:, None] * log_probs).sum()
    return score


class TranslationTask(Task):
    """Sentence pairs, packed into rows; validation also translates."""

    training_batches: PackedBatches
    validation_batches: PackedBatches
    make_loss_fn = staticmethod(make_translation_loss_fn)
    predictor = Translator

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        data, training = config.data, config.training
        self.selection_key = f"validation_{data.selection_metric}"
        self.higher_is_better = METRICS[data.selection_metric].higher_is_better
        check_tokenisation(data.bleu_tokenize)
        self.direction = f"{data.source_language}-{data.target_language}"
        self.corpus, self.tokenizers, splits = self._open_text()
        self.validation_pairs, self.test_pairs = splits
        num_rows = num_rows_of_batch(training.batch_tokens, data.row_length)
        text = self.corpus.source, self.corpus.target
        dropout = None
        if data.subword_dropout:
            dropout = SubwordDropout(self.tokenizers, data.subword_dropout, text, training.seed)
        weights = [corpus.weight for corpus in parse_corpora(data.corpus)]
        self.training_batches, skipped = self._pack(
            *text,
            num_rows,
            parts=with_temperature(self.corpus.parts(weights), data.corpus_temperature),
            too_long=MAX_TOO_LONG,
            subword_dropout=dropout,
        )
        self.num_skipped = self.corpus.left_out + skipped
        sides = zip(self.tokenizers, zip(*self.validation_pairs, strict=True), strict=True)
        source, target, skipped = self._fitting(
            "pair of the validation split", *(Ragged.encode(*side) for side in sides)
        )
        num_rows = -(-num_rows // training.accumulate_steps)  # that a step holds at once
        self.validation_batches, too_long = self._pack(source, target, num_rows)
        self.num_skipped_validation = skipped + too_long
        self.model = self._make_model()

    def _open_text(self) -> tuple[PreparedCorpus, tuple[Tokenizer, Tokenizer], list[Pairs]]:
        """Returns (prepared corpus, made if need be; tokenizers; validation and test pairs).

        What is missing is reported before the corpus is prepared, which may take long.
        """
        data = self.config.data
        text = TrainingText(data)
        evaluation = text.evaluation
        known = load_tokenizers(self._source.path) if self._source else None
        share = Share(jax.process_index(), jax.process_count())
        # Else each waits for the others to prepare parts of a text of their own.
        check_same(FACTS, lambda: repr(text.facts).encode())
        tokenizers, corpus = training_corpus(self.config, text, self.workdir.path, known, share)
        assert corpus is not None  # as the share waits for the others
        self.overlap = corpus.overlap_with(evaluation)
        known_pairs, held_out = text.evaluation_pairs, corpus.held_out
        splits = data.validation_split, data.test_split
        pairs = [known_pairs.get(s) or load_evaluation_pairs(data, s, held_out) for s in splits]
        return corpus, tokenizers, pairs

    def _pack(
        self, source: Any, target: Any, num_rows: int, **options: Any
    ) -> tuple[PackedBatches, Counter[str]]:
        """Returns batches, and the number of pairs that are in none, by reason."""
        batches = PackedBatches(
            source,
            target,
            row_length=self.config.data.row_length,
            rows_per_batch=num_rows,
            seed=self.config.training.seed,
            **options,
        )
        reason = f"more than {batches.shape[0]} source pieces, the source's part of a row"
        return batches, Counter({reason: batches.num_too_long} if batches.num_too_long else {})

    @classmethod
    def model_and_blank_batch(cls, config: Config) -> tuple[Transformer, Batch]:
        """Assumes full vocabularies and rows that are as long for the source as for the target."""
        vocab_size, length = config.tokenizer.vocab_size, config.data.row_length
        model = Transformer(config.model, vocab_size, vocab_size)
        num_rows = num_rows_of_batch(config.training.batch_tokens, length)
        return with_training_options(model, config), Batch.zeros(num_rows, length)

    @classmethod
    def cost_without_data(cls, config: Config) -> StepCost:
        lengths = full_rows(config.training.batch_tokens, config.data.row_length)
        flops = training_flops(config.model, config.tokenizer.vocab_size, lengths, lengths)
        return StepCost(flops, lengths.sum())

    def training_contents(self) -> list[Any]:
        return [self.corpus.header["checksums"]]

    def save(self, folder: epath.Path) -> None:
        super().save(folder)
        self.corpus.save_notes(folder)

    @cached_property
    def cost_per_step(self) -> StepCost:
        lengths, num_steps = self.training_batches.sample_lengths()
        flops = training_flops(self.config.model, self.tokenizers[1].vocab_size, *lengths)
        return StepCost(flops / num_steps, lengths[1].sum() / num_steps)

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics, every translation below its source and reference)."""
        data = self.config.data
        num_sentences = data.max_validation_sentences or len(self.validation_pairs)
        sources, targets = zip(*self.validation_pairs[:num_sentences], strict=True)
        references = [self.tokenizers[1].join_pieces(target) for target in targets]
        with self._predicting(params) as predictor:
            translations = split_over_hosts(
                lambda share: [answer.text for answer in predictor.translate(share)], sources
            )
        sides, tokenize = (translations, references, self.direction), data.bleu_tokenize
        score = score_by(data.selection_metric, *sides, tokenize=tokenize)
        metrics = {**self.evaluate_loss(params), self.selection_key: score.value}
        texts = zip(sources, references, translations, strict=True)
        return metrics, [f"    {a}\n    = {b}\n    > {c}" for a, b, c in texts]

    def score_test_split(self) -> Evaluation:
        self._predictor.use(restore(self.workdir.path))  # its search has been compiled already
        corpus = f"{self.config.data.corpus} {self.config.data.test_split}"
        sources, references = zip(*self.test_pairs, strict=True)
        return evaluate_translator(self._predictor, sources, references, corpus)

    def summary_lines(self) -> list[str]:
        batches, data = self.training_batches, self.config.data
        source_length, target_length = batches.shape
        lines = self._lines(
            f" {self.direction}: {len(batches.source):,} training pairs",
            f"{source_length} + {target_length} tokens, {batches.fill(10):.1%} of them real",
            f"{quantity(len(self.validation_pairs), 'pair')}, "
            f"{quantity(self.validation_batches.batches_per_epoch, 'batch')}",
        )
        if batches.subword_dropout:
            source, target = (f"{growth - 1:.0%}" for growth in batches.subword_dropout.growth)
            lines.append(
                f"subwords    {data.subword_dropout:g} of the merges dropped: sources have "
                f"{source} more pieces, targets {target}"
            )
        warnings = length_warnings(self.num_skipped, len(batches.source))
        if len(self.validation_pairs) < FEW_PAIRS:
            warnings.append(
                f"{len(self.validation_pairs)} validation pairs are too few to tell which "
                f"checkpoint is best: use {FEW_PAIRS} or more, from files or by data.held_out"
            )
        warnings += [self.overlap] if self.overlap else []
        if note := tokenisation_note(data.bleu_tokenize, data.target_language):
            lines.append(f"note        {note}")
        return lines + [f"warning     {warning}" for warning in warnings]
