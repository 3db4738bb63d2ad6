"""The control ids of vocabularies that are learnt here."""

from transformer.special_tokens import OWN_IDS

PAD, BOS, EOS, UNK = OWN_IDS[:4]
