"""Run commands in version 0.1 of parsieve. Each line of standard input is a command in JSON, and gets a line in reply.

PYTHONPATH=FOLDER_OF_VERSION_0_1 python old_parsieve.py
"""

from __future__ import annotations

import datetime as dt
import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import parsieve as ps


def run(command: dict[str, Any]) -> Any:
    """Run one command on a table, and return the reply."""
    table: Any = ps.open_table(command["table"])
    match command["do"]:
        case "plan":
            plan = table.plan(command["where"], command.get("as_of"))
            return {"uids": sorted(plan.to_arrow()["uid"].to_pylist()), "explanation": plan.explain()}
        case "build":
            table.build_index(command["columns"], kind=command.get("kind", "sieve"), progress=False)
        case "update":
            table.update_index(progress=False)
        case "compact":
            table.compact_index()
        case "drop":
            table.drop_index()
        case "expire":
            table.expire_index(dt.timedelta(seconds=command["seconds"]))
        case "collect":
            # The garbage collection alone, of files of any age.
            importlib.import_module("parsieve.index.garbage").collect(table._index.log, dt.timedelta(0))
        case "verify":
            return [str(problem) for problem in table.verify_index()]
        case "kinds":
            return table.index_kinds()
        case unknown:
            raise ValueError(unknown)
    return None


def pause_before(place: str, call: int, signal: Path) -> None:
    """Make a call of a function, which is named as in `module:Class.name`, wait.

    `call` is the number of the call. It creates a file, and waits until the file is gone.
    """
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def waiting(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            setattr(owner, name, original)
            signal.touch()
            while signal.exists():
                time.sleep(0.01)
        return original(*arguments, **options)

    setattr(owner, name, waiting)


def main() -> None:
    """Reply to commands until the input ends."""
    print(json.dumps({"reply": ps.__file__}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "pause_before" in command:
                place, call = command["pause_before"]
                pause_before(place, call, Path(command["signal"]))
            reply: dict[str, Any] = {"reply": run(command)}
        except Exception as error:
            reply = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
