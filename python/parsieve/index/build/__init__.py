"""The steps that builds and updates of both kinds of index share."""
