"""Small SentencePiece models with other options than ours."""

import io

import sentencepiece


def train_model(text, vocab_size, **options):
    """The bytes of a model as spm_train makes it; by default unk is 0, bos 1, eos 2."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text), model_writer=model, vocab_size=vocab_size, minloglevel=2,
        num_threads=1, **options,
    )  # fmt: skip
    return model.getvalue()


def pieces_of(model):
    """The pieces of a model without its control ids."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
