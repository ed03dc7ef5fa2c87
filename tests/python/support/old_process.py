"""Run version 0.1 of parsieve in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


class OldParsieve:
    """A process with version 0.1 that runs commands on one table."""

    def __init__(self, table: str) -> None:
        self._table = table
        program = Path(__file__).with_name("programs") / "old_parsieve.py"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(program)],
            env={**os.environ, "PYTHONPATH": os.environ["PARSIEVE_0_1"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.reply().startswith(os.environ["PARSIEVE_0_1"])

    def send(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"table": self._table, **command}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def reply(self) -> Any:
        """Return the reply to the last command, which must not fail."""
        answer = self.answer()
        assert "error" not in answer, answer
        return answer["reply"]

    def run(self, **command: Any) -> Any:
        self.send(**command)
        return self.reply()

    def error(self, **command: Any) -> str:
        """Run a command that must fail, and return the name of its error."""
        self.send(**command)
        answer = self.answer()
        assert "error" in answer, answer
        return str(answer["error"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
