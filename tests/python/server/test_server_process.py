"""`parsieve serve` as a process: its environment, and keys of TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.serving import sql_catalog


def _started(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start a server without a terminal."""
    sql_catalog(folder).close()
    command = [sys.executable, "-m", "parsieve", "serve", f"sqlite:///{folder}/catalog.db", "--name", "sql"]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [*command, "--port", "0", *arguments], env=os.environ | variables, start_new_session=True, **options
    )


def test_the_number_of_workers_of_the_environment_is_for_other_servers(tmp_path: Path) -> None:
    with _started(tmp_path, WEB_CONCURRENCY="4") as server:
        assert server.stderr is not None
        lines = []
        # The pipe ends if the server stops.
        while line := server.stderr.readline():
            lines.append(line)
            if "running on" in line:
                break
        server.terminate()
    assert "running on" in lines[-1]


def test_a_key_with_a_passphrase_needs_a_terminal(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    make = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:secret", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", key, "-out", cert], check=True, capture_output=True)
    with _started(tmp_path, "--tls-cert", cert, "--tls-key", key) as server:
        _, printed = server.communicate(timeout=500)
    assert server.returncode == 2
    assert f"--tls-key {key} needs a passphrase, and there is no terminal to ask for it" in printed
