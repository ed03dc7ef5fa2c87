"""Tables in query engines, which pass their filters on to parsieve."""
