"""JSON that every parser reads: strict, and free of text that UTF-8 cannot carry."""

from __future__ import annotations

import json
import math
from typing import Any

from ckptui.display.text import encodable


def strict_json(form: dict[str, Any], *, indent: int | None = None) -> str:
    r"""A form as strict JSON in ASCII.

    Text that no UTF-8 can carry (a byte of a file name) becomes `\xNN`, a number that is not finite
    null.
    """
    try:
        text = json.dumps(form, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(_clean(form), indent=indent, allow_nan=False)
    if "\\ud" in text:  # a lone surrogate, or half of a character beyond the basic plane
        return json.dumps(_clean(form), indent=indent, allow_nan=False)
    return text


def _clean(value: Any) -> Any:
    """The value with nothing in it that strict JSON could not carry."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(k)): _clean(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
