"""Which sentence pairs there are, where they come from, and which are left out."""
