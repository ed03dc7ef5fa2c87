"""Headless Chromium through its driver's own protocol (W3C WebDriver over HTTP): a page as people get it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

DRIVER = shutil.which("chromedriver")
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync "
    "--disable-dev-shm-usage"
)
# Seconds that a busy machine may take for anything.
PATIENCE = 300


class Browser:
    """One window."""

    def __init__(self, port: int, profile: str) -> None:
        self._at = f"http://127.0.0.1:{port}/session"
        options = {"binary": CHROMIUM, "args": [*QUIET.split(), f"--user-data-dir={profile}"]}
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": PATIENCE * 1000, "pageLoad": PATIENCE * 1000},
        }
        answer = self._ask("", {"capabilities": {"alwaysMatch": wanted}})
        self._at += f"/{answer['sessionId']}"
        # A new window begins with a page of the browser's own.
        self._ask("/url", {"url": "about:blank"})
        self.requests()

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        asked = Request(self._at + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(asked, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path, width: int, *, dark: bool) -> None:
        """Load a page on a screen of this width."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._command("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._ask("/url", {"url": page.as_uri()})

    def _command(self, name: str, params: dict[str, Any]) -> Any:
        return self._ask("/goog/cdp/execute", {"cmd": name, "params": params})

    def evaluate(self, script: str) -> Any:
        """What a script returns."""
        return self._ask("/execute/sync", {"script": script, "args": []})

    def complaints(self) -> list[str]:
        """What the console said."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        entries = (json.loads(entry["message"])["message"] for entry in self._ask("/se/log", {"type": "performance"}))
        return [one["params"]["request"]["url"] for one in entries if one["method"] == "Network.requestWillBeSent"]

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        shot = self._command("Page.captureScreenshot", {"captureBeyondViewport": True})
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End the session."""
        with urlopen(Request(self._at, method="DELETE"), timeout=PATIENCE):
            pass


@contextmanager
def browser() -> Iterator[Browser]:
    """A window that is closed in the end, with the driver behind it."""
    assert DRIVER
    # What a browser that was told to go is still writing may stand in the way of its folder's removal.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert driver.stdout is not None
        try:
            port = next(int(line.split()[-1].strip(".")) for line in driver.stdout if "started successfully" in line)
            window = Browser(port, profile)
            try:
                yield window
            finally:
                window.close()
        finally:
            driver.terminate()
            driver.wait()
            driver.stdout.close()
