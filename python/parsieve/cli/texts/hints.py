"""Translate the hints of messages from Python to the command line."""

from __future__ import annotations

import ast
import re
import shlex

# Arguments of Python that are options with the same name. Hints may contain the words with an underscore alone.
_ARGUMENTS = (
    "as_of",
    "descending",
    "existing",
    "expose",
    "format",
    "fpp",
    "in_place",
    "index_location",
    "keep_keys",
    "kind",
    "limit",
    "max_bytes",
    "memory",
    "nulls",
    "older_than",
    "on_unknown",
    "order_by",
    "pages",
    "purge",
    "row_groups",
    "threads",
    "timezone",
    "unit",
    "upload",
)
OPTIONS = {name: "--" + name.replace("_", "-") for name in _ARGUMENTS}
# Hints whose translation is more than the name of an option.
_PHRASES = {
    "pass the values as params=": "write the values themselves",
    "read the keys first, and pass keys=": "read the keys first, and pass them to parsieve lookup --keys-from",
    "pass timezone='UTC' with SQL": "pass --timezone UTC",
    "pass decryption=(kms": "use Python, with decryption=(kms",
    'hard_links="break" or a dest': "--break-hard-links or --output",
    "descending and nulls need": "--descending and --nulls need",
    "a dest outside of it": "--output with a file outside of it",
    "choose another dest": "choose another --output",
    "takes no dest": "takes no --output",
}
_NAME = f"({'|'.join(OPTIONS)})"
_LONG_NAME = f"({'|'.join(name for name in OPTIONS if '_' in name)})"
_CALL = re.compile(
    r"(?:open_table\((?P<table>'[^']*'|\.\.\.)\)\.)?"
    r"\b(?P<verb>build|update|compact|convert|drop|expire|verify)_index\((?P<arguments>[^()]*)\)"
)
# A slash after the value, or a quote before the name, is a sign of a path or of a value of the user.
_ASSIGNMENT = re.compile(
    rf"(?<![\w/.='\"-]){_NAME}="
    r"""(?P<value>"[^"\s]*"(?:\ or\ "[^"\s]*")*|True|False|[A-Z]+|\[['\"][^\]]*['\"]\]|)(?=[\s;,.)]|$)""",
    re.VERBOSE,
)
_WORD = re.compile(rf"\b(omit|pass|as) {_LONG_NAME}\b(?!=)")
_SUBJECT = re.compile(rf"(?<![\w'\"]){_LONG_NAME} (takes|changes)\b")
_BEGINNING = re.compile(rf"^{_NAME} (must be)\b")


def in_shell(text: str) -> str:
    """Return a message with its hints in terms of the command line.

    >>> from parsieve.cli.texts.hints import in_shell
    >>> in_shell("not in the index; update_index() adds it")
    'not in the index; `parsieve index update` adds it'
    >>> in_shell("for the greatest values first, pass descending=True")
    'for the greatest values first, pass --descending'
    """
    for python, shell in _PHRASES.items():
        text = text.replace(python, shell)
    text = _CALL.sub(_command, text)
    text = _ASSIGNMENT.sub(lambda match: _option(match[1], match["value"]), text)
    text = _WORD.sub(lambda match: f"{match[1]} {OPTIONS[match[2]]}", text)
    for pattern in (_SUBJECT, _BEGINNING):
        text = pattern.sub(lambda match: f"{OPTIONS[match[1]]} {match[2]}", text)
    return text


def _command(match: re.Match[str]) -> str:
    """Return the command for a call of an index method."""
    words = ["parsieve index", match["verb"]]
    table = match["table"]
    if table is not None:
        words.append("TABLE" if table == "..." else shlex.quote(table[1:-1]))
    for argument in filter(None, match["arguments"].split(", ")):
        name, _, value = argument.partition("=")
        words.append(_option(name, value) if name in OPTIONS else "COLUMN")
    return f"`{' '.join(words)}`"


def _option(name: str, value: str) -> str:
    """Return the option for an argument with a value, or with no value if the text does not show one."""
    option = OPTIONS[name]
    if value in ("", "True"):
        return option
    if value == "False":
        return option.replace("--", "--no-", 1)
    if value.startswith("["):
        try:
            return " ".join(f"{option} {shlex.quote(str(item))}" for item in ast.literal_eval(value))
        except (SyntaxError, ValueError):
            return option
    return f"{option} " + value.replace('"', "")
