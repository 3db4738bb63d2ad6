"""Ids that every vocabulary reserves for control tokens; no text can produce them."""

PAD, BOS, EOS, UNK = range(4)
NUM_SPECIAL = 4
SPECIAL_NAMES = ("<pad>", "<s>", "</s>", "<unk>")  # in pictures
