"""The text that patterns require is in every text that an engine matches, however the engine reads the pattern."""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from typing import Any

import duckdb
import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, given, settings
from support.regexes import EXPRESSIONS, candidates, holds

from parsieve.predicate import parse, unknowns
from parsieve.predicate.expr import Always
from parsieve.predicate.normalize import normalize
from parsieve.predicate.text.folding import CERTAIN, case_variants
from parsieve.predicate.text.like import Wildcard, normal_form, read_like, write_like, write_regex
from parsieve.predicate.text.regex import NOTHING, AllOf, Required, required_text
from parsieve.predicate.text.trigrams import trigrams_of

DUCKDB = duckdb.connect()
SCHEMA = pa.schema({"s": pa.string()})
# Letters with unusual case, composed and decomposed accents, and characters that patterns give a meaning.
ALPHABET = "abcABC kKsSiI\u212a\u017f\u0131\u0130\u00df\u1e9e\u00c5\u00e5\u212b\ufb01éfe\u0301😀"
ALPHABET += "\n\\%_.*+?()[]{}|^$-#'/0\t"


def matches(expression: str, texts: list[str]) -> dict[str, list[bool]]:
    """Return which texts each engine matches, for the engines that accept the expression."""
    answers: dict[str, list[bool]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pattern = re.compile(expression)
            answers["re"] = [pattern.search(text) is not None for text in texts]
        except (re.error, OverflowError, RecursionError):
            pass
        with contextlib.suppress(pa.ArrowInvalid):
            answers["pyarrow"] = pc.match_substring_regex(pa.array(texts), expression).to_pylist()
        with contextlib.suppress(pl.exceptions.PolarsError):
            answers["polars"] = pl.Series(texts).str.contains(expression).to_list()
    return answers


@settings(deadline=None, max_examples=250)
@given(EXPRESSIONS, st.data())
def test_every_match_contains_the_required_text(expression: str, data: st.DataObject) -> None:
    required = required_text(expression)
    assume(required != NOTHING)
    texts = data.draw(st.lists(candidates(expression), min_size=1, max_size=8))
    for engine, answers in matches(expression, texts).items():
        for text, is_match in zip(texts, answers, strict=True):
            assert not is_match or holds(required, text), (engine, text)


@pytest.mark.parametrize(
    ("expression", "required"),
    [
        ("timeout after [0-9]+ ms", "timeout after & ms"),
        ("GET /api", "GET /api"),
        ("^GET .* HTTP/1\\.1$", "GET & HTTP/1.1"),
        ("(GET|POST) /api", "(GET|POST)& /api"),
        ("colou?r", "colo&r"),
        ("ab{2,}c", "ab&c"),
        ("ab{0,2}c", "a&c"),
        ("a|b", "(a|b)"),
        ("(?:abc)+", "abc"),
        ("abc|", ""),
        ("abc|d*", ""),
        ("(abc)?", ""),
        ("(?i)abc", ""),
        ("(?=abc)", ""),
        ("(a)\\1", ""),
        ("\\Qa.b\\E", ""),
        ("\\x41bc", ""),
        ("a**", ""),
        ("abc)", ""),
        ("(abc", ""),
        ("[]abc]", ""),
        ("[^]abc[d]", ""),
        ("[a&&b]xyz", ""),
        ("abc\\", ""),
        ("(" * 40 + "abc" + ")" * 40, ""),
        ("abc" * 1000, ""),
    ],
)
def test_required_text_of_known_expressions(expression: str, required: str) -> None:
    def written(part: Required) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, AllOf):
            return "&".join(map(written, part.parts))
        return "(" + "|".join(map(written, part.parts)) + ")"

    assert written(required_text(expression)) == required


def test_expressions_up_to_a_length_and_depth_require_a_text() -> None:
    assert required_text("a" * 2000) == "a" * 2000
    assert required_text("a" * 2001) == NOTHING
    assert required_text("(" * 30 + "abc" + ")" * 30) == "abc"
    assert required_text("(" * 31 + "abc" + ")" * 31) == NOTHING


def engines_ignoring_case(text: str, needle: str) -> dict[str, bool]:
    """Return which engines find a needle in a text, if the case is ignored."""
    values, escaped = pa.array([text]), write_like((Wildcard.ANY, needle, Wildcard.ANY), "!")
    [(found,)] = DUCKDB.execute("SELECT ? ILIKE ? ESCAPE '!'", [text, escaped]).fetchall()
    return {
        "duckdb": found,
        "pyarrow": pc.match_substring(values, needle, ignore_case=True)[0].as_py(),
        "polars": pl.Series([text]).str.contains("(?i)" + re.escape(needle).replace("\n", "n")).to_list()[0],
        "re": re.search(re.escape(needle), text, re.IGNORECASE) is not None,
        # Spark compares the texts in lower case.
        "lower": needle.lower() in text.lower(),
        "casefold": needle.casefold() in text.casefold() and not {"\u00df", "\u1e9e", "\ufb01"} & {*text, *needle},
    }


