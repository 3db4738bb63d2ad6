"""Arrays of other systems: files of tensors, tables of names, exact changes of weights."""
