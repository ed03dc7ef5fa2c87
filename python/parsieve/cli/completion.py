"""Completion scripts for shells, generated from the parser, so that they know all its options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from parsieve.cli.parser import PATHS


@dataclass(frozen=True)
class Argument:
    """An option or a positional argument of a command."""

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    about: str
    repeats: bool

    @property
    def is_path(self) -> bool:
        """Return whether its value is a path."""
        return self.value in PATHS


@dataclass(frozen=True)
class Command:
    """A command with its arguments, or a group of commands."""

    path: tuple[str, ...]
    about: str
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def options(self) -> list[Argument]:
        """Return its options."""
        return [argument for argument in self.arguments if argument.names]

    @property
    def positionals(self) -> list[Argument]:
        """Return its positional arguments."""
        return [argument for argument in self.arguments if not argument.names]

    def walk(self) -> Iterator[Command]:
        """Yield the command and all below it."""
        yield self
        for command in self.commands:
            yield from command.walk()


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script that completes the commands and options of a parser.

    >>> from parsieve.cli.commands import build_parser
    >>> from parsieve.cli.completion import completion
    >>> completion(build_parser(), "bash").splitlines()[-1]
    'complete -F _parsieve parsieve'
    """
    return SHELLS[shell](describe(parser))


def describe(parser: argparse.ArgumentParser, path: tuple[str, ...] = (), about: str = "") -> Command:
    """Return the commands and arguments of a parser."""
    arguments, commands = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            texts = {choice.dest: choice.help or "" for choice in action._choices_actions}
            commands += [
                describe(subparser, (*path, name), texts.get(name, "")) for name, subparser in action.choices.items()
            ]
        else:
            arguments.append(_argument(action))
    return Command(path, about, tuple(arguments), tuple(commands))


def _argument(action: argparse.Action) -> Argument:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Argument(
        names=tuple(action.option_strings),
        value=None if action.nargs == 0 else metavar,
        choices=tuple(map(str, action.choices or ())),
        about=(action.help or "").replace("%%", "%").replace("%(default)s", str(action.default)),
        repeats=isinstance(action, argparse._AppendAction | argparse._CountAction) or action.nargs in ("*", "+"),
    )


def _bash(root: Command) -> str:
    name, commands = "parsieve", list(root.walk())
    values = []
    for command in commands:
        for option in command.options:
            if option.value is not None:
                keys = "|".join(f'"{"/".join(command.path)} {name}"' for name in option.names)
                values.append(f"        {keys}) {_bash_values(option)}; return ;;")
    words = []
    for command in commands:
        options = " ".join(name for option in command.options for name in option.names)
        others = [subcommand.path[-1] for subcommand in command.commands]
        others += [choice for argument in command.positionals for choice in argument.choices]
        words.append(f'        "{"/".join(command.path)}") options="{options}" words="{" ".join(others)}" ;;')
    paths = "|".join(
        f'"{"/".join(subcommand.path[:-1])}/{subcommand.path[-1]}"' for subcommand in commands if subcommand.path
    )
    return "\n".join(
        [
            f'# Completion for bash. In ~/.bashrc: eval "$({name} completion bash)"',
            f"_{name}() {{",
            '    local IFS=$\' \\t\\n\' cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local command="" options="" words="" at',
            "    COMPREPLY=()",
            "    # Bash splits --option=value at the equals sign.",
            '    if [[ "$cur" == "=" ]]; then cur=""',
            '    elif [[ "$prev" == "=" ]]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi',
            "    for ((at = 1; at < COMP_CWORD; at++)); do",
            '        case "$command/${COMP_WORDS[at]}" in',
            f'            {paths}) command="${{command:+$command/}}${{COMP_WORDS[at]}}" ;;',
            "        esac",
            "    done",
            '    case "$command $prev" in',
            *values,
            "    esac",
            '    case "$command" in',
            *words,
            "    esac",
            '    if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))',
            '    elif [[ -n "$words" ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            f"    else _{name}_paths; fi",
            "}",
            f"_{name}_paths() {{",
            "    # Bash itself completes names with spaces, quotes and wildcards.",
            "    compopt -o default 2>/dev/null && return",
            "    # Bash 3.2 cannot do this, and macOS has no later one.",
            "    local IFS=$'\\n'",
            '    COMPREPLY=($(compgen -f -- "$cur"))',
            "}",
            f"complete -F _{name} {name}",
        ]
    )


