"""Folders of Hugging Face with random translation models, and what those compute.

Made tests/golden (m2m100, mbart, nllb, marianmt_*), with the makers of the others that are at
commit 7032c60, and makes models of the tests that run beside transformers. Needs torch and
transformers. The weights are random, but for an end of sentences that is likely.
"""

import io
import json

import numpy as np

from transformer.data.corpora.languages import M2M100, NLLB

ENGLISH = [f"The cat no. {i} sat on the mat, isn't it?" for i in range(200)]
GERMAN = [f"Die Katze Nr. {i} saß auf der Matte, über {i % 7} Mäusen." for i in range(200)]
CONTROL = ["<s>", "<pad>", "</s>", "<unk>"]
SIZES = dict(d_model=16, num_layers=2, num_decoder_layers=1, num_heads=2, d_ff=24)
GAIN = 2.0  # of the matrices: more of it makes less repetitive translations
END = 1.0  # what makes the end of a sentence likelier than a random piece, in nats
FAIRSEQ = {"m2m100": "m2m_100", "nllb": "m2m_100", "mbart": "mbart"}
LANGUAGES = {"m2m100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn"), "mbart": ("en_XX", "de_DE")}


def train_sentencepiece(text, size, **options):
    """Returns a small SentencePiece model and its pieces without the control ids.

    Without a normalisation, whose table alone would be 240 kB, unless `options` name one.
    """
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=size, minloglevel=2,
        num_threads=1, hard_vocab_limit=False,
        **{"normalization_rule_name": "identity"} | options,
    )  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    return model.getvalue(), [processor.id_to_piece(i) for i in range(3, len(processor))]


