"""Words, numbers and JSON for both front ends; no click, no textual."""

from ckptui.display.text import age, number, plural, size, visible

__all__ = ["age", "number", "plural", "size", "visible"]
