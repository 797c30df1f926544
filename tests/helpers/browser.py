"""A small driver for headless Chromium: the DevTools protocol over a pair of pipes, standard library alone."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
KEYS = {"Enter": (13, "\r"), " ": (32, " "), "Tab": (9, ""), "Escape": (27, ""), "Home": (36, ""), "End": (35, "")}
KEYS |= {"ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")}


def chromium() -> str:
    """The path of Chromium, installing Debian's package if it is missing and that can be done."""
    find = lambda: next(filter(None, map(shutil.which, NAMES)), None)  # noqa: E731
    found = find()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet: dict[str, Any] = dict(env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, capture_output=True)
        with (Path(tempfile.gettempdir()) / "gvfx-chromium.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side: one installs, the others wait
            if find() is None:
                subprocess.run(["apt-get", "update", "-qq"], **quiet)
                subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], **quiet)
        found = find()
    if found is None:
        raise RuntimeError("Chromium is missing: install it (on Debian: apt-get install chromium) so that it is on PATH.")
    return found


class Browser:
    """One tab. `errors` collects uncaught exceptions and console errors, `requests` every address asked for."""

    def __init__(self, width: int = 1200, height: int = 900, patience: float = 20.0) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.size, self.patience = (width, height), patience
        self.buffer, self.count, self.loaded, self.session = b"", 0, False, ""
        program, self.profile = chromium(), tempfile.mkdtemp(prefix="gvfx-chromium-")
        ends = [*os.pipe(), *os.pipe()]
        theirs, self.out, self.inp, answers = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)  # 3 and 4 stay free
        for end in ends:
            os.close(end)

        def connect() -> None:
            os.dup2(theirs, 3)
            os.dup2(answers, 4)

        command = [program, *FLAGS, f"--user-data-dir={self.profile}", f"--window-size={width},{height}", "about:blank"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=connect
        )
        os.close(theirs)
        os.close(answers)
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.look()
        except BaseException:
            self.close()
            raise

    def call(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its answer."""
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data) :]
        while True:
            answer = self.receive(method)
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, waiting_for: str) -> dict[str, Any]:
        end = time.monotonic() + self.patience
        while b"\0" not in self.buffer:
            if not select.select([self.inp], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer within {self.patience:g} s ({waiting_for}).")
            part = os.read(self.inp, 1 << 20)
            if not part:
                raise RuntimeError(f"Chromium ended early ({waiting_for}).")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        method, given = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(given["exceptionDetails"]))
        elif (method == "Runtime.consoleAPICalled" and given["type"] in ("error", "assert")) or (
            method == "Log.entryAdded" and given["entry"]["level"] == "error"
        ):
            self.errors.append(json.dumps(given))
        return message

    def look(self, dark: bool = False, width: int | None = None, height: int | None = None) -> None:
        """Light or dark, and the size of the window."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        size = dict(width=width or self.size[0], height=height or self.size[1], deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def open(self, path: Path) -> None:
        self.loaded = False
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not self.loaded:
            self.receive("load")
        self.settle()

    def settle(self) -> None:
        """Wait until two frames are drawn, so that observers have run."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and let go of one key, as a keyboard would."""
        code, text = KEYS[key]
        event: dict[str, Any] = dict(key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=code)
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """kind is mouseMoved, mousePressed or mouseReleased."""
        button = dict(button="none") if kind == "mouseMoved" else dict(button="left", clickCount=1)
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        clip: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = dict(captureBeyondViewport=True, clip=dict(x=0, y=0, width=size["width"], height=size["height"], scale=1))
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **clip)["data"]))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.session = ""
            self.call("Browser.close")
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.inp)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
