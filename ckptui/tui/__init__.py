"""The browser of checkpoints in the terminal, on Textual."""
