"""Moved to `parsieve.io.store`; this name works for one more release."""

from parsieve.io.store.base import Store
from parsieve.io.store.local import LocalStore
from parsieve.io.store.objects import ObjectStore
from parsieve.io.store.open import open_store

__all__ = ["LocalStore", "ObjectStore", "Store", "open_store"]
