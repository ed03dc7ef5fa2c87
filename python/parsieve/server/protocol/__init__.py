"""The messages of the Iceberg REST protocol: requests, filters, scan tasks and errors."""
