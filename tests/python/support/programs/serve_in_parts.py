"""Serve the SQL catalog in a folder with two files in each part of a plan. Print the port."""

import socket
import sys

import uvicorn

from parsieve.server.app import local_app
from parsieve.server.settings import Limits
from parsieve.server.sql_catalog import LocalCatalog
from support.serving import opened_catalog

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
application = local_app(LocalCatalog(opened_catalog(sys.argv[1])), Limits(page_size=2))
uvicorn.run(application, fd=listener.fileno(), log_level="critical", lifespan="off")
