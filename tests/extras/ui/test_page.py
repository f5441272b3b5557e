"""The page in Chromium, from a click to a result: with the mouse, with keys, on a small screen."""

import os
import shutil
import threading
from collections.abc import Iterator

import pytest

from anabranch.extras.ui.opened import open_path
from extras.ui.conftest import TOKEN, Server
from gateway.browser import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "ANABRANCH_REQUIRE_PEERS" not in os.environ, reason="needs Chromium"
)

CATCH = """
window.faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => faults.push(event.violatedDirective));
"""
STATUS = "(document.getElementById('status-text')?.textContent ?? '')"
DONE = f"{STATUS}.startsWith('Done')"
KEYS = {
    "Enter": 13,
    "Escape": 27,
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
}
CONTROL = 2
SHORT = "%7B%22measure.duration_s%22%3A%2225%22%7D"


class Page:
    """The page of a server, and what a person does with it."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.browser = browser
        self.server = server
        self.address = f"http://127.0.0.1:{server.port}/"

    def open(self, fragment: str, width: int = 1280, scheme: str = "light") -> None:
        self.browser.open("about:blank")
        self.browser.open(self.address + fragment, width, scheme)

    def get(self, script: str) -> object:
        return self.browser.evaluate(script)

    def key(self, name: str, modifiers: int = 0) -> None:
        text = {"Enter": "\r"}.get(name, "") if not modifiers else ""
        code = {"key": name, "code": name, "windowsVirtualKeyCode": KEYS[name]}
        for kind in ("keyDown", "keyUp"):
            own = {"text": text} if text and kind == "keyDown" else {}
            self.browser.call(
                "Input.dispatchKeyEvent", type=kind, modifiers=modifiers, **code, **own
            )

    def type(self, text: str) -> None:
        self.browser.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        x, y = self.browser.evaluate(
            f"(() => {{ const one = document.querySelector({selector!r});"
            "one.scrollIntoView({ block: 'center' });"
            "const { left, top, width, height } = one.getBoundingClientRect();"
            "return [left + width / 2, top + height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.browser.call("Input.dispatchMouseEvent", type=kind, **place)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    assert CHROMIUM
    server = Server(open_path(None), workers=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    browser = Browser(CHROMIUM, tmp_path_factory.mktemp("profile"))
    try:
        browser.call("Page.enable")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH)
        page = Page(browser, server)
        browser.open(f"{page.address}?token={TOKEN}")
        browser.wait(DONE)
        yield page
        server.wait_for_no_jobs()
    finally:
        browser.close()
        server.stop()
        thread.join()


@pytest.fixture(autouse=True)
def no_faults(page: Page) -> Iterator[None]:
    yield
    assert page.get("faults") == []


def test_a_rule_beside_another_and_its_link(page: Page):
    page.open(f"#item=examples%2Ftwo_links&a=reno&b=lia&set={SHORT}&seed=2")
    page.browser.wait(DONE)
    assert page.get(STATUS).endswith("25 s on sim, seed 2")
    assert page.get("document.querySelectorAll('.chart canvas:not(.swatch)').length") == 8
    said = page.get("[...document.querySelectorAll('.bars .spoken')].map((one) => one.textContent)")
    assert len(said) == 6
    assert said[0].startswith("reno: ")
    assert said[1].startswith("lia: ")
    assert all("equilibrium" in one and "optimum" in one for one in said)
    fragment = page.get("location.hash")
    page.open(fragment)
    page.browser.wait(DONE)
    assert (
        page.get("[...document.querySelectorAll('.bars .spoken')].map((o) => o.textContent)")
        == said
    )


def test_a_scenario_is_chosen_and_run_with_keys_alone(page: Page):
    page.open(f"#item=examples%2Ftwo_links&set={SHORT}")
    page.browser.wait(DONE)
    page.get("document.querySelector('#picker summary').focus()")
    page.key("Enter")
    page.get("document.getElementById('filter').focus()")
    page.type("two paths against")
    page.key("ArrowDown")
    page.key("Enter")
    page.browser.wait(f"document.title.startsWith('Two paths against one') && {DONE}")
    page.get("document.getElementById('time').focus()")
    before = page.get("document.getElementById('time-text').textContent")
    page.key("ArrowLeft")
    assert page.get("document.getElementById('time-text').textContent") != before
    page.get("performance.clearMarks()")
    page.key("Enter", CONTROL)
    page.browser.wait("performance.getEntriesByName('complete').length > 0")


def test_a_slider_changes_the_run_and_the_network(page: Page):
    page.open(f"#item=examples%2Ftwo_links&set={SHORT}")
    page.browser.wait(DONE)
    slider = "document.querySelector('#sliders input[type=range]')"
    page.get("performance.clearMarks()")
    page.get(
        f"{slider}.value = Number({slider}.max) * 0.75; {slider}.dispatchEvent(new Event('input'))"
    )
    page.browser.wait("performance.getEntriesByName('complete').length > 0")
    # Three quarters of two decades around 10 Mbps: 1 x 100^0.75.
    assert "31.6 Mbps" in page.get("document.querySelector('#topology svg').textContent")
    assert "links.left.rate_mbps" in page.get("decodeURIComponent(location.hash)")
    page.click("#topology rect[data-link=right]")
    pressed = "document.querySelector('[data-link=right]').getAttribute('aria-pressed')"
    assert page.get(pressed) == "true"


def test_the_text_is_completed_and_its_errors_are_beside_their_line(page: Page):
    page.open(f"#item=examples%2Ftwo_links&set={SHORT}")
    page.browser.wait(DONE)
    page.click("#tab-text")
    page.get("document.querySelector('#editor textarea').select()")
    page.type("[measure]\n")
    page.type("dur")
    page.browser.wait("!document.querySelector('.options').hidden")
    assert page.get("document.querySelector('.options').textContent") == "duration_s"
    page.key("Enter")
    page.type(" = soon\n")
    page.browser.wait("document.getElementById('editor-error').textContent !== ''")
    assert "Line 2" in page.get("document.getElementById('editor-error').textContent")
    assert page.get("document.querySelector('.gutter .faulty').textContent") == "2"
    assert page.get("document.querySelector('textarea').getAttribute('aria-invalid')") == "true"
    for typed, offered in [
        ("[tc", "[tcp]"),
        ('\nrecovery = "n', '"newreno"'),
        ("\n[links.a.queue]\nr", "red"),
    ]:
        page.type(typed)
        page.browser.wait("!document.querySelector('.options').hidden")
        assert offered in page.get("document.querySelector('.options').textContent")
        page.key("Enter")


def test_a_bar_is_that_of_the_rule_that_the_flow_ran(page: Page):
    page.open(f"#item=examples%2Ftwo_links&a=lia&b=olia&set={SHORT}")
    page.browser.wait(DONE)
    labels = page.get("[...document.querySelectorAll('.bar-rule')].map((one) => one.textContent)")
    # The flows "on the left" and "on the right" name Reno, whatever rule is chosen.
    assert labels == ["lia", "olia", *["reno, beside lia", "reno, beside olia"] * 2]
    colours = page.get("[...document.querySelectorAll('.fill')].map((one) => one.style.background)")
    assert len(set(colours)) == 3
    assert len(set(colours[2:])) == 1
    assert "one run, one seed" in page.get("document.querySelector('.keys').textContent")


def test_what_an_error_leaves_behind_is_grey(page: Page):
    page.open(f"#item=examples%2Ftwo_links&set={SHORT}")
    page.browser.wait(DONE)
    outdated = "document.getElementById('run-view').classList.contains('outdated')"
    assert not page.get(outdated)
    for given, said in [("", "got nothing"), ("99999999999999999999", "got 99999999999999999999")]:
        page.get(f"document.getElementById('seed').value = '{given}'")
        page.get("document.getElementById('seed').dispatchEvent(new Event('change'))")
        page.browser.wait(f"{STATUS} === 'Not run'")
        problem = page.get("document.getElementById('problem').textContent")
        assert problem.startswith("Seed: expected a whole number from 0 to 9007199254740991")
        assert said in problem
        assert page.get(outdated)
    page.get("document.getElementById('seed').value = '3'")
    page.get("document.getElementById('seed').dispatchEvent(new Event('change'))")
    page.browser.wait(DONE)
    assert not page.get(outdated)


def test_the_error_of_the_text_is_visible_on_a_laptop(page: Page):
    page.open(f"#item=examples%2Ftwo_links&set={SHORT}")
    page.browser.wait(DONE)
    laptop = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    page.browser.call("Emulation.setDeviceMetricsOverride", **laptop)
    page.click("#tab-text")
    page.get("document.querySelector('#editor textarea').select()")
    page.type("[measure]\nduration_s = soon\n")
    page.browser.wait("document.getElementById('editor-error').textContent !== ''")
    # The middle of the text is covered by the text itself, not by a button over it.
    assert page.get(
        "(() => { const one = document.getElementById('editor-error');"
        "const { left, top, width, height } = one.getBoundingClientRect();"
        "return document.elementFromPoint(left + width / 2, top + height / 2) === one; })()"
    )


def test_escape_cancels_a_run(page: Page):
    endless = "%7B%22measure.duration_s%22%3A%221e6%22%2C%22measure.sample_ms%22%3A%221e6%22%7D"
    page.open(f"#item=examples%2Ftwo_links&set={endless}")
    page.browser.wait(f"{STATUS}.startsWith('Running')")
    assert page.server.jobs() > 0
    page.key("Escape")
    page.browser.wait(f"{STATUS} === 'Stopped'")
    page.server.wait_for_no_jobs()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_small_screen_needs_no_sideways_scrolling(page: Page, scheme: str):
    page.open(f"#item=examples%2Ftwo_links&a=reno&b=lia&set={SHORT}", 420, scheme)
    page.browser.wait(DONE)
    assert page.get("document.documentElement.scrollWidth") <= 420
    ground = page.get("getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 25, 30)"}[scheme]


def test_everything_that_can_be_used_has_a_name(page: Page):
    page.open(f"#item=examples%2Ftwo_links&a=reno&b=lia&set={SHORT}")
    page.browser.wait(DONE)
    spoken = page.browser.spoken()
    controls = {"button", "combobox", "slider", "spinbutton", "textbox", "searchbox", "tab"}
    assert [role for role, name in spoken if role in controls and not name.strip()] == []
    assert ("slider", "Link left, rate, Mbps") in spoken
    assert ("button", "Path of two-path via left") in spoken
