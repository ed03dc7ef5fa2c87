"""`advise` predicts the size of text indexes and what they skip, and refuses where they cannot pay."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.aging import wait_until_old

import parsieve as ps
from parsieve.cli import main
from parsieve.index.text import advice as text_advice
from parsieve.index.text.advice import draw_needles
from parsieve.lake.base import Slice

FILES, ROWS, GROUP = 24, 2_000, 500


def word(chance: random.Random, letters: str, length: int) -> str:
    return "".join(chance.choices(letters, k=length))


VOCABULARY = [word(random.Random(number), "abcdefghijklmnopqrstuvwxyz", 3 + number % 8) for number in range(3_000)]


def log_lines(part: int) -> list[str]:
    """Return lines of words by Zipf's law, with the identifier of a request."""
    chance = random.Random(part)
    lines = []
    for _ in range(ROWS):
        words = [VOCABULARY[min(2_999, int(chance.paretovariate(0.7)))] for _ in range(6)]
        lines.append(f"request={chance.randbytes(6).hex()} {' '.join(words)}")
    return lines


def urls(part: int) -> list[str]:
    chance = random.Random(part)
    shops = [word(random.Random(number), "abcdefghij", 6) for number in range(40)]
    return [f"https://{chance.choice(shops)}.example.com/item/{chance.randrange(10**9)}?ref=mail" for _ in range(ROWS)]


def table_of(folder: Path, texts: Callable[[int], Sequence[Any]], files: int = FILES, group: int = GROUP) -> ps.Table:
    folder.mkdir(exist_ok=True)
    for part in range(files):
        pq.write_table(pa.table({"m": texts(part)}), folder / f"{part:02}.parquet", row_group_size=group)
    wait_until_old(folder)
    return ps.open_table(str(folder))


def share_read(table: ps.Table, conditions: Sequence[Any], unit: str) -> float:
    """Return the mean share of the units that plans keep."""
    if unit == "file":
        return statistics.fmean(len(table.plan(condition).files) for condition in conditions) / FILES
    kept = [
        sum(rows for ranges in table.plan(condition).row_ranges.values() for _, rows in ranges or [(0, ROWS)])
        for condition in conditions
    ]
    return statistics.fmean(kept) / (FILES * ROWS)


@pytest.mark.parametrize("texts", [log_lines, urls])
def test_the_predictions_are_close_to_the_built_indexes(tmp_path: Path, texts: Callable[[int], Sequence[Any]]) -> None:
    table = table_of(tmp_path / "t", texts)
    [advice] = table.advise("m")
    assert {(text.kind, text.unit) for text in advice.texts} == {
        (kind, unit) for kind in ("text", "words") for unit in ("file", "row_group")
    }
    # Draw the needles from files that are not in the sample, too.
    rare = draw_needles([text for part in range(FILES) for text in texts(part)[::5]], 40)
    conditions: list[list[Any]] = [[f"contains(m, '{text}')" for text in rare[0]]]
    conditions += [[[("m", "has token", text)] for text in rare[1]]]
    for estimate in advice.texts:
        built = ps.open_table(table.uri, index_location=tmp_path / f"{estimate.kind}-{estimate.unit}")
        report = built.build_index("m", kind=estimate.kind, unit=estimate.unit)
        assert estimate.num_bytes == pytest.approx(report.bytes_lookup, rel=0.1)
        assert estimate.bits_per_row == pytest.approx(report.bytes_lookup * 8 / (FILES * ROWS), rel=0.1)
        for predicted, asked in zip((estimate.text_share, estimate.word_share), conditions, strict=True):
            assert predicted == pytest.approx(share_read(built, asked, estimate.unit), rel=0.35, abs=0.03)


def test_words_are_advised_and_built_for_log_lines(tmp_path: Path) -> None:
    table = table_of(tmp_path, log_lines, group=ROWS)
    [advice] = table.advise("m")
    assert advice.recommendation == "words"
    assert advice.text is not None
    assert advice.text.word_share is not None
    assert advice.text.word_share < 0.2
    assert advice.why.startswith("with words, a rare text reads ")
    assert "; with trigrams, " in advice.why
    assert f"{advice.text.bits_per_row:.1f} bits for each row" in str(advice)
    assert "words " in (advice._repr_html_() or "")
    assert table.build_index("m").columns == {"m": "words"}
    assert table.index_kinds() == {"m": "words"}
    assert table.plan("has_token(m, 'zzz9')").files == []


def test_an_index_of_whole_values_stays_the_default_for_urls(tmp_path: Path) -> None:
    table = table_of(tmp_path, urls)
    [advice] = table.advise("m")
    assert advice.recommendation in ("sieve", "bloom")
    assert 'for text inside the values, kind="words"' in advice.why
    assert advice.text is None
    assert table.advise("m", "m = 'https://a'")[0].texts == ()