def _bash_values(option: Argument) -> str:
    if option.is_path:
        return "_parsieve_paths"
    return f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$cur"))' if option.choices else ":"


def _zsh(root: Command) -> str:
    functions = [line for command in root.walk() for line in _zsh_function(command)]
    return "\n".join(
        [
            "#compdef parsieve",
            '# Completion for zsh. In ~/.zshrc, after compinit: eval "$(parsieve completion zsh)"',
            *functions,
            'if [[ "${funcstack[1]}" == "_parsieve" ]]; then _parsieve "$@"; else compdef _parsieve parsieve; fi',
        ]
    )


def _zsh_function(command: Command) -> list[str]:
    name = "_".join(["_parsieve", *command.path])
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    if not command.commands:
        specs += [
            f"'{'*' if argument.repeats else number}:{_zsh_text(argument.value or '')}:{_zsh_values(argument)}'"
            for number, argument in enumerate(command.positionals, start=1)
        ]
        return [
            f"{name}() {{",
            "    _arguments -s \\",
            *(f"        {spec} \\" for spec in specs),
            "        && return",
            "}",
        ]
    names = [f"'{subcommand.path[-1]}:{_zsh_text(subcommand.about)}'" for subcommand in command.commands]
    cases = [
        f"            {subcommand.path[-1]}) {'_'.join(['_parsieve', *subcommand.path])} ;;"
        for subcommand in command.commands
    ]
    return [
        f"{name}() {{",
        '    local curcontext="$curcontext" state line',
        "    local -a commands",
        f"    commands=({' '.join(names)})",
        "    _arguments -C -s \\",
        *(f"        {spec} \\" for spec in specs),
        "        '1: :->command' '*:: :->arguments'",
        "    case $state in",
        "        command) _describe command commands ;;",
        "        arguments) case $line[1] in",
        *cases,
        "        esac ;;",
        "    esac",
        "}",
    ]


def _zsh_option(option: Argument) -> Iterator[str]:
    star = "*" if option.repeats else ""
    for name in option.names:
        about = f"[{_zsh_text(option.about)}]"
        if option.value is None:
            yield f"'{star}{name}{about}'"
        else:
            joined = "=" if name.startswith("--") else "+"
            yield f"'{star}{name}{joined}{about}:{_zsh_text(option.value)}:{_zsh_values(option)}'"


def _zsh_values(argument: Argument) -> str:
    if argument.choices:
        return f"({' '.join(argument.choices)})"
    return "_files" if argument.is_path else " "


def _zsh_text(text: str) -> str:
    for character in "\\[]:":
        text = text.replace(character, "\\" + character)
    return text.replace("'", "'\\''")


def _fish(root: Command) -> str:
    commands = list(root.walk())
    paths = " ".join(
        f"{'/'.join(subcommand.path[:-1])}/{subcommand.path[-1]}" for subcommand in commands if subcommand.path
    )
    return "\n".join(
        [
            "# Completion for fish: parsieve completion fish > ~/.config/fish/completions/parsieve.fish",
            "function __parsieve_command",
            '    set -l command ""',
            "    for word in (commandline -opc)[2..-1]",
            '        switch "$command/$word"',
            f"            case {paths}",
            '                set command (string trim --left --chars=/ "$command/$word")',
            "        end",
            "    end",
            '    echo "$command"',
            "end",
            *(line for command in commands for line in _fish_lines(command)),
        ]
    )


def _fish_lines(command: Command) -> Iterator[str]:
    start = f"complete -c parsieve -n 'test (__parsieve_command) = \"{'/'.join(command.path)}\"'"
    choices = [choice for argument in command.positionals for choice in argument.choices]
    if command.commands or choices:
        yield f"{start} -f"
    for below in command.commands:
        yield f"{start} -a {below.path[-1]} -d {_fish_text(below.about)}"
    for choice in choices:
        yield f"{start} -a {choice}"
    for option in command.options:
        names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
        values = ""
        if option.value is not None:
            values = " -r -F" if option.is_path else " -x"
            values += f" -a {_fish_text(' '.join(option.choices))}" if option.choices else ""
        yield f"{start} {names}{values} -d {_fish_text(option.about)}"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: dict[str, Callable[[Command], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
