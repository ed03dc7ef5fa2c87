"""Moved to `parsieve.io.store`; this name works for one more release."""

from parsieve.io.store.open import open_store
from parsieve.io.store.store import LocalStore, ObjectStore, Store

__all__ = ["LocalStore", "ObjectStore", "Store", "open_store"]
