# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven over its debugging pipe; Python's own library is all that is needed."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from waiting import wait_until

PATIENCE_S = 60


def find() -> "str | None":
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Page:
    """One page; `trouble` is what it complained of, `asked` the addresses it fetched."""

    def __init__(self, program: str) -> None:
        self.trouble: "list[str]" = []
        self.asked: "list[str]" = []
        self.directory = tempfile.mkdtemp(prefix="ingot-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def move_pipes() -> None:
            ends = [os.dup(end) for end in (to_browser, from_browser)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        # Root may not use Chromium's sandbox; what is looked at is our own page.
        options = ["--headless=new", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
                   "--remote-debugging-pipe", f"--user-data-dir={self.directory}"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        self.process = subprocess.Popen([program, *options, "about:blank"], preexec_fn=move_pipes, pass_fds=(3, 4),  # noqa: PLW1509  no threads yet
                                        stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = ""
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.directory, ignore_errors=True)

    def call(self, method: str, **parameters: object) -> dict:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> dict:
        while b"\0" not in self.buffer:
            piece = os.read(self.read_end, 1 << 16)
            if not piece:
                raise RuntimeError("the browser has ended")
            self.buffer += piece
        text, self.buffer = self.buffer.split(b"\0", 1)
        event = json.loads(text)
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.trouble.append("thrown: " + json.dumps(parameters["exceptionDetails"])[:500])
        elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.trouble.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif event.get("method") == "Page.javascriptDialogOpening":
            self.trouble.append("a dialog: " + parameters["message"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])
        return event

    def run(self, script: str) -> object:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, script: str) -> None:
        try:
            wait_until(script, lambda: self.run(f"Boolean({script})"), PATIENCE_S)
        except AssertionError as late:
            raise AssertionError(f"{late}; the page says: {self.run('document.body.innerText')}") from None

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def press(self, key: str, shift: bool = False) -> None:
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowRight": 39}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], modifiers=8 if shift else 0,
                      **(text if kind == "keyDown" else {}))

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def picture(self, path: pathlib.Path) -> None:
        metrics = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": metrics["width"], "height": min(metrics["height"], 6000), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
