"""Install the wheel of dist/ into an empty environment of each given interpreter, and run the examples there.

Usage: `python tests/release.py python3.12 python3.14t`. An interpreter is a name or a path. One without the GIL needs a
separate wheel.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

# The wheel for the stable ABI serves every interpreter with a GIL.
TAG = """
import sys, sysconfig
version = f"cp3{sys.version_info.minor}"
print(f"{version}-{version}t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "cp311-abi3")
"""


def main(interpreters: Sequence[str]) -> int:
    match = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None
    version = match[1]
    for interpreter in interpreters:
        tag = subprocess.run([interpreter, "-c", TAG], capture_output=True, text=True, check=True).stdout.strip()
        wheels = list(ROOT.glob(f"dist/parsieve-{version}-{tag}-*.whl"))
        if len(wheels) != 1:
            raise SystemExit(f"dist/ must have one wheel for {tag}, the tag of {interpreter}, but it has {len(wheels)}")
        with tempfile.TemporaryDirectory(prefix="parsieve-release-") as folder:
            check(interpreter, wheels[0], version, Path(folder))
    return 0


def check(interpreter: str, wheel: Path, version: str, folder: Path) -> None:
    """Check a wheel in an empty folder, so that no program imports from the source tree by accident."""
    # Variables of the shell must not lead to the source tree either.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment["PIP_CONSTRAINT"] = str(ROOT / "requirements/constraints.txt")

    def run(*command: str | Path) -> str:
        result = subprocess.run(
            [str(part) for part in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
        return result.stdout

    run(interpreter, "-m", "venv", folder / "venv")
    programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-m", "pip", "install", "--quiet", wheel)
    python = run(programs / "python", "--version").strip()
    reported = run(programs / "parsieve", "--version").strip()
    assert reported.startswith(f"parsieve {version} "), reported
    for example in sorted((ROOT / "examples").glob("*.py")):
        example_folder = folder / example.stem
        example_folder.mkdir()
        result = subprocess.run(
            [programs / "python", "-W", "error", example],
            cwd=example_folder,
            env=environment,
            capture_output=True,
            check=False,
        )
        if result.returncode:
            raise SystemExit(f"{python}: {example.name}\n{result.stderr.decode()}")
        print(f"{python}: {example.name} runs from {wheel.name}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
