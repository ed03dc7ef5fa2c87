"""Find the rows that may match a predicate: every question of its tree keeps ranges of rows in each file.

The index answers with units, whose ranges may differ from column to column. Footers and filters answer with row groups,
and other evidence with whole files. A question without an answer keeps all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from parsieve.plan.evidence.candidates import Candidates
from parsieve.plan.evidence.index.sieve import SieveIndexEvidence, UnitAnswer
from parsieve.plan.evidence.index.text import TextIndexEvidence
from parsieve.plan.evidence.questions import Question, leaves
from parsieve.plan.evidence.row_groups import Judged
from parsieve.plan.rows.base import KeptRows
from parsieve.plan.rows.few import find_in_few
from parsieve.plan.rows.many import find_in_many

# For more kept files than this, a plan keeps all rows of each file: it would take seconds to find their ranges.
MOST_FILES = 500_000
# Up to this many files, row groups, units and answers, Python objects are faster than the kernels of Arrow.
FEW = 3000
NO_ROW_MATCHES = "according to the index, no range of rows can match all parts of the condition"


def find_rows(
    files: Candidates,
    indexes: Sequence[SieveIndexEvidence | TextIndexEvidence],
    groups: Judged | None = None,
    footers: Mapping[int, Sequence[int]] | None = None,
) -> KeptRows | None:
    """Return the rows of the kept files that may match, or None if nothing is known about ranges of rows.

    `groups` are the row groups of opened files, and `footers` the rows of each row group of these files.
    """
    kept = pc.indices_nonzero(files.kept).cast(pa.int64())
    if len(kept) > MOST_FILES:
        return None
    answers: dict[Question, list[UnitAnswer]] = {}
    for index in indexes if len(kept) else ():
        for question in leaves(files.tree):
            if (answer := index.find_units(question, kept)) is not None:
                answers.setdefault(question, []).append(answer)
    if not answers and not footers:
        return None
    size = len(kept) + sum(len(answer.ids) + answer.column.size for some in answers.values() for answer in some)
    size += 0 if groups is None else len(groups[1])
    find = find_in_few if size <= FEW else find_in_many
    return find(files, kept, answers, groups, footers or {})


def exclude_files(files: Candidates, rows: KeptRows) -> None:
    """Skip the files in which no row may match."""
    numbers = rows.without_rows()
    if len(numbers):
        places = pc.indices_nonzero(pa.repeat(pa.scalar(True), len(files.kept))).cast(pa.int64())
        files.exclude("index row ranges", pc.is_in(places, value_set=numbers), NO_ROW_MATCHES)


def exclude_groups(groups: Judged, rows: KeptRows) -> None:
    """Skip the row groups in which no row may match."""
    candidates, units = groups
    kept = {number: set(some) for number, (_, some) in rows.row_groups.items()}
    excluded = [number in kept and group not in kept[number] for number, group in units]
    mask = pc.and_(candidates.kept, pa.array(excluded, pa.bool_()))
    if pc.any(mask).as_py():
        candidates.exclude("index row ranges", mask, NO_ROW_MATCHES)
