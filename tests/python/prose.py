"""Count the habits that make this project's English hard to read, and fail where a part exceeds its limit.

The check reads comments and docstrings of Python, comments of Rust, the text of pages outside code, and the text of
notebooks. It counts the marks of `HABITS` per 1,000 words in each folder, for each kind of file. It also finds lines of
pages that are too long. `docs/style.md` explains what to write instead.

    prose.py                     # print the figures that exceed a limit; exit with 1 if there are any
    prose.py --all               # print the figures of all folders
    prose.py --list 20 PATH...   # print the first 20 findings of each folder below some paths
    prose.py --limits            # print MARKS_NOT_YET and LONG_LINES_NOT_YET with the present figures
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import math
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]

# The limit of every folder, in marks per 1,000 words, and of every line of a page, in columns.
GOAL = 1.5
WIDTH = 120

# Folders that do not meet the goal yet, with the figure of the day as their limit. A figure covers all files of its
# kind below the folder. Lower a figure when you rewrite a part; delete it when the part meets the goal. The check fails
# on figures that are no longer needed, so both tables end empty.
MARKS_NOT_YET: dict[str, dict[str, float]] = {}

# Pages, or folders of pages, with lines that are too long, and how many.
LONG_LINES_NOT_YET: dict[str, int] = {}

# Regular expressions, between word boundaries. A space matches any white space.
HABITS = {
    "an actor that does not matter": [r"who(?:m)?ever", r"nobody", r"somebody", r"those who"],
    "a clause in place of a noun": [
        r"those (?:that|of)",
        r"what (?:is|was|it|they|a|the) \w+",
        r"what(?:ever)? else",
        r"whatever",
        r"of which",
        r"where (?:there is|it is|that|they) (?:no|one|so|not)",
    ],
    "a word with another meaning in plain English": [
        r"anew",
        r"aside",
        r"beside",
        r"brought",
        r"heard",
        r"hears?",
        r"lies",
        r"mend(?:s|ed)?",
        r"settled?",
        r"spare[sd]?",
        r"sparing",
        r"stands?",
        r"stood",
        r"told",
    ],
    "an idiom translated word by word": [
        r"asks? (?:of|for)",
        r"asked (?:of|for)",
        r"at hand",
        r"but for",
        r"for want of",
        r"gives? (?:up|back|away)",
        r"goes on",
        r"held against",
        r"holds? of",
        r"in vain",
        r"is about",
        r"kept back",
        r"left (?:alone|out|over)",
        r"lets? go",
        r"pass(?:es|ed|ing)? (?:over|by)",
        r"says? (?:nothing|so|which|what|that)",
        r"so many",
        r"speaks? of",
        r"takes? part",
        r"tells? of",
        r"wants? quotes",
    ],
    "filler": [r"all the same", r"as they are", r"as well as", r"at once", r"by itself", r"by themselves", r"in turn"],
}
# One group for each habit, in their order.
MARK = re.compile(
    "|".join(rf"\b({'|'.join(marks)})\b" for marks in HABITS.values()).replace(" ", r"\s+"), re.IGNORECASE
)
WORD = re.compile(r"[A-Za-z']+")

# A kind of figure, in addition to the kinds of files: lines of pages that are too long.
WIDTHS = "widths"

# Text with the number of its first line.
Passage = tuple[int, str]
Limits = Mapping[str, Mapping[str, float]]
LineLimits = Mapping[str, int]
# A figure for each part and kind.
Figures = dict[tuple[str, str], "Figure"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A mark or a long line."""

    path: str
    line: int
    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}: {self.text}"


