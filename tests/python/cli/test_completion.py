"""Completion scripts, run by the shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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
    ("index build x --kind ", {"auto", "sieve", "bloom", "both", "text", "words"}),
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


def run_shell(program: str, *arguments: str, folder: Path) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"{program} is not installed")
    result = subprocess.run([path, *arguments], cwd=folder, capture_output=True, text=True, check=True, timeout=500)
    assert result.stderr == ""
    return result.stdout


def test_bash_completes_commands_and_options(script: Any, tmp_path: Path) -> None:
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
        assert set(run_shell("bash", "--norc", "-c", program, folder=tmp_path).split()) == expected, line


BASH = r"""
import os, pty, sys
script, *lines = sys.argv[1:]
# Neither read the settings of this user, nor add to the history.
os.environ |= {"HOME": os.getcwd(), "INPUTRC": os.devnull}
child, terminal = pty.fork()
if child == 0:
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
show = "unset HISTFILE; parsieve() { printf '<%s>' \"$@\" end; echo; }; bind 'set enable-bracketed-paste off'"
for line in (f"source {script}; {show}; PS1=", *("parsieve " + line for line in lines), "exit"):
    os.write(terminal, line.encode() + b"\n")
output = b""
try:
    while part := os.read(terminal, 1 << 16):
        output += part
except OSError:
    pass
sys.stdout.buffer.write(output)
"""


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal")
def test_bash_completes_any_name_of_a_file(script: Any, tmp_path: Path) -> None:
    if int(run_shell("bash", "--norc", "-c", "echo ${BASH_VERSINFO[0]}", folder=tmp_path)) < 4:
        pytest.skip("this version cannot complete such names")
    source = script("bash")
    for name in ("[x]", "x", "a*b", "a*bc", "my file", "it's", "$(id)"):
        (tmp_path / name).touch()
    (tmp_path / "my folder").mkdir()
    (tmp_path / "my folder" / "part.parquet").touch()
    typed = {
        "inspect [\t": "[x]",
        "plan ord\t": "orders",
        "inspect a\t": "a*b",
        "inspect my\\ fi\t": "my file",
        "inspect 'my fi\t": "my file",
        'inspect "my fol\tp\t': "my folder/part.parquet",
        "inspect my\\ folder/\t": "my folder/part.parquet",
        "inspect it\t": "it's",
        "inspect \\$\t": "$(id)",
        "plan x --index-location ord\t": "orders",
        "plan x --index-location=ord\t": "--index-location=orders",
    }
    output = run_shell(sys.executable, "-c", BASH, str(source), *typed, folder=tmp_path)
    shown = [line.rsplit("<", 2)[1][:-1] for line in output.splitlines() if line.endswith("<end>")]
    assert shown == list(typed.values())


def test_fish_completes_commands_and_options(script: Any, tmp_path: Path) -> None:
    source = script("fish")
    for line, expected in LINES:
        output = run_shell(
            "fish", "--no-config", "-c", f"source {source}; complete -C 'parsieve {line}'", folder=tmp_path
        )
        assert {candidate.split("\t")[0] for candidate in output.splitlines()} == expected, line


def test_zsh_loads_the_script(script: Any, tmp_path: Path) -> None:
    source = script("zsh")
    run_shell("zsh", "-n", str(source), folder=tmp_path)
    output = run_shell(
        "zsh",
        "-f",
        "-c",
        f"autoload -Uz compinit; compinit -D -u; source {source}; whence -w _parsieve_index_build",
        folder=tmp_path,
    )
    assert output == "_parsieve_index_build: function\n"


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_scripts_contain_every_command_and_option(script: Any, shell: str) -> None:
    text = script(shell).read_text()
    for command in describe(build_parser()).walk():
        for name in [*command.path[-1:], *(name for option in command.options for name in option.names)]:
            assert (name.lstrip("-") if shell == "fish" else name) in text