NEEDLES = st.text("abcABCkKsSiI \u017f\u0131\u0130\u212a\u00c51", min_size=1, max_size=6)


@settings(deadline=None, max_examples=300)
@given(st.text(ALPHABET, max_size=8), NEEDLES, st.text(ALPHABET, max_size=4))
def test_a_text_that_an_engine_finds_without_case_has_the_trigrams(before: str, needle: str, after: str) -> None:
    swapped = needle.swapcase()
    for inner in {needle, swapped, needle.replace("k", "\u212a").replace("s", "\u017f").replace("i", "\u0131")}:
        text = before + inner + after
        trigrams = trigrams_of([needle], ignore_case=True)
        if any(engines_ignoring_case(text, needle).values()):
            assert all(any(variant in text for variant in variants) for variants in trigrams), (text, needle)


def test_the_case_of_certain_letters_is_the_same_for_every_character() -> None:
    """No character out of ASCII has a certain letter as another form, in the tables of Unicode that Python has."""
    for character in map(chr, itertools.chain(range(128, 0xD800), range(0xE000, 0x110000))):
        for other in (character.lower(), character.upper(), character.casefold()):
            if len(other) == 1 or character == "\u0130":
                assert not (set(other) & CERTAIN), (character, other)
    for character in CERTAIN:
        assert set(case_variants(character)) == {character.lower(), character.upper()}


@given(st.lists(st.sampled_from([*Wildcard, "a", "%", "_", "!", "\\", "é", "😀", "."]), max_size=8))
def test_patterns_are_written_and_read_unchanged(tokens: list[str | Wildcard]) -> None:
    pattern = normal_form(tokens)
    for escape in ("!", "\\"):
        assert read_like(write_like(pattern, escape), escape) == pattern


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.sampled_from([*Wildcard, "a", "b", "%", "\\", "é", "e\u0301", "😀", ".", "\n", "("]), max_size=6),
    st.lists(st.text("ab%\\ée\u0301😀.\n(", max_size=6), min_size=1, max_size=6),
)
def test_a_pattern_matches_the_same_texts_in_every_form(tokens: list[str | Wildcard], texts: list[str]) -> None:
    pattern = normal_form(tokens)
    query = "SELECT s LIKE ? ESCAPE '!' FROM (SELECT unnest(?) AS s)"
    expected = [found for (found,) in DUCKDB.execute(query, [write_like(pattern, "!"), texts]).fetchall()]
    assert pc.match_substring_regex(pa.array(texts), write_regex(pattern)).to_pylist() == expected
    assert pl.Series(texts).str.contains(write_regex(pattern)).to_list() == expected


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("s LIKE 'a_b'", "s STARTS WITH 'a' AND s LIKE 'a_b'"),
        ("s LIKE '%50!%%' ESCAPE '!'", "s LIKE '%50!%%' ESCAPE '!'"),
        ("contains(s, 'a_b')", "s LIKE '%a!_b%' ESCAPE '!'"),
        ("s ILIKE '%Error%'", "s ILIKE '%Error%'"),
        ("s ILIKE '%time out%'", "s ILIKE '%me out%' AND s ILIKE '%time out%'"),
        ("regexp_matches(s, '(abc|def) [0-9]+')", "(s LIKE '%abc%' OR s LIKE '%def%') AND REGEXP_MATCHES"),
        ("regexp_matches(s, 'ab[0-9]+')", "REGEXP_MATCHES"),
        (pc.match_substring_regex(pc.field("s"), "abc+"), "s LIKE '%abc%' AND match_substring_regex"),
        (pc.match_substring_regex(pc.field("s"), "red.*", ignore_case=True), "s ILIKE '%red%' AND match"),
        (pl.col("s").str.contains("abc+"), "s LIKE '%abc%' AND col"),
    ],
    ids=str,
)
def test_conditions_are_shown_as_they_are_understood(where: Any, text: str) -> None:
    assert str(parse(where, SCHEMA)).startswith(text)


def test_a_negated_expression_requires_nothing() -> None:
    negated = parse("NOT regexp_matches(s, 'abc')", SCHEMA)
    assert unknowns(negated)
    assert "OR" not in str(parse("regexp_matches(s, 'abc')", SCHEMA))


@pytest.mark.parametrize("text", ["a\ud800b", "\udfff"])
def test_a_pattern_that_is_not_unicode_is_not_understood(text: str) -> None:
    for where in (f"contains(s, '{text}')", f"s LIKE '%{text}%'", f"regexp_matches(s, '{text}abc')"):
        assert unknowns(parse(where, SCHEMA))


def test_a_null_as_the_escape_makes_every_pattern_null() -> None:
    for where in ("s LIKE 'a%' ESCAPE NULL", "s NOT LIKE 'a%' ESCAPE NULL", "NOT (s ILIKE 'a%' ESCAPE NULL)"):
        [(answer,)] = DUCKDB.execute(f"SELECT {where} FROM (SELECT 'abc' AS s)").fetchall()
        assert answer is None
        # Null and false are the same for a plan.
        assert normalize(parse(where, SCHEMA)) == Always(False)
