"""Simulated power loss: recorded file operations, and every directory they could have left."""