@dataclass(slots=True)
class Figure:
    """The words, marks and long lines of some files."""

    words: int = 0
    marks: list[Finding] = field(default_factory=list)
    long_lines: list[Finding] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Marks per 1,000 words."""
        return 1000 * len(self.marks) / max(self.words, 1)


def python_passages(text: str) -> Iterator[Passage]:
    """Yield the docstrings of a module without their examples, and its comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[0] if node.body else None
            if (
                isinstance(body, ast.Expr)
                and isinstance(body.value, ast.Constant)
                and isinstance(body.value.value, str)
            ):
                lines = body.value.value.splitlines()
                yield body.lineno, "\n".join("" if line.lstrip().startswith((">>>", "...")) else line for line in lines)
    comments = (
        token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    )
    pragmas = ("#!", "# type:", "# noqa", "# ruff", "# pragma")
    yield from joined(
        (token.start[0], token.string.lstrip("# ")) for token in comments if not token.string.startswith(pragmas)
    )


def rust_passages(text: str) -> Iterator[Passage]:
    """Yield the comments of a Rust file that are on separate lines."""
    lines = ((number, re.match(r"\s*//[/!]?\s?(.*)", line)) for number, line in enumerate(text.splitlines(), start=1))
    yield from joined((number, match[1]) for number, match in lines if match)


def page_passages(text: str) -> Iterator[Passage]:
    """Yield the text of a page, without code, tables, HTML and the targets of links."""
    kept = ((number, line) for number, line in prose_lines(text) if not line.startswith(("|", "<")))
    yield from joined((number, re.sub(r"`[^`]*`|\]\([^)]*\)", " ", line)) for number, line in kept)


def notebook_passages(text: str) -> Iterator[Passage]:
    """Yield the text cells of a notebook; their lines are counted from the first one of the cell."""
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            yield from page_passages("".join(cell["source"]))


