"""A translator without a model: it says text backwards, and notes what it was asked."""

from transformer.inference.translation import Translation


class Killed(BaseException):
    """Ends a process as a signal that cannot be caught does, as far as a test can."""


class FakeTranslator:
    """Notes all `sentences` that it is asked for; raises `Killed` at the sentence `dies_at`."""

    num_truncated = 0

    def __init__(self, dies_at=None, checkpoint="fake (1)"):
        self.identity = lambda: {"checkpoint": checkpoint}
        self.dies_at, self.sentences, self.options = dies_at, [], []

    def translate(self, sentences, *, nbest=None, prefixes=None, **options):
        if self.dies_at in sentences:
            raise Killed
        self.sentences += sentences
        self.options.append(options)
        beginnings = prefixes or [""] * len(sentences)
        texts = [p + s[::-1] for p, s in zip(beginnings, sentences, strict=True)]
        best = [[Translation(t, -i / 2, -float(i), [1]) for i in range(nbest or 1)] for t in texts]
        return best if nbest else [found[0] for found in best]

    def score(self, sources, targets):
        self.sentences += sources
        pairs = zip(sources, targets, strict=True)
        return [Translation(t, -len(s), -len(t), [1, 2]) for s, t in pairs]
