"""The models as Flax modules: tensors in, tensors out."""
