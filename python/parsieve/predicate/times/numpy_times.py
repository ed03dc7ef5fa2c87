"""Convert numpy times: pyarrow ignores steps of several units, and refuses a scalar with the unit of days."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa


def has_multiple_steps(value: Any) -> bool:
    """Return whether a value or an array counts time in steps of several units; pyarrow would read it wrongly."""
    dtype = getattr(value, "dtype", None)
    if "numpy" not in sys.modules or getattr(dtype, "kind", None) not in ("m", "M"):
        return False
    import numpy as np

    return isinstance(dtype, np.dtype) and np.datetime_data(dtype)[1] != 1


def to_arrow_scalar(value: Any) -> pa.Scalar:
    """Convert a numpy scalar to Arrow."""
    if getattr(value.dtype, "kind", None) == "M":
        import numpy as np

        return pa.array(np.array([value]))[0]
    return pa.scalar(value)
