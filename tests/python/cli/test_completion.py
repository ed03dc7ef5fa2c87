"""Completion scripts, run by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from parsieve.cli import main
from parsieve.cli.commands import build_parser
from parsieve.cli.completion import SHELLS, describe

LINES = [
    ("pl", {"plan"}),
    ("index u", {"update"}),
    ("-q index build x --ki", {"--kind"}),
    ("index build x --kind ", {"auto", "sieve", "bloom", "both"}),
    ("plan plan --exp", {"--explain"}),
    ("completion ", {"bash", "zsh", "fish"}),
    ("spark d", {"doctor"}),
    ("plan ord", {"orders"}),
    ("--color al", {"always"}),
]


@pytest.fixture
def script(tmp_path: Path, capsys: Any) -> Any:
    def write(shell: str) -> Path:
        assert main(["completion", shell]) == 0
        path = tmp_path / f"parsieve.{shell}"
        path.write_text(capsys.readouterr().out)
        (tmp_path / "orders").touch()
        return path

    return write


def say(program: str, *arguments: str, folder: Path) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([path, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=500)
    assert done.stderr == ""
    return done.stdout


def test_bash_completes(script: Any, tmp_path: Path) -> None:
    source = script("bash")
    for line, expected in [
        *LINES,
        ("plan --format = de", {"delta"}),
        ("plan --format =", {"delta", "hudi", "iceberg", "parquet"}),
    ]:
        words = " ".join(f"'{word}'" for word in f"parsieve {line}".split(" "))
        program = (
            f"source {source}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
            '_parsieve; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        assert set(say("bash", "--norc", "-c", program, folder=tmp_path).split()) == expected, line


def test_fish_completes(script: Any, tmp_path: Path) -> None:
    source = script("fish")
    for line, expected in LINES:
        said = say("fish", "--no-config", "-c", f"source {source}; complete -C 'parsieve {line}'", folder=tmp_path)
        assert {one.split("\t")[0] for one in said.splitlines()} == expected, line


def test_zsh_reads_the_script(script: Any, tmp_path: Path) -> None:
    source = script("zsh")
    say("zsh", "-n", str(source), folder=tmp_path)
    said = say(
        "zsh",
        "-f",
        "-c",
        f"autoload -Uz compinit; compinit -D -u; source {source}; whence -w _parsieve_index_build",
        folder=tmp_path,
    )
    assert said == "_parsieve_index_build: function\n"


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_scripts_know_every_command_and_option(script: Any, shell: str) -> None:
    text = script(shell).read_text()
    for command in describe(build_parser()).walk():
        for name in [*command.path[-1:], *(name for one in command.options for name in one.names)]:
            assert (name.lstrip("-") if shell == "fish" else name) in text
