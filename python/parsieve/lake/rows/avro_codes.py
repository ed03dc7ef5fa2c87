"""The numbers that describe the layout of an Avro row to `AvroColumns`, the compiled decoder."""

from __future__ import annotations

import pyarrow as pa

# The codes of types. A fixed type is followed by its size, a record by its number of fields.
LONG, FIXED, BYTES, OPTION, RECORD, LIST, MAP = range(7)
# The code of a column that keeps the encoded bytes of a field.
ENCODED = "encoded"
# The codes of columns, by the Arrow type that they become. The layout of the field follows.
COLUMN = {pa.int64(): 16, pa.string(): 17, pa.binary(): 18, ENCODED: 19}
COLUMN |= {pa.map_(pa.int32(), pa.int64()): 20, pa.map_(pa.int32(), pa.binary()): 21}
