"""Random regular expressions, texts that they may match, and whether a text contains the text that they require."""

from __future__ import annotations

import re
import warnings

import hypothesis.strategies as st

from parsieve.predicate.text.regex import AllOf, Required

ATOMS = st.one_of(
    st.sampled_from(
        ["a", "b", "é", "e\u0301", "😀", "\u00df", " ", "-", "#", "abc", "\\.", "\\\\", "\\-", "\\/", "\\#"]
    ),
    st.sampled_from([".", "\\d", "\\w", "\\S", "[abc]", "[^a]", "[a-c]", "[\\d.]", "\\b", "^", "$", "\\A", "\\z"]),
    st.sampled_from(["]", "}", "{", "[a[b]]", "(?i)", "(?i:b)", "\\x61", "\\u0061", "\\Qab\\E", "\\1", "(?=a)", "\\<"]),
    st.sampled_from(["[a&&b]", "[a-c&&[^b]]", "\\h", "\\R", "\\G", "\\Z", "\\p{L}", "(?<n>a)", "(?x)", "(?>ab)"]),
)
EXPRESSIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("(?:{})".format, inner),
        st.builds("{}|{}".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("{}{}{}".format, inner, inner, inner),
        st.builds(
            "{}{}".format, inner, st.sampled_from(["*", "+", "?", "{0}", "{2}", "{1,2}", "{,2}", "*?", "??", "+?"])
        ),
        st.builds("({}){}".format, inner, st.sampled_from(["*", "+", "?", "{0,1}", "{2,}", "++", "{2}?"])),
    ),
    max_leaves=8,
)


def candidates(expression: str) -> st.SearchStrategy[str]:
    """Generate texts from the characters of an expression, and texts that match it."""
    letters = "".join(sorted({*expression, *"abc1 é😀."}))
    anything = st.text(letters, max_size=12)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return anything | st.from_regex(re.compile(expression))
    except (re.error, OverflowError, RecursionError):
        return anything


def holds(required: Required, text: str) -> bool:
    """Return whether a text contains the required text."""
    if isinstance(required, str):
        return required in text
    return (all if isinstance(required, AllOf) else any)(holds(part, text) for part in required.parts)
