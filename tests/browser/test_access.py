"""The dashboard in the dark, on a narrow screen, by the keyboard alone, and for those who hear it read."""

from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import expect
from support.browsing import KINDS, MAC_CELL, drawn, shown
from support.stores import MAC_RUN

from metalbench.results.dashboard.source import cell_path

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text("utf-8")
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
GRAVE = {"serious", "critical"}


@pytest.mark.parametrize("kind", KINDS)
def test_no_page_is_wider_than_a_telephone(visits, form, kind):
    page = visits(form, viewport={"width": 400, "height": 800}).open(KINDS[kind])
    drawn(page)
    assert page.evaluate("() => document.scrollingElement.scrollWidth") <= 400


def faults(page):
    page.evaluate(AXE)
    found = page.evaluate("() => axe.run({preload: false})")["violations"]  # no request of its own
    return [
        f"{fault['id']}: {fault['help']}: {node['html'][:200]} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"][:3]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_grave_stands_in_anybodys_way(visits, form, kind):
    page = visits(form, bypass_csp=True).open(KINDS[kind])
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        drawn(page)
        assert faults(page) == []


def test_what_is_wrong_with_a_page_would_be_found(visits, form):
    page = visits(form, bypass_csp=True).open("index.html")
    page.evaluate("() => document.querySelector('nav a').style.color = '#dddddd'")
    assert [fault for fault in faults(page) if fault.startswith("color-contrast")]


def inks(page):
    """The colours of the text in a page's first chart."""
    return set(drawn(page).first.locator("svg text").evaluate_all("(all) => all.map((one) => getComputedStyle(one).fill)"))


def test_pages_and_charts_are_dark_where_the_system_is(visits, form):
    light, dark = (visits(form, color_scheme=scheme).open(KINDS["cell"]) for scheme in ("light", "dark"))
    assert light.evaluate(BACKGROUND) != dark.evaluate(BACKGROUND)
    assert not inks(light) & inks(dark)


def test_the_theme_can_be_chosen_and_is_kept(visit):
    page = visit.open(KINDS["cell"])
    light, ink = page.evaluate(BACKGROUND), inks(page)
    button = page.get_by_role("button", name="Theme")
    expect(button).to_have_text("Theme: auto")
    button.click()
    button.click()
    expect(button).to_have_text("Theme: dark")
    dark = page.evaluate(BACKGROUND)
    assert dark != light
    changed = drawn(page).first.locator("svg text").first
    expect(changed).not_to_have_css("fill", next(iter(ink)))
    page.reload()
    assert page.evaluate(BACKGROUND) == dark
    page.emulate_media(color_scheme="light")
    assert page.evaluate(BACKGROUND) == dark, "what was chosen is stronger than the system"
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate(BACKGROUND) == light


def test_an_open_page_follows_the_system(visit):
    page = visit.open(KINDS["cell"])
    light, ink = page.evaluate(BACKGROUND), inks(page)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(BACKGROUND) != light
    expect(drawn(page).first.locator("svg text").first).not_to_have_css("fill", next(iter(ink)))


FOCUSED = """() => {
  const style = getComputedStyle(document.activeElement);
  return (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
}"""


def reach(page, target, limit=400):
    """Press Tab until the target has the focus, which must be seen wherever it is on the way."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement === document.body"):
            continue
        assert page.evaluate(FOCUSED), page.evaluate("() => document.activeElement.outerHTML.slice(0, 200)")
        if target.evaluate("(one) => one === document.activeElement"):
            return
    pytest.fail(f"the keyboard does not reach {target}")


def test_the_keyboard_skips_to_the_content(visit):
    page = visit.open(KINDS["run"])
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    box = skip.bounding_box()
    assert box["x"] >= 0
    assert box["y"] >= 0
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_the_keyboard_reaches_the_pages_and_the_theme(visit):
    page = visit.open("index.html")
    button = page.get_by_role("button", name="Theme")
    reach(page, button, 10)
    page.keyboard.press("Enter")
    expect(button).to_have_text("Theme: light")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation").get_by_role("link", name="History")).to_have_attribute("aria-current", "page")


def test_the_keyboard_follows_a_square(visit):
    page = visit.open("index.html")
    reach(page, page.locator(f"#heatmap a[href='{cell_path(MAC_RUN, MAC_CELL)}']").first)
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("mlx-metal")


def test_the_keyboard_filters_and_sorts_a_table(visit):
    page = visit.open(KINDS["compare"])
    reach(page, page.locator("#cells").get_by_label("Filter"))
    page.keyboard.type("fft")
    assert len(shown(page, "cells")) == 4
    heading = page.locator("#cells thead th").nth(1)
    reach(page, heading.get_by_role("button"), 10)
    page.keyboard.press("Enter")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(heading.get_by_role("button")).to_be_focused()
