"""A first look: a lake of late events, asked with and without parsieve."""
