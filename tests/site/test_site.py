"""Every page of the built site, in a browser: it asks nobody else, says no error, fits, reads."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

TOC = yaml.safe_load((Path(__file__).parents[2] / "_toc.yml").read_text())
PAGES = [TOC["root"], *(c["file"] for part in TOC["parts"] for c in part["chapters"])]
SIZES = [(1280, "light"), (1280, "dark"), (360, "light"), (360, "dark")]

CONTRAST = """selector => {
  const number = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = number(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const seen = n => n.offsetParent && n.innerText.trim();
  return [...document.querySelectorAll(selector)].filter(seen).map(n => {
      const colours = [number(getComputedStyle(n).color), ground(n)];
      const pair = colours.map(light).sort((a, b) => b - a);
      return [(pair[0] + 0.05) / (pair[1] + 0.05), n.className, n.innerText.slice(0, 40)];
    }).sort((a, b) => a[0] - b[0])[0] ?? null;
}"""


@pytest.fixture
def look(browser, address):
    """Opens a page; collects what it asks of other hosts, failed requests and console errors."""
    contexts = []

    def open_page(name, width=1280, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.faults = []

        def route(request):
            url = request.request.url
            if url.startswith((address, "data:", "blob:")):
                request.continue_()
            else:
                page.faults.append(f"asks another host: {url}")
                request.abort()

        context.route("**/*", route)
        page.on("console", lambda m: m.type == "error" and page.faults.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: page.faults.append(f"script: {error}"))
        page.on("response", lambda r: r.status >= 400 and page.faults.append(f"{r.status} {r.url}"))
        page.goto(f"{address}{name}.html")
        page.wait_for_load_state("networkidle")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_asks_no_other_host_and_reports_no_error(look, name):
    assert look(name).faults == []


@pytest.mark.parametrize("name", PAGES)
def test_the_test_of_foreign_hosts_can_fail(look, name):
    page = look(name)
    page.evaluate("fetch('http://192.0.2.1/x').catch(() => null)")
    page.wait_for_timeout(200)
    assert any("asks another host" in fault for fault in page.faults)


@pytest.mark.parametrize(("width", "scheme"), SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_window_and_its_text_is_legible(look, name, width, scheme):
    page = look(name, width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    text = "article p, article li, article td, article th, article pre, .ledger *, .worked-number *"
    worst = page.evaluate(CONTRAST, text)
    assert worst is None or worst[0] >= 4.5, worst


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_a_language_one_heading_and_named_controls(look, name):
    page = look(name)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.locator("h1:visible").count() == 1
    nameless = page.locator("button:visible, a:visible").evaluate_all(
        "nodes => nodes.filter(n => !n.innerText.trim() && !n.ariaLabel && !n.title).length"
    )
    assert nameless == 0


def test_the_first_page_leads_to_every_chapter(look):
    page = look(PAGES[0])
    links = page.locator("article a").evaluate_all("nodes => nodes.map(n => n.pathname)")
    for name in PAGES[1:]:
        assert any(link.endswith(f"/{name}.html") for link in links), name


def test_the_folder_is_published_as_it_is(site):
    assert (site / ".nojekyll").is_file()
    assert (site / "index.html").is_file()
