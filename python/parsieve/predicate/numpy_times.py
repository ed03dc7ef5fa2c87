"""Times of numpy: pyarrow ignores how many units a step counts, and refuses a single day."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa


def in_steps(value: Any) -> bool:
    """Return whether a value or an array counts time in steps of several units, which pyarrow takes for other times."""
    dtype = getattr(value, "dtype", None)
    if "numpy" not in sys.modules or getattr(dtype, "kind", None) not in ("m", "M"):
        return False
    import numpy as np

    return isinstance(dtype, np.dtype) and np.datetime_data(dtype)[1] != 1


def scalar_of(value: Any) -> pa.Scalar:
    """Return a scalar of numpy as one of Arrow."""
    if getattr(value.dtype, "kind", None) == "M":
        import numpy as np

        return pa.array(np.array([value]))[0]
    return pa.scalar(value)
