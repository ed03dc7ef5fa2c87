"""Read the keys of a table into sorted runs within bounded memory."""