def prose_lines(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside fenced code."""
    fenced = False
    for number, line in enumerate(page.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def joined(lines: Iterable[tuple[int, str]]) -> Iterator[Passage]:
    """Join consecutive lines, so that marks are found across line breaks."""
    first, last, passage = 0, -1, list[str]()
    for number, line in lines:
        if number != last + 1 and passage:
            yield first, "\n".join(passage)
            passage = []
        if not passage:
            first = number
        passage.append(line)
        last = number
    if passage:
        yield first, "\n".join(passage)


def is_long(line: str) -> bool:
    """Return whether a line of a page is too long: not a table or HTML, and too long even without its link targets."""
    return len(re.sub(r"!\[[^\]]*\]|\]\([^)]*\)", "", line)) > WIDTH and not line.lstrip().startswith(("|", "<"))


READERS: dict[str, tuple[str, Callable[[str], Iterator[Passage]]]] = {
    ".py": ("python", python_passages),
    ".pyi": ("python", python_passages),
    ".rs": ("rust", rust_passages),
    ".md": ("pages", page_passages),
    ".ipynb": ("pages", notebook_passages),
}


def count(figure: Figure, path: str, text: str) -> None:
    """Add the words, marks and long lines of a file to a figure."""
    suffix = Path(path).suffix
    lines = text.splitlines()
    for first, passage in READERS[suffix][1](text):
        figure.words += len(WORD.findall(passage))
        for match in MARK.finditer(passage):
            line = first + passage[: match.start()].count("\n")
            habit = list(HABITS)[(match.lastindex or 1) - 1]
            shown = lines[line - 1] if suffix != ".ipynb" else passage.splitlines()[line - first]
            figure.marks.append(Finding(path, line, f'"{" ".join(match[0].split())}" ({habit})', shown.strip()))
    if suffix == ".md":
        long_lines = ((number, content) for number, content in prose_lines(text) if is_long(content))
        for number, content in long_lines:
            figure.long_lines.append(Finding(path, number, f"{len(content)} columns", f"{content[:60]}..."))


def part_of(path: str, parts: Iterable[str]) -> str:
    """Return the longest of some parts that contains a file, or else the file's folder."""
    holding = [part for part in parts if path == part or path.startswith(f"{part}/")]
    return max(holding, key=len, default=Path(path).parent.as_posix())


def measure(
    root: Path, paths: Iterable[str], marks: Limits = MARKS_NOT_YET, long_lines: LineLimits = LONG_LINES_NOT_YET
) -> Figures:
    """Return a figure for each part and kind of file."""
    figures: Figures = defaultdict(Figure)
    for path in paths:
        if Path(path).suffix in READERS and (root / path).exists():
            kind = READERS[Path(path).suffix][0]
            parts = {part for part, limits in marks.items() if kind in limits}
            figure = Figure()
            count(figure, path, (root / path).read_text(encoding="utf-8"))
            total = figures[part_of(path, parts), kind]
            total.words += figure.words
            total.marks += figure.marks
            figures[part_of(path, long_lines), WIDTHS].long_lines += figure.long_lines
    return dict(sorted(figures.items()))


def problems(
    figures: Figures, marks: Limits = MARKS_NOT_YET, long_lines: LineLimits = LONG_LINES_NOT_YET
) -> Iterator[str]:
    """Yield a line for each figure above its limit, and for each limit that is no longer needed."""
    for (part, kind), figure in figures.items():
        if kind == WIDTHS:
            allowed = long_lines.get(part, 0)
            if len(figure.long_lines) > allowed:
                yield f"{part}: {len(figure.long_lines)} lines with over {WIDTH} columns (limit: {allowed})"
        else:
            limit = marks.get(part, {}).get(kind, GOAL)
            # One mark in a folder with few words is no habit.
            if figure.rate > limit and len(figure.marks) > 1:
                yield f"{part}: {kind}: {figure.rate:.2f} marks per 1,000 words (limit: {limit})"
    for part, limits in marks.items():
        for kind in limits:
            if figures.get((part, kind), Figure()).rate <= GOAL:
                yield f"{part}: {kind}: meets the goal; delete its line in MARKS_NOT_YET"
    for part in long_lines:
        if not figures.get((part, WIDTHS), Figure()).long_lines:
            yield f"{part}: no long lines; delete its line in LONG_LINES_NOT_YET"


def tables(figures: Figures) -> Iterator[str]:
    """Yield the lines of both tables of limits, with present figures and without parts that meet the goal."""
    yield "MARKS_NOT_YET: dict[str, dict[str, float]] = {"
    for part, kinds in MARKS_NOT_YET.items():
        rates = {kind: figures[part, kind].rate for kind in kinds if (part, kind) in figures}
        limits = (f'"{kind}": {math.ceil(rate * 10) / 10}' for kind, rate in rates.items() if rate > GOAL)
        if line := ", ".join(limits):
            yield f'    "{part}": {{{line}}},'
    yield "}\n\nLONG_LINES_NOT_YET: dict[str, int] = {"
    for part in LONG_LINES_NOT_YET:
        if number := len(figures[part, WIDTHS].long_lines) if (part, WIDTHS) in figures else 0:
            yield f'    "{part}": {number},'
    yield "}"


def files(paths: Sequence[str]) -> list[str]:
    """Return the files of the repository below some paths, new ones included."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(set(filter(None, listed.split("\0"))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what exceeds its limit, or the findings below some paths."""
    parser = argparse.ArgumentParser(description="Count habits that make English hard to read.")
    parser.add_argument("--all", action="store_true", help="print the figures of all folders")
    parser.add_argument("--limits", action="store_true", help="print the tables of limits with the present figures")
    parser.add_argument("--list", type=int, metavar="N", help="print the first N findings of each folder and kind")
    parser.add_argument("paths", nargs="*", help="with --all or --list: files and folders (default: the whole project)")
    options = parser.parse_args(arguments)
    if options.paths or options.all or options.list:
        for (part, kind), figure in measure(ROOT, files(options.paths), {}, {}).items():
            if kind != WIDTHS:
                print(f"{part:32} {kind:8} {figure.words:7,} words {figure.rate:6.2f} marks per 1,000")
            for finding in (figure.marks + figure.long_lines)[: options.list or 0]:
                print(f"    {finding}")
        return 0
    figures = measure(ROOT, files([]))
    if options.limits:
        print(*tables(figures), sep="\n")
        return 0
    complaints = list(problems(figures))
    if complaints:
        print(*complaints, sep="\n")
        print("\ndocs/style.md explains what to write; `prose.py --list 20 FOLDER` prints the places.", file=sys.stderr)
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
