"""A whole training killed at every one of its file operations, and started again."""
