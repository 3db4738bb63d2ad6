"""The search of a translation: its options, and how it is applied to the model."""

from dataclasses import dataclass

from transformer.decoding import Rules, beam_search, greedy_search, make_length_penalty, sample
from transformer.tokenizer import BOS, EOS


@dataclass(frozen=True)
class Search:
    """The options of one search; each set is compiled once a shape."""

    beam_size: int
    alpha: float
    length_penalty: str
    max_extra_length: int
    num_best: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    @classmethod
    def from_config(cls, decoding, **options):
        names = ("beam_size", "alpha", "length_penalty", "max_extra_length")
        chosen = {name: getattr(decoding, name) for name in names} | options
        try:
            search = cls(**chosen)
        except TypeError:
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(
                f"The options of translate are {known}, not {', '.join(options)}."
            ) from None
        return search._checked()

    def _checked(self):
        for name, is_right, wanted in (
            ("beam_size", self.beam_size >= 1, "at least 1"),
            ("num_best", self.num_best >= 1, "at least 1"),
            ("num_best", self.sample or self.num_best <= self.beam_size, "at most beam_size"),
            ("alpha", self.alpha >= 0, "at least 0"),
            ("temperature", self.temperature > 0, "above 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
        ):
            if not is_right:
                raise ValueError(f"{name} must be {wanted}, not {getattr(self, name)}.")
        return self


def search(model, options, params, inputs, lengths, rngs):
    """Encodes inputs [B, S] of `lengths` [B] and searches: `Hypotheses` [B, W, S + extra]."""
    variables = {"params": params}
    encoded = model.apply(variables, inputs, lengths, method="encode_for_search")

    def step_fn(tokens, cache, position):
        return model.apply(variables, tokens, cache, position, encoded, method="decode_step")

    max_length = inputs.shape[1] + options.max_extra_length
    width = options.num_best if options.sample else options.beam_size
    cache = model.apply(variables, inputs.shape[0], width, max_length, method="init_cache")
    penalty = make_length_penalty(options.length_penalty, options.alpha)
    rules = Rules(lengths + options.max_extra_length, max_length, penalty, BOS, EOS)
    if options.sample:
        settings = dict(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
        return sample(step_fn, cache, rules, rngs, num_samples=width, **settings)
    if width == 1:
        return greedy_search(step_fn, cache, rules)
    return beam_search(step_fn, cache, rules, beam_size=width, num_best=options.num_best)
