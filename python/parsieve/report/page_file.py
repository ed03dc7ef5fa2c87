"""Write a page to a file, without losing the page that it replaces, and without replacing a file of another kind."""

from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path

from parsieve.io.replace import TEMPORARY

# How pages of parsieve begin, in lower case.
_BEGIN = b"<!doctype html"


def refuse_other_files(page: Path) -> None:
    """Raise `FileExistsError` if a file is not empty and not a page, such as a file of the user's table."""
    if not page.is_file():
        return
    with page.open("rb") as file:
        begin = file.read(len(_BEGIN))
    if begin and begin.lower() != _BEGIN:
        raise FileExistsError(f"{page} exists and is not an HTML page; choose another file")


def write_page(page: Path, text: str) -> None:
    """Write a page. If that fails, for example because the disk is full, the earlier page stays."""
    target, content = page.resolve(), text.encode()
    try:
        if target.exists() and (not target.is_file() or not os.access(target.parent, os.W_OK)):
            target.write_bytes(content)
            return
        new = target.with_name(TEMPORARY.format(uuid.uuid4().hex))
        try:
            with new.open("xb") as file:
                file.write(content)
            if target.exists():
                new.chmod(stat.S_IMODE(target.stat().st_mode))
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
    except OSError as error:
        # A failed write does not name the file.
        raise type(error)(error.errno, error.strerror, str(page)) from None
