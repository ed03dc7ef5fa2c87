"""What all renderings begin with: the monotone form, and the refusal of what was not understood."""

from __future__ import annotations

from parsieve._core import UnsupportedError
from parsieve.predicate.expr import Expr, unknowns
from parsieve.predicate.normalize import normalize


def renderable(expr: Expr) -> Expr:
    """The monotone form of an expression that is understood whole."""
    form = normalize(expr)
    found = unknowns(form)
    if found:
        raise UnsupportedError(
            f"{found[0].text!r} is not understood, so no engine can be asked for its rows ({found[0].reason}); "
            "plan without it, and filter the rows of plan.files yourself"
        )
    return form
