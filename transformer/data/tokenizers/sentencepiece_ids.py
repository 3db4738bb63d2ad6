"""Gives a SentencePiece model of any ids the control ids of this project."""

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from transformer.special_tokens import BOS, EOS, PAD, UNK

CONTROL = {"pad": PAD, "bos": BOS, "eos": EOS, "unk": UNK}  # in the order of the ids


def with_own_ids(model: bytes, processor: SentencePieceProcessor) -> bytes:
    """Returns a model that splits text into the same pieces, with the ids of `CONTROL`.

    The control tokens come first, those that are missing are added, and the other pieces follow in
    their order: <unk> <s> </s> ▁a b, as spm_train makes it, becomes <pad> <s> </s> <unk> ▁a b.
    processor: of the model. Raises ValueError if one that is missing is the name of a piece.
    """
    ids = {name: getattr(processor, f"{name}_id")() for name in CONTROL}  # -1: there is none
    if ids == CONTROL:
        return model
    # pyrefly: ignore[missing-attribute]: protobuf makes the class when it is imported
    spec = sentencepiece_model_pb2.ModelProto.FromString(model)
    own, pieces, trainer = type(spec).FromString(model), list(spec.pieces), spec.trainer_spec
    del own.pieces[:]
    for name, token in CONTROL.items():
        text = getattr(trainer, f"{name}_piece")
        if ids[name] < 0 and any(p.piece == text for p in pieces):
            raise ValueError(f"The SentencePiece model has no control token {text!r} but a piece.")
        control = type(pieces[0])(piece=text, type=type(pieces[0]).CONTROL)
        own.pieces.append(pieces[ids[name]] if ids[name] >= 0 else control)
        setattr(own.trainer_spec, f"{name}_id", token)
    own.pieces.extend(p for index, p in enumerate(pieces) if index not in ids.values())
    own.trainer_spec.vocab_size = len(own.pieces)
    return own.SerializeToString()
