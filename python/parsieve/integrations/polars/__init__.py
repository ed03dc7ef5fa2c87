"""Tables in Polars: `scan_polars`."""