def test_the_queries_decide_the_kind(tmp_path: Path) -> None:
    table = table_of(tmp_path, log_lines, files=8, group=ROWS)
    recommendations = {
        query: table.advise(queries=[query])[0].recommendation
        for query in ("m LIKE '%TIMED OUT%'", "has_token(m, '0a9f3c7e0a9f')", "m LIKE '%request=%'")
    }
    assert list(recommendations.values()) == ["text", "words", "none"]
    [advice] = table.advise(queries=["m LIKE '%0a9f3c7e%'"])
    suggestion = "if the text is a whole word, kind=\"words\" would pay off: has_token or LIKE '% word %' reads "
    assert suggestion in advice.why
    [advice] = table.advise(queries=["m LIKE '%request=%' OR m LIKE '%TIMED OUT%'"])
    # The first condition reads everything, and the second one file.
    assert [text.query_share for text in advice.texts] == [(1 + 1 / 8) / 2, 1]


def test_no_index_is_advised_for_text_that_repeats(tmp_path: Path) -> None:
    def states(part: int) -> list[str]:
        return [f"the order number {row % 9} was delivered to the customer in time" for row in range(ROWS)]

    [advice] = table_of(tmp_path, states).advise("m")
    assert (advice.recommendation, advice.texts) == ("none", ())
    assert "the same texts repeat" in advice.why


def test_no_index_is_advised_for_short_texts(tmp_path: Path) -> None:
    table = table_of(tmp_path, lambda part: ["ab", "cd", None] * 20, files=3)
    [advice] = table.advise(queries="m LIKE '%ab%'")
    assert (advice.recommendation, advice.why) == ("none", "the texts are too short to look for a part of them")


def test_a_refusal_names_the_row_groups_that_would_pay(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"

    def random_texts(part: int) -> list[str]:
        chance = random.Random(part)
        return [word(chance, letters, 14) for _ in range(40_000)]

    table = table_of(tmp_path / "large", random_texts, files=4, group=40_000)
    [advice] = table.advise(queries="m LIKE '%abcdefgh%'")
    assert advice.recommendation == "none"
    assert advice.why.startswith("with trigrams, a query reads 100 % of 4 files")
    assert 'with row groups of 5,000 rows, kind="text" would pay off: a query reads ' in advice.why
    # The same rows in such row groups.
    [advice] = table_of(tmp_path / "small", random_texts, files=4, group=5_000).advise(queries="m LIKE '%abcdefgh%'")
    assert (advice.recommendation, advice.unit) == ("text", "row_group")
    # Each trigram is in each row group.
    digits = table_of(tmp_path / "digits", lambda part: [f"{row * 7:020}" for row in range(40_000)], 3, 40_000)
    [advice] = digits.advise(queries="m LIKE '%00000000%'")
    assert advice.why.endswith("; row groups of 1,000 rows would not pay off either")
    assert str(advice) == f"m: none ({advice.why}). Estimated from 3 of 3 files"


def test_a_file_with_row_groups_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the file were large.
    monkeypatch.setattr(text_advice, "REQUEST_BYTES", 1)
    table = table_of(tmp_path, log_lines, files=1, group=100)
    [advice] = table.advise(queries="has_token(m, '0a9f3c7e0a9f')")
    assert (advice.recommendation, advice.unit) == ("words", "row_group")
    assert {text.unit for text in advice.texts} == {"row_group"}


def test_few_large_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(tmp_path, log_lines, files=6)
    read: list[str | None] = []
    read_keys = table.opened.lake.read_keys

    def watched(file_slice: Slice, columns: Any) -> Any:
        read.append(file_slice.path)
        return read_keys(file_slice, columns)

    monkeypatch.setattr(table.opened.lake, "read_keys", watched)
    # As if the files were large.
    monkeypatch.setattr(text_advice, "SAMPLED_BYTES", 1)
    [advice] = table.advise("m")
    assert advice.sampled == 2
    assert len(set(read)) == 2


def test_texts_after_many_nulls_and_long_texts_are_sampled(tmp_path: Path) -> None:
    def texts(part: int) -> list[str | None]:
        lines = log_lines(part)
        return [None] * 100_000 + ["\n".join(lines[row : row + 200]) for row in range(0, ROWS, 200)]

    [advice] = table_of(tmp_path, texts, files=3, group=200_000).advise("m")
    assert advice.recommendation == "words"
    assert advice.texts[0].word_share is not None


@pytest.mark.parametrize(
    "kind",
    [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.string())],
    ids=str,
)
def test_every_type_of_text_gets_advice(tmp_path: Path, kind: pa.DataType) -> None:
    def texts(part: int) -> pa.Array:
        lines = log_lines(part)[:300]
        return pa.array([[line, None] for line in lines] if pa.types.is_list(kind) else [*lines, None], kind)

    table = table_of(tmp_path, texts, files=3)
    column = "m.element" if pa.types.is_list(kind) else "m"
    [advice] = table.advise(column)
    assert advice.texts
    assert advice.texts[0].num_bytes > 0


def test_the_command_prints_the_advice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table_of(tmp_path, log_lines, group=ROWS)
    assert main(["advise", str(tmp_path), "m"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:2] == ["m", "words"]
    assert main(["advise", str(tmp_path), "--where", "m LIKE '%TIMED OUT%'", "--json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    assert record["recommendation"] == "text"
    estimate = next(text for text in record["texts"] if (text["kind"], text["unit"]) == ("text", record["unit"]))
    assert estimate["bits_per_row"] > 0
    assert estimate["query_share"] < 0.1
