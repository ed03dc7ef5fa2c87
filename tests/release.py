"""Installs the wheel of dist/ into an empty environment of each interpreter named, and runs the examples there.

`python tests/release.py python3.12 python3.13`; an interpreter is a name or a path.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(interpreters: Sequence[str]) -> int:
    found = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    version = found[1]
    [wheel] = ROOT.glob(f"dist/parsieve-{version}-*.whl")
    for interpreter in interpreters:
        with tempfile.TemporaryDirectory(prefix="parsieve-release-") as folder:
            check(interpreter, wheel, version, Path(folder))
    return 0


def check(interpreter: str, wheel: Path, version: str, folder: Path) -> None:
    """Everything happens in an empty folder, so that nothing of the sources is found by accident."""
    # What a shell has set for the sources must not help the wheel.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PIP_CONSTRAINT"] = str(ROOT / "requirements/constraints.txt")

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
        return done.stdout

    run(interpreter, "-m", "venv", folder / "venv")
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel)
    python = run(programs / "python", "--version").strip()
    said = run(programs / "parsieve", "--version").strip()
    assert said == f"parsieve {version}", said
    for example in sorted((ROOT / "examples").glob("*.py")):
        work = folder / example.stem
        work.mkdir()
        done = subprocess.run(
            [programs / "python", "-W", "error", example], cwd=work, env=environment, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{python}: {example.name}\n{done.stderr.decode()}")
        print(f"{python}: {example.name} runs from {wheel.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
