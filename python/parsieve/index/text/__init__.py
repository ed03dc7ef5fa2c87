"""The text index: what differs from a Bloom index, whose filters, shelves and updates it uses."""
