"""The tasks that can be learnt: each defines its batches, loss, metrics and samples."""
