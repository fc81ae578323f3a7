"""Widgets: they show state and post messages; none of them touches the disk."""
