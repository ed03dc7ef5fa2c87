"""The loggers of parsieve, and texts for log lines that contain no secrets."""

from __future__ import annotations

import logging
import re

# No handler is installed. At level INFO, no line contains a value of a predicate.
PLAN = logging.getLogger("parsieve.plan")
INDEX = logging.getLogger("parsieve.index")
ROWS = logging.getLogger("parsieve.rows")
FILES = logging.getLogger("parsieve.files")
FILTERS = logging.getLogger("parsieve.filters")
SPARK = logging.getLogger("parsieve.spark")

# A user without a password is the container in URIs of Azure, and may be a token elsewhere.
_CREDENTIALS = re.compile(r"(?<=://)[^/@:]*:.*@|(?<!^abfs://)(?<!^abfss://)(?<!^wasb://)(?<!^wasbs://)(?<=://)[^/@]*@")
_QUERY = re.compile(r"(?<=\?).*", re.DOTALL)


def place(where: object) -> str:
    """Return a path or URI without the credentials that a URI may contain.

    >>> place("s3://key:secret@lake/orders"), place("https://lake/orders?sig=secret"), place("/lake/what?")
    ('s3://lake/orders', 'https://lake/orders?…', '/lake/what?')
    """
    text = str(where)
    return _QUERY.sub("…", _CREDENTIALS.sub("", text)) if "://" in text else text


def summary(report: object) -> str:
    """Return the first line of a report. The others name files and their problems."""
    return str(report).partition("\n")[0]
