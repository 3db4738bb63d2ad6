"""The settings of the text or images, and of how text becomes tokens."""

from dataclasses import dataclass

from transformer.config.setting import SPEED_ONLY, Settings, count, rate, setting
from transformer.registry import METRICS

BLEU_TOKENISATIONS = ("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none")
TOKENIZERS = ("sentencepiece", "byte_level", "pieces", "characters", "imported")


@dataclass
class DataConfig(Settings):
    """The text or images. A split may be a part of another one: "train[:90%]"."""

    corpus: str = setting(
        "embedded",
        "embedded, a folder, a file or pattern of names, tfds:NAME or sklearn:digits; pairs also "
        "from several, with weights and tags: a@2,b@0.5#<bt>.",
        is_path=True,
        is_list=True,
    )
    source_language: str = setting("en", "Source language, as files name it.", automatic="auto")
    target_language: str = setting("de", "Target language, as files name it.", automatic="auto")
    train_split: str = setting("train", "Split to train on.")
    validation_split: str = setting("validation", "Split to choose the best checkpoint by.")
    test_split: str = setting("test", "Split that is scored at the end.", resumable=True)
    held_out: str = setting(
        "", "Splits that are shares of the training text: validation@2%,test@2%.", automatic="auto"
    )
    max_validation_sentences: int = setting(
        1000, "Translated at each evaluation; 0: all.", resumable=True, automatic=-1
    )
    selection_metric: str = setting("bleu", "Chooses the best checkpoint.", choices=METRICS)
    bleu_tokenize: str = setting(
        "13a",
        "Tokenisation of sacreBLEU; none if the text is tokenised already.",
        choices=BLEU_TOKENISATIONS,
        resumable=True,
        automatic="auto",
    )
    source_noise: str = setting(
        "",
        "Damage to each source; with equal languages a text is both source and target.",
        choices=("", "misspell", "remove_accents"),
    )
    corpus_temperature: float = setting(
        1.0, "T: several corpora are shown in proportion to weight · pairs^(1/T).", at_least=1
    )
    row_length: int = count(
        256, "Tokens in a packed row; longer sentences are left out.", at_most=2**20
    )
    max_length_ratio: float = setting(
        9.0, "Largest ratio of a training pair's two lengths in tokens; 0: no limit."
    )
    drop_identical: bool = setting(True, "Leave out training pairs whose two sides are equal.")
    drop_duplicates: str = setting(
        "",
        "Leave out training pairs of which this part, or either side, occurred before.",
        choices=("", "pair", "source", "target", "either"),
    )
    drop_without_letters: bool = setting(
        False, "Leave out training pairs of which a side has no letter."
    )
    drop_wrong_script: bool = setting(
        False, "Leave out training pairs of which a side is in a script of another language."
    )
    drop_overlap: bool = setting(
        False, "Leave out training pairs with a sentence of the validation or test split."
    )
    cache: str = setting(
        "",
        "Folder of prepared corpora, local or gs://; empty: prepared_corpora beside the work "
        "directory.",
        is_path=True,
        **SPEED_ONLY,
    )
    cache_key: str = setting(
        "time",
        "What tells that a corpus has changed: path, size and time of its files, or their hash.",
        choices=("time", "hash"),
        **SPEED_ONLY,
    )
    prepare_workers: int = setting(
        0, "Processes that prepare a corpus; 0: as many as cores.", at_most=1024, **SPEED_ONLY
    )
    subword_dropout: float = rate(
        0.0, "BPE-dropout: the probability with which a merge is dropped, anew in each epoch."
    )
    mask_rate: float = rate(0.15, "Share of the tokens that a masked language model has to guess.")
    patch_size: int = setting(
        4, "Side of an image's square patches in pixels; a patch is one position.", at_least=1
    )
    flip_images: bool = setting(
        False, "Mirror half of the training images left to right, drawn anew in each batch."
    )
    crop_padding: int = setting(
        0, "Move each training image by up to so many pixels, drawn anew.", at_most=1024
    )

    @property
    def languages(self) -> tuple[str, str]:
        """(source language, target language)."""
        return self.source_language, self.target_language


@dataclass
class TokenizerConfig(Settings):
    """How text becomes tokens."""

    kind: str = setting(
        "sentencepiece",
        "Tokenizer; byte_level: BPE of bytes, as GPT-2's; pieces: the text is tokenised already; "
        "imported: that of training.init_from.",
        choices=TOKENIZERS,
    )
    target_kind: str = setting(
        "", "Another tokenizer for the target; needs shared=False.", choices=("", *TOKENIZERS)
    )
    model: str = setting(
        "", "File of the SentencePiece model; empty: train one from the corpus.", is_path=True
    )
    vocab_size: int = count(37_000, "Size of a SentencePiece or byte-level vocabulary to train.")
    shared: bool = setting(True, "One vocabulary for both languages.")
    joiner: str = setting(
        "@@", "With kind=pieces: marks the end of a piece that the next one continues."
    )

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of the source's and of the target's tokenizer."""
        return self.kind, self.target_kind or self.kind
