"""Refuse arguments, predicates and indexes that a plan would otherwise ignore silently, or warn about them."""

from __future__ import annotations

import warnings
from typing import Any

from parsieve._core import UnsupportedError
from parsieve.errors import ParsieveWarning, StaleIndexError
from parsieve.plan.evidence.index.apply import REASONS
from parsieve.plan.explain import SHOWN
from parsieve.plan.record import PlanRecord
from parsieve.predicate.bind import BoundPredicate
from parsieve.predicate.builder import explain_unknown
from parsieve.wording import count


def check_arguments(as_of: Any, on_unknown: str) -> None:
    """Raise an error for arguments of `Table.plan` that were passed in the wrong place."""
    if on_unknown not in ("warn", "error", "ignore"):
        raise ValueError(f'on_unknown must be "warn", "error" or "ignore", not {on_unknown!r}')
    if isinstance(as_of, list | tuple | dict):
        raise TypeError(
            f"as_of must be a version or a datetime, not a {type(as_of).__name__}; pass values for ? as params=[...]"
        )


def report_unknown(bound: BoundPredicate, on_unknown: str) -> None:
    """Warn the caller of `Table.plan` about each part of the predicate that is not understood, or raise an error."""
    texts = list(dict.fromkeys(explain_unknown(part) for part in bound.unknown))
    if len(texts) > SHOWN:
        more = len(texts) - SHOWN
        texts[SHOWN:] = [f"{count(more, 'more condition')} {'excludes' if more == 1 else 'exclude'} nothing"]
    if texts and on_unknown == "error":
        raise UnsupportedError("; ".join(texts))
    if on_unknown == "warn":
        for text in texts:
            warnings.warn(text, ParsieveWarning, stacklevel=3)


def refuse_stale(record: PlanRecord, is_indexed: bool) -> None:
    """Raise `StaleIndexError` if a plan keeps files that no index covers, or if the index could not be used."""
    if record.keeps and not (is_indexed or record.notes):
        raise StaleIndexError(
            f"{record.lake.uri} has no index, so {count(len(record.keeps), 'file')} must be read, such as "
            f'{record.keeps[0].path}. Build one with build_index(), or plan with stale="keep"'
        )
    paths = [keep.path for keep in record.keeps if REASONS.intersection(keep.doubt)]
    if not paths and not record.notes:
        return
    reasons = [note.removeprefix("the index cannot be used: ").removeprefix("the index, ") for note in record.notes]
    if paths:
        reasons.append(f"it does not cover {count(len(paths), 'file')}, such as {paths[0]}")
    state, remedy = _state_and_remedy(record)
    raise StaleIndexError(
        f'the index of {record.lake.uri} {state}: {"; ".join(reasons)}. {remedy} plan with stale="keep"'
    )


def _state_and_remedy(record: PlanRecord) -> tuple[str, str]:
    """Return the problem of a plan's index, and the remedy. An update does not repair damage."""
    if record.health == "unusable":
        return "cannot be used", "To read the files without it,"
    if record.health == "sound":
        return "is out of date", "Bring it up to date with update_index(), or"
    has_damaged_map = record.pages is not None and bool(record.pages.doubts)
    argument = "..., pages=True" if has_damaged_map else ""
    return "is damaged", f"Build it again with build_index({argument}), or"
