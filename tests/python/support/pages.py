"""Run the code blocks of a Markdown page as one program in one folder. The language of a block decides how it runs:

```python   runs in the namespace of the page
```pycon    runs in the same namespace, and must show the output that the block contains
```console  runs each line after `$ ` in a shell, in which `parsieve` is the command of this tree. The lines below a
            command are its expected output, where `...` matches anything.
```sh       runs in the same shell if each line begins with `parsieve`. Other blocks, such as installations, do not run.
```python spark    runs like `python`, but only if Spark is installed
```

Blocks in other languages do not run.
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
    """Return the blocks of a page that run. Include blocks for Spark if `spark` is true."""
    runs = {name: name for name in RUN} | ({"python spark": "python"} if spark else {})
    runnable: list[Block] = []
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
                runnable.append(Block(runs[language], first_line, "\n".join(lines) + "\n"))
            language = None
        elif language is not None:
            lines.append(line)
    assert language is None, "a code block is not closed"
    return runnable


def run(page: str, program: list[Block]) -> None:
    """Run blocks in the current folder. Tracebacks name the page and its line."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in program:
        if block.language == "python":
            code = compile("\n" * (block.first_line - 1) + block.text, page, "exec")
            exec(code, namespace)
        elif block.language == "pycon":
            parser = doctest.DocTestParser()
            test = parser.get_doctest(block.text, namespace, page, page, block.first_line - 1)
            messages: list[str] = []
            result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
                test, out=messages.append, clear_globs=False
            )
            assert result.failed == 0, "".join(messages)
            namespace |= test.globs
        else:
            _console(page, block)


def _console(page: str, block: Block) -> None:
    """Run each command of a block, and compare its output with the expected output if the block has any."""
    commands: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            commands.append((line.removeprefix("$ "), ""))
        else:
            assert commands, f"{page}:{block.first_line}: a console block begins with a command"
            command, expected = commands[-1]
            commands[-1] = command, f"{expected}{line}\n"
    shell_function = f'parsieve() {{ {shlex.quote(sys.executable)} -W error -m parsieve "$@"; }}\n'
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONIOENCODING": "utf-8"}
    for command, expected in commands:
        answer = subprocess.run(
            ["bash", "-c", f"set -o pipefail\n{shell_function}{command}"],
            env=environment,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=500,
        )
        where = f"{page}:{block.first_line}: {command}"
        assert answer.returncode == 0, f"{where}\n{answer.stdout}{answer.stderr}"
        matches = doctest.OutputChecker().check_output(expected, answer.stdout, doctest.ELLIPSIS)
        assert not expected or matches, f"{where}\nexpected:\n{expected}\ngot:\n{answer.stdout}"