def make_marian(
    folder, *, is_shared=True, texts=(ENGLISH, GERMAN), vocab_size=40, sentencepiece=(), **changes
):
    """Writes a random MarianMT model with its tokenizer; returns (model, tokenizer) of theirs."""
    import transformers

    models = [train_sentencepiece(text, vocab_size, **dict(sentencepiece)) for text in texts]
    lists = [pieces for _, pieces in models]
    if is_shared:
        lists = [list(dict.fromkeys([*lists[0], *lists[1]]))] * 2
    lists = [["</s>", "<unk>", *pieces, "<pad>"] for pieces in lists]
    if not is_shared:  # theirs have one id for padding on both sides
        longest = max(map(len, lists))
        lists = [
            [*pieces[:-1], *(f"⟨{i}⟩" for i in range(longest - len(pieces))), "<pad>"]
            for pieces in lists
        ]
    for name, pieces in zip(("vocab", "target_vocab")[: 2 - is_shared], lists, strict=False):
        content = json.dumps({piece: i for i, piece in enumerate(pieces)}, ensure_ascii=False)
        (folder / f"{name}.json").write_text(content)
    for side, (model, _) in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    about = {"source_lang": "en", "target_lang": "de", "separate_vocabs": not is_shared}
    about["tokenizer_class"] = "MarianTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    pad = len(lists[1]) - 1
    config = transformers.MarianConfig(
        **settings_of(changes), vocab_size=len(lists[0]), decoder_vocab_size=len(lists[1]),
        share_encoder_decoder_embeddings=is_shared, pad_token_id=pad, decoder_start_token_id=pad,
        eos_token_id=0, bos_token_id=0, forced_eos_token_id=0,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    randomize(model, eos=0)
    model.generation_config.update(
        bad_words_ids=[[pad]], num_beams=4, max_length=512, renormalize_logits=True
    )
    model.save_pretrained(folder)
    return model, transformers.MarianTokenizer.from_pretrained(folder)


def make_fairseq(
    folder, kind, *, texts=(ENGLISH, GERMAN), vocab_size=45, sentencepiece=(), **changes
):
    """Writes a random model of kind m2m100, nllb or mbart; returns (model, tokenizer) of theirs."""
    import transformers

    options = {"model_type": "bpe" if kind == "nllb" else "unigram"} | dict(sentencepiece)
    model, pieces = train_sentencepiece([*texts[0], *texts[1]], vocab_size, **options)
    (folder / "sentencepiece.bpe.model").write_bytes(model)
    source, target = LANGUAGES[kind]
    name = {"m2m100": "M2M100", "nllb": "Nllb", "mbart": "MBart50"}[kind] + "Tokenizer"
    if kind == "m2m100":
        content = {piece: i for i, piece in enumerate([*CONTROL, *pieces])}
        (folder / "vocab.json").write_text(json.dumps(content, ensure_ascii=False))
    about = {"tokenizer_class": name, "src_lang": source, "tgt_lang": target}
    if kind == "nllb":
        about["additional_special_tokens"] = NLLB.split()
        added = enumerate([*NLLB.split(), "<mask>"], len(CONTROL) + len(pieces))
        about["added_tokens_decoder"] = {
            str(i): {"content": piece, "special": True} for i, piece in added
        }
    if kind == "m2m100":
        about["additional_special_tokens"] = [f"__{name}__" for name in M2M100.split()]
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    tokenizer = getattr(transformers, name).from_pretrained(
        folder, src_lang=source, tgt_lang=target
    )
    count = {"m2m100": 100, "nllb": 202 + 3, "mbart": 52 + 1}[kind]
    kinds = {
        "m2m_100": (transformers.M2M100Config, transformers.M2M100ForConditionalGeneration),
        "mbart": (transformers.MBartConfig, transformers.MBartForConditionalGeneration),
    }
    make_config, make_model = kinds[FAIRSEQ[kind]]
    config = make_config(
        **settings_of(changes), vocab_size=len(CONTROL) + len(pieces) + count,
        pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2,
    )  # fmt: skip
    model = make_model(config)
    randomize(model, eos=2)
    model.generation_config.update(num_beams=4, max_length=200)
    model.save_pretrained(folder)
    return model, tokenizer


def settings_of(changes):
    """The settings of a config.json with the sizes of this file but for `changes`."""
    sizes = SIZES | {name: value for name, value in changes.items() if name in SIZES}
    rest = {name: value for name, value in changes.items() if name not in SIZES}
    sides = {}
    for stack, depth in (("encoder", "num_layers"), ("decoder", "num_decoder_layers")):
        sides |= {f"{stack}_layers": sizes[depth], f"{stack}_ffn_dim": sizes["d_ff"]}
        sides[f"{stack}_attention_heads"] = sizes["num_heads"]
    return {
        "d_model": sizes["d_model"], **sides, "activation_function": "swish",
        "scale_embedding": True, "max_position_embeddings": 64, **rest,
    }  # fmt: skip


def randomize(model, eos, seed=0):
    """Draws weights with which the model has opinions, and translations of many lengths."""
    import torch

    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, array in model.named_parameters():
            noise = torch.randn(array.shape, generator=rng)
            if "embed_positions" in name and model.config.model_type == "marian":
                continue
            if any(part in name for part in ("shared", "embed_tokens", "embed_pos")):
                array.copy_(0.5 * noise / array.shape[-1] ** 0.5)
            elif array.ndim > 1:
                array.copy_(GAIN * noise / array.shape[-1] ** 0.5)
            else:
                array.copy_(0.3 * noise + ("norm" in name and name.endswith("weight")))
        bias = getattr(model, "final_logits_bias", None)
        if bias is not None:
            bias.copy_(0.3 * torch.randn(bias.shape, generator=rng))
            bias[0, eos] += 0.9 * END
        else:
            shift = model.model.decoder.layer_norm.bias
            model.model.shared.weight[eos] += END * shift / (shift @ shift)
    model.eval()


def tokenize(tokenizer, sentences):
    """Returns their ids of sentences, padded, and which of them are no padding."""
    batch = tokenizer(sentences, return_tensors="pt", padding=True)
    return batch.input_ids, batch.attention_mask


def decode(tokenizer, rows):
    """Returns the texts of rows of ids [B, T], by the target's SentencePiece model."""
    if not hasattr(tokenizer, "tgt_lang"):
        options = {"skip_special_tokens": True, "use_source_tokenizer": False}
        return [tokenizer.decode(row, **options) for row in rows]
    start = 2  # behind the token that a decoder starts with, and the language
    return [tokenizer.decode(row[start:], skip_special_tokens=True) for row in rows]


def compute_logits(model, inputs, mask, targets):
    """Returns their float32 logits [B, T, V] of targets [B, T], which they shift themselves."""
    import torch

    with torch.no_grad():
        output = model(input_ids=inputs, attention_mask=mask, labels=targets)
    return output.logits.float().numpy()


def search(model, inputs, mask, width, *, extra, alpha=1.0, first=None, num_best=1):
    """Returns their translations as ours search: (sequences [B, num_best, T], scores).

    Every sentence ends `extra` pieces after its source at the latest, with the probability that it
    has there. first: the language that they are to begin with, which costs nothing. Their "never"
    is the exact end of a search; of the 2W best continuations they let only those end that are
    among the first W.
    """
    import torch

    rule = type(model)._update_finished_beams

    def let_all_end(*, top_num_beam_mask, **kwargs):
        return rule(model, top_num_beam_mask=top_num_beam_mask | True, **kwargs)

    model._update_finished_beams = let_all_end
    end, num_rows = model.config.eos_token_id, len(inputs)
    longest = (mask.sum(1) + extra).repeat_interleave(width)
    size = getattr(model.config, "decoder_vocab_size", None) or model.config.vocab_size
    vocabulary = torch.arange(size)

    def end_in_time(ids, scores):
        scores = scores.log_softmax(-1)  # once more, as some words have been forbidden
        is_last = (ids.shape[1] >= longest)[:, None]
        if first is not None and ids.shape[1] == 1:
            scores = torch.where(vocabulary == first, 0.0, -np.inf).expand_as(scores)
        return scores.masked_fill(is_last & (vocabulary != end), -np.inf)

    found = model.generate(
        inputs, attention_mask=mask, num_beams=width, num_return_sequences=num_best,
        do_sample=False, max_new_tokens=int(longest.max()), max_length=None, length_penalty=alpha,
        early_stopping="never" if width > 1 else None, forced_eos_token_id=None,
        renormalize_logits=False, logits_processor=[end_in_time], return_dict_in_generate=True,
        output_scores=True,
    )  # fmt: skip
    sequences = found.sequences.view(num_rows, num_best, -1)
    if width > 1:
        return sequences, found.sequences_scores.view(num_rows, num_best).numpy()
    return sequences, None


SENTENCES = ["The cat no. 7 sat.", "isn't it?", "mat", "The mat no. 93 sat on the cat, it isn't."]
TRANSLATIONS = ["Die Katze Nr. 7 saß.", "Mäusen?", "Matte", "über der Katze"]
MODELS = ("marianmt_shared", "marianmt_separate", "m2m100", "nllb", "mbart")
EXTRA = 6  # the most pieces that a translation has more than its source


def write_folder(folder):
    """Writes a model, and what it makes of SENTENCES: expected.npz and expected.json."""
    kind = folder.name
    if kind.startswith("marianmt"):
        model, tokenizer = make_marian(folder, is_shared=kind == "marianmt_shared")
    else:
        model, tokenizer = make_fairseq(folder, kind)
    inputs, mask = tokenize(tokenizer, SENTENCES)
    targets = tokenizer(text_target=TRANSLATIONS, return_tensors="pt", padding=True).input_ids
    logits = compute_logits(model, inputs[1:2], mask[1:2], targets[1:2])
    first = targets[0, 0].item() if kind in LANGUAGES else None
    searches = {}
    for width in (1, 4):
        ids, scores = search(model, inputs, mask, width, extra=EXTRA, first=first)
        texts = decode(tokenizer, ids[:, 0])
        end = model.config.eos_token_id
        rows = [row[: row.index(end) + 1] for row in ids[:, 0, 1:].tolist()]
        scores = None if scores is None else scores[:, 0].astype(float).tolist()
        searches[width] = {"ids": rows, "texts": texts, "scores": scores}
    arrays = {"inputs": inputs.numpy(), "targets": targets.numpy(), "logits": logits}
    np.savez_compressed(folder / "expected.npz", **arrays)
    (folder / "expected.json").write_text(json.dumps(searches, ensure_ascii=False) + "\n")
