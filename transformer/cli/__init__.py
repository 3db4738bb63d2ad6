"""The commands: flags, exit codes and what train.py and eval.py print."""
