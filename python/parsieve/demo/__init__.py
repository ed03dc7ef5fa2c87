"""Query a lake of late events with and without parsieve, for a first look."""
