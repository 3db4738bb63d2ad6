"""The network: masks, attention, blocks, the models made of them, and their loss. Knows no text."""
