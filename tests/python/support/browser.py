"""Open pages in headless Chromium, controlled with the W3C WebDriver protocol."""

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
# Timeout of each request in seconds. Busy machines are slow.
TIMEOUT = 300


class Browser:
    """A browser window."""

    def __init__(self, port: int, profile: str) -> None:
        self._url = f"http://127.0.0.1:{port}/session"
        options = {"binary": CHROMIUM, "args": [*QUIET.split(), f"--user-data-dir={profile}"]}
        capabilities = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": TIMEOUT * 1000, "pageLoad": TIMEOUT * 1000},
        }
        answer = self._ask("", {"capabilities": {"alwaysMatch": capabilities}})
        self._url += f"/{answer['sessionId']}"
        # A new window first shows a page of the browser. Load an empty page and discard the requests so far.
        self._ask("/url", {"url": "about:blank"})
        self.requests()

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self._url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=TIMEOUT) as answer:
            return json.load(answer)["value"]

    def open(self, page: Path, width: int, *, dark: bool) -> None:
        """Load a page on a screen of the given width."""
        screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self._command("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._command("Emulation.setEmulatedMedia", {"features": [scheme]})
        self._ask("/url", {"url": page.as_uri()})

    def _command(self, name: str, params: dict[str, Any]) -> Any:
        return self._ask("/goog/cdp/execute", {"cmd": name, "params": params})

    def evaluate(self, script: str) -> Any:
        """Run a script in the page and return its result."""
        return self._ask("/execute/sync", {"script": script, "args": []})

    def console_messages(self) -> list[str]:
        """Return the messages of the browser's console."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Return the URLs of all requests since the last call."""
        entries = (json.loads(entry["message"])["message"] for entry in self._ask("/se/log", {"type": "performance"}))
        return [
            entry["params"]["request"]["url"] for entry in entries if entry["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self) -> bytes:
        """Return an image of the page as PNG."""
        shot = self._command("Page.captureScreenshot", {"captureBeyondViewport": True})
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End the session."""
        with urlopen(Request(self._url, method="DELETE"), timeout=TIMEOUT):
            pass


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the driver and yield a window; close both at the end."""
    assert DRIVER
    # The browser may still write to its profile while it quits, so removing the folder can fail.
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
