"""Runs the code of a Markdown page: its blocks are one program, in one folder, from first to last.

```python   runs in one namespace with all others of the page
```pycon    shows its output, which must be what comes out
```console  what follows `$ ` runs in a shell in which `parsieve` is ours; the lines below are what it prints, with
            `...` for anything
```sh       runs in the same shell if each of its lines begins with `parsieve`; what installs is for reading only
```python spark    as Python, but only where there is Spark
```

Other languages are for reading only.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(?P<language>[\w-]*(?: \w+)*)\s*$")
RUN = ("python", "pycon", "console")
PACKAGE = Path(__file__).parents[3] / "python"


class Block(NamedTuple):
    language: str
    first_line: int
    text: str


def blocks(text: str, *, spark: bool = False) -> list[Block]:
    """The blocks of a page that are run, those for Spark if there is one."""
    runs = {name: name for name in RUN} | ({"python spark": "python"} if spark else {})
    found: list[Block] = []
    language: str | None = None
    first_line, lines = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if language is None and fence:
            language, first_line, lines = fence["language"], number + 1, []
        elif language is not None and line.rstrip() == "```":
            if language == "sh" and all(line.startswith("parsieve ") for line in lines):
                language, lines = "console", [f"$ {line}" for line in lines]
            if language in runs:
                found.append(Block(runs[language], first_line, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    assert language is None, "a code block is not closed"
    return found


def run(page: str, program: list[Block]) -> None:
    """Runs the blocks in the current folder; tracebacks name the page and its line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in program:
        if block.language == "python":
            code = compile("\n" * (block.first_line - 1) + block.text, page, "exec")
            exec(code, namespace)
        elif block.language == "pycon":
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, namespace, page, page, block.first_line - 1)
            said: list[str] = []
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append, clear_globs=False)
            assert result.failed == 0, "".join(said)
            namespace |= test.globs
        else:
            _console(page, block)


def _console(page: str, block: Block) -> None:
    """Runs each command of a block, and compares what it prints where the block says what."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), ""))
        else:
            assert commands, f"{page}:{block.first_line}: a console block begins with a command"
            command, expected = commands[-1]
            commands[-1] = command, f"{expected}{line}\n"
    ours = f'parsieve() {{ {shlex.quote(sys.executable)} -W error -m parsieve "$@"; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONIOENCODING": "utf-8"}
    for command, expected in commands:
        answer = subprocess.run(
            ["bash", "-c", f"set -o pipefail\n{ours}{command}"],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=500,
        )
        where = f"{page}:{block.first_line}: {command}"
        assert answer.returncode == 0, f"{where}\n{answer.stdout}{answer.stderr}"
        alike = doctest.OutputChecker().check_output(expected, answer.stdout, doctest.ELLIPSIS)
        assert not expected or alike, f"{where}\nexpected:\n{expected}\ngot:\n{answer.stdout}"
