"""The commands: each reads a command line, calls public functions and prints."""
