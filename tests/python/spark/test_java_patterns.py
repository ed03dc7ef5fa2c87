"""The text that a regular expression requires is in every text that Java's expressions match, which Spark uses."""

from __future__ import annotations

import contextlib
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support.regexes import EXPRESSIONS, candidates, holds

from parsieve.predicate.text.regex import NOTHING, required_text

pytestmark = pytest.mark.spark

EXAMPLES, LEAST_MATCHES = 300, 100


def generated() -> list[tuple[str, str]]:
    """Return random expressions that require text, each with some texts."""
    cases: dict[tuple[str, str], None] = {}

    @settings(max_examples=EXAMPLES)
    @given(EXPRESSIONS.filter(lambda expression: required_text(expression) != NOTHING), st.data())
    def collect(expression: str, data: st.DataObject) -> None:
        texts = data.draw(st.lists(candidates(expression), min_size=1, max_size=8))
        cases.update(dict.fromkeys((expression, text) for text in texts))

    collect()
    return list(cases)


def accepted(spark: Any, expressions: set[str]) -> set[str]:
    """Return the expressions that Java can compile."""
    from py4j.protocol import Py4JJavaError

    compiled = set()
    for expression in expressions:
        with contextlib.suppress(Py4JJavaError):
            spark._jvm.java.util.regex.Pattern.compile(expression)
            compiled.add(expression)
    return compiled


def test_every_match_of_java_contains_the_required_text(spark: Any) -> None:
    cases = generated()
    compiled = accepted(spark, {expression for expression, _ in cases})
    pairs = [case for case in cases if case[0] in compiled]
    frame = spark.createDataFrame(pairs, "expression string, text string")
    matches = frame.where("text RLIKE expression").collect()
    for expression, text in matches:
        assert holds(required_text(expression), text), (expression, text)
    assert len(matches) >= LEAST_MATCHES
