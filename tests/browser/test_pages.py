"""The page of a package in a real browser: it opens without a complaint, is quick, fits a phone, and answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from browsing import ActionChains, Browser, By
from selenium.webdriver.common.keys import Keys

import support
from ashore.view.page import Page, gather, make_page, serve, write_page
from page_packages import HOSTILE, JOINTS

PAGES = ("arm", "hostile", "large")
every = pytest.mark.parametrize("name", PAGES)
OPENS_WITHIN_MS = 2000


def plots_are_drawn(browser: Browser) -> None:
    """Go through the page, so that every plot comes into sight."""
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    for figure in browser.all("figure.plot"):
        browser.show(figure)
        browser.until("return arguments[0].querySelector('svg')", figure)


def view(browser: Browser) -> list[float]:
    """What part of the graph is seen: x, y, width, height."""
    return [float(part) for part in (browser.one(".canvas svg").get_dom_attribute("viewBox") or "").split()]


# --- it opens --------------------------------------------------------------------------------------------------------


@every
def test_a_page_opens_without_a_complaint_or_a_request(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    assert browser.driver.title == name
    assert browser.one("h1").text == name
    plots_are_drawn(browser)
    asked = [url for url in browser.requests() if url != "about:blank"]
    assert asked == [pages[name].as_uri()]


def test_the_largest_page_opens_within_two_seconds(browser: Browser, pages: dict[str, Path]) -> None:
    """The best of three, for the machine may be busy."""
    assert pages["large"].stat().st_size < 2_000_000
    taken: list[float] = []
    for _ in range(3):
        browser.begin()
        browser.open(pages["large"])
        taken.append(browser.run("return performance.getEntriesByType('navigation')[0].loadEventEnd"))
    assert 0 < min(taken) < OPENS_WITHIN_MS, taken


def test_nodes_tables_and_plots_are_there(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    parts = {kind: len(browser.all(f"g.{kind}[role=button]")) for kind in ("input", "output", "state", "stage", "port")}
    assert parts == {"input": 2, "output": 2, "state": 3, "stage": 2, "port": 12}
    assert len(browser.all("#joints tbody tr")) == 2
    assert len(browser.all("#contract tbody tr")) == 2 + 2 + 3
    plots_are_drawn(browser)
    assert len(browser.all("#trajectories figure svg")) == 7
    assert len(browser.all("#latency rect.bar")) >= 2
    torque = next(one for one in browser.all("figure") if one.text.startswith("outputs/torque"))
    assert len(torque.find_elements(By.CSS_SELECTOR, "path.line")) == 2 * 3, "environment, package and error of each"
    assert len(torque.find_elements(By.CSS_SELECTOR, "path.mark")) == 1, "one reset"


def test_a_page_is_read_without_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    browser.begin(script=False)
    browser.open(pages["arm"])
    page = browser.one("body").get_attribute("textContent") or ""
    assert "need JavaScript; tables do not" in page
    assert "state/joint/position" in page
    assert not browser.one("#theme").is_displayed()
    assert browser.one("#joints table").is_displayed()


def test_a_served_page_is_the_same(browser: Browser, pages: dict[str, Path]) -> None:
    server = serve(Page("arm", pages["arm"].read_bytes(), ""))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        assert browser.one("h1").text == "arm"
        browser.part("input", "q").click()
        assert browser.one("#details h3").text == "q"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_film_is_shown_in_the_page(browser: Browser, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (40, 30), "#336699").save(tmp_path / "walk.gif")
    package = support.write_arm(tmp_path / "arm")
    write_page(make_page(package, gather(package, samples=0), film=tmp_path / "walk.gif"), tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    assert browser.run("return document.querySelector('#film img').naturalWidth") == 40


# --- the graph -------------------------------------------------------------------------------------------------------


def test_a_click_on_a_port_shows_its_contract(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    assert not browser.one("#details").is_displayed()
    browser.part("input", "q").click()
    told = browser.one("#details")
    assert told.is_displayed()
    for text in (
        "input of the package",
        "state/joint/position",
        "rad",
        "sensor: measured on the robot",
        *support.JOINTS,
    ):
        assert text in told.text, text
    assert "observed" in told.text
    assert len(browser.all("#details tbody tr")) == 2
    assert len(browser.all("g.wire.lit")) == 1
    told.find_element(By.XPATH, ".//button[text()='goes to decide/q']").click()
    assert "input of the stage decide" in browser.one("#details").text
    browser.one("#details .close").click()
    assert not browser.one("#details").is_displayed()
    assert not browser.all(".lit")


def test_states_stages_and_their_ports_can_be_clicked(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    browser.part("state", "filter").click()
    assert "gets its initial value" in browser.one("#details").text
    browser.press(Keys.ESCAPE)
    browser.part("stage", "act").click()
    assert "artifacts/act.onnx" in browser.one("#details").text
    browser.press(Keys.ESCAPE)
    browser.part("port", "held").click()
    assert "input of the stage act" in browser.one("#details").text


def test_a_name_in_a_table_leads_to_the_graph(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    button = browser.one("#contract button[data-show='output:torque']")
    browser.show(button)
    button.click()
    assert browser.one("#details h3").text == "torque"
    assert browser.until("return document.getElementById('details').getBoundingClientRect().top > -1")
    browser.press(Keys.ESCAPE)
    assert not browser.one("#details").is_displayed()


def test_the_graph_is_zoomed_and_panned(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    start = view(browser)
    browser.one("[data-zoom=in]").click()
    near = view(browser)
    assert near[2] == pytest.approx(start[2] / 1.4, rel=1e-3)
    assert near[0] + near[2] / 2 == pytest.approx(start[0] + start[2] / 2, rel=1e-3), "about the middle"
    canvas = browser.one(".canvas")
    ActionChains(browser.driver).move_to_element(canvas).click_and_hold().move_by_offset(-60, -20).release().perform()
    panned = view(browser)
    assert panned[0] > near[0] + 5
    assert panned[1] > near[1] + 1
    assert not browser.one("#details").is_displayed(), "what ends a drag is no click"
    browser.one("[data-zoom=fit]").click()
    whole = view(browser)
    assert whole[2] >= start[2] * 0.99


def test_the_wheel_zooms_with_ctrl_or_once_the_graph_is_used(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    wheel = (
        "const one = new WheelEvent('wheel', {deltaY: -100, ctrlKey: arguments[0], bubbles: true, cancelable: true});"
        "return !document.querySelector('.canvas').dispatchEvent(one)"
    )
    start = view(browser)
    assert not browser.run(wheel, False), "the page is scrolled"
    assert view(browser) == start
    assert browser.run(wheel, True)
    near = view(browser)
    assert near[2] < start[2]
    browser.one("[data-zoom=fit]").click()
    before = view(browser)
    assert browser.run(wheel, False)
    assert view(browser)[2] < before[2]


def test_two_fingers_zoom(browser: Browser, pages: dict[str, Path]) -> None:
    browser.begin(360, 740)
    browser.open(pages["arm"])
    browser.show(browser.one(".canvas"))
    start = view(browser)
    box = browser.run("return document.querySelector('.canvas').getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def touch(kind: str, apart: float) -> None:
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}] if apart else []
        browser.tell("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    touch("touchStart", 20)
    for apart in (30, 45, 60):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    assert view(browser)[2] < start[2] * 0.6


# --- the keyboard ----------------------------------------------------------------------------------------------------


def test_everything_can_be_reached_with_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    browser.press(Keys.TAB)
    assert browser.focused.text == "Skip to the content"
    seen: list[str] = []
    for _ in range(120):
        browser.press(Keys.TAB)
        one = browser.focused
        if one.tag_name == "body":
            break
        seen.append(one.get_attribute("aria-label") or one.text or one.tag_name)
        visible = browser.run(
            "const one = document.activeElement, hit = one.querySelector(':scope > .hit');"
            "return getComputedStyle(one).outlineStyle !== 'none' || (hit && getComputedStyle(hit).stroke !== 'none')"
        )
        assert visible, f"the focus on {seen[-1]!r} cannot be seen"
    order = [
        seen.index(name)
        for name in ("Switch to the dark theme", "Graph", "Zoom in", "Show the whole graph", "q, input of the package")
    ]
    assert order == sorted(order)
    assert sum("of the package" in name or "of the stage" in name for name in seen) == 1, "one stop in the graph"
    for name in ("Inputs", "Joints", "shoulder", "Outputs (2)"):
        assert name in seen, name


def test_the_graph_is_used_with_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    browser.run("document.querySelector('.canvas [tabindex=\"0\"]').focus()")
    assert browser.focused.get_attribute("data-id") == "input:q"
    browser.press(Keys.ARROW_DOWN)
    assert browser.focused.get_attribute("data-id") == "input:v"
    browser.press(Keys.ARROW_RIGHT)
    assert (browser.focused.get_attribute("data-id") or "").split(":")[0] in ("port", "stage")
    browser.press(Keys.ARROW_LEFT)
    came_back = browser.focused.get_attribute("data-id")
    assert came_back
    assert came_back.startswith("input:")
    browser.press(Keys.ENTER)
    assert browser.focused.get_attribute("id") == "details"
    assert browser.one("#details h3").text == came_back.partition(":")[2]
    browser.press(Keys.TAB)
    assert browser.focused.get_attribute("aria-label") == "Close the details"
    browser.press(Keys.ESCAPE)
    assert not browser.one("#details").is_displayed()
    assert browser.focused.get_attribute("data-id") == came_back, "the focus comes back"
    start = view(browser)
    browser.press("+")
    assert view(browser)[2] < start[2]
    browser.press("0")
    assert view(browser)[2] >= start[2] * 0.99


def test_a_plot_tells_its_values_to_the_keyboard(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["arm"])
    figure = next(one for one in browser.all("figure") if one.text.startswith("outputs/torque"))
    browser.show(figure)
    browser.until("return arguments[0].querySelector('svg')", figure)
    data = json.loads(figure.find_element(By.TAG_NAME, "script").get_attribute("textContent") or "")
    readout = figure.find_element(By.CSS_SELECTOR, ".readout")
    assert readout.text == "Broad: environment. Thin: package. Dotted: resets."
    browser.run("arguments[0].querySelector('svg').focus()", figure)
    browser.press(Keys.END, Keys.ARROW_LEFT)
    value = data["series"][1]["values"][-2]
    assert f"elbow: environment {value:.5g}" in readout.text
    browser.press(Keys.HOME)
    assert readout.text.startswith("time in s: 0.")
    browser.press(Keys.ESCAPE)
    assert readout.text.startswith("Broad")


def test_elements_of_a_plot_are_switched(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["large"])
    figure = browser.one("figure.plot")
    browser.show(figure)
    browser.until("return arguments[0].querySelector('svg')", figure)
    pressed = figure.find_elements(By.CSS_SELECTOR, ".legend [aria-pressed=true]")
    assert len(pressed) == 4
    assert {button.text for button in pressed} < set(JOINTS)

    def count() -> int:
        return len(figure.find_elements(By.CSS_SELECTOR, "path.line"))

    assert count() == 4 * 3
    pressed[0].click()
    assert pressed[0].get_attribute("aria-pressed") == "false"
    assert count() == 3 * 3
    figure.find_element(By.XPATH, ".//button[text()='all']").click()
    assert count() == 3 * len(figure.find_elements(By.CSS_SELECTOR, ".legend [aria-pressed]"))
    figure.find_element(By.XPATH, ".//button[text()='none']").click()
    assert count() == 0


# --- phones and themes -----------------------------------------------------------------------------------------------


@every
def test_a_phone_shows_it_without_scrolling_sideways(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.begin(360, 740)
    browser.open(pages[name])
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true")
    width = "return [document.documentElement.scrollWidth, innerWidth]"
    assert browser.run(width) == [360, 360]
    browser.run("document.querySelector('#contract button[data-show]').click()")
    assert browser.one("#details").is_displayed()
    assert browser.run(width) == [360, 360]
    small = browser.run(
        "return [...document.querySelectorAll('button.button')].filter((one) => one.getBoundingClientRect().height < 32"
        " && one.offsetParent).map((one) => one.textContent)"
    )
    assert not small, "too small for a finger"


@pytest.fixture
def forgotten(browser: Browser) -> Iterator[None]:
    yield
    browser.run("localStorage.clear()")


@pytest.mark.usefixtures("forgotten")
def test_the_theme_is_the_systems_until_one_is_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    browser.begin(theme="dark")
    browser.open(pages["arm"])
    assert browser.run(ground) == "rgb(18, 24, 31)"
    card = "return getComputedStyle(document.querySelector('g.input rect')).fill"
    assert browser.run(card) == "rgb(18, 24, 31)", "the drawing follows"
    button = browser.one("#theme")
    assert button.accessible_name == "Switch to the light theme"
    button.click()
    assert button.text == "Dark"
    assert browser.run(ground) == "rgb(255, 255, 255)"
    browser.open(pages["arm"])
    assert browser.run(ground) == "rgb(255, 255, 255)", "it is remembered"
    browser.run("localStorage.clear()")
    browser.begin(theme="light")
    browser.open(pages["arm"])
    assert browser.run(ground) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read_in_both_themes(browser: Browser, pages: dict[str, Path], theme: str) -> None:
    """The contrast of every text with the colour behind it is 4.5 or more; 3 in drawings."""
    browser.begin(theme=theme)
    browser.open(pages["arm"])
    plots_are_drawn(browser)
    faint = browser.run(CONTRASTS)
    assert not faint


CONTRASTS = """
const channel = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
const parts = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
const light = (rgb) => 0.2126 * channel(rgb[0] / 255) + 0.7152 * channel(rgb[1] / 255) + 0.0722 * channel(rgb[2] / 255);
const behind = (one) => {
  for (let at = one; at; at = at.parentElement) {
    const rgb = parts(getComputedStyle(at).backgroundColor);
    if (rgb.length === 3 || rgb[3] === 1) return rgb;
  }
  return [255, 255, 255];
};
const found = [];
for (const one of document.querySelectorAll("body *")) {
  const own = [...one.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!own || !one.getClientRects().length || ["SCRIPT", "NOSCRIPT", "title"].includes(one.tagName)) continue;
  const drawn = one.namespaceURI.endsWith("svg");
  const words = parts(drawn ? getComputedStyle(one).fill : getComputedStyle(one).color);
  const [high, low] = [light(words), light(behind(one))].sort((a, b) => b - a);
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < (drawn ? 3 : 4.5)) found.push([one.tagName, one.textContent.slice(0, 40), contrast]);
}
return found;
"""


# --- hostile packages ------------------------------------------------------------------------------------------------


def test_hostile_names_are_shown_as_text(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["hostile"])
    names = [button.text for button in browser.all("#contract table:first-of-type button[data-show^='input:']")]
    assert names == list(HOSTILE)
    for name in HOSTILE:
        browser.part("input", name).send_keys(Keys.ENTER)
        assert browser.one("#details h3").text == name
        assert name in browser.one("#details dl").text
        browser.press(Keys.ESCAPE)
    plots_are_drawn(browser)
    assert browser.driver.title == "hostile"
    assert len(browser.all("script:not([type])")) == 2
    assert not browser.all("img, iframe, object, embed, link, form, a[href^=javascript]")
    assert browser.one("#files table").is_displayed(), "no style of theirs"
    for name in ("contract", "findings", "provenance"):
        assert browser.one(f"#{name}").size["height"] < 3000, f"a text of {name} is folded letter by letter"
