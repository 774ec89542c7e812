"""A Chromium that is driven by tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

MISSING = (
    "these tests need Chromium and its driver, which are not on the PATH: on Debian, "
    "`apt-get install chromium chromium-driver`"
)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


class Browser:
    """One window.

    Args:
        binary: the browser.
        driver: what it is driven by.
        profile: an empty folder.
    """

    def __init__(self, binary: str, driver: str, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = binary
        for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,900"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options, Service(driver))

    def begin(self, width: int = 1280, height: int = 900, *, theme: str = "light", script: bool = True) -> None:
        """Start afresh: a blank page in a window of a size, on a system with a theme."""
        self.driver.get("about:blank")
        self._logs("browser")
        self._logs("performance")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.tell("Emulation.setDeviceMetricsOverride", **size)
        self.tell("Emulation.setTouchEmulationEnabled", enabled=width < 500)
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.tell("Emulation.setScriptExecutionDisabled", value=not script)

    def open(self, page: Path | str) -> None:
        """Open a page; it is there when this returns."""
        self.driver.get(page.as_uri() if isinstance(page, Path) else page)

    def tell(self, command: str, **arguments: Any) -> Any:
        """Say something in the language of the developer tools."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def part(self, kind: str, name: str) -> WebElement:
        """A part of the graph."""
        (found,) = [one for one in self.all(f"g.{kind}") if one.get_attribute("data-name") == name]
        return found

    def show(self, element: WebElement) -> None:
        """Scroll to an element."""
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)

    def press(self, *keys: str) -> None:
        """Type, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    @property
    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def until(self, script: str, *arguments: Any) -> Any:
        """What a script returns, once it is something."""
        return WebDriverWait(self.driver, 20, 0.05).until(lambda _: self.run(script, *arguments))

    def complaints(self) -> list[str]:
        """What the page wrote to the console, since `begin`."""
        return [entry["message"] for entry in self._logs("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for, since `begin`."""
        events = [json.loads(entry["message"])["message"] for entry in self._logs("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def _logs(self, kind: str) -> list[dict[str, Any]]:
        return self.driver.get_log(kind)

    def close(self) -> None:
        self.driver.quit()
