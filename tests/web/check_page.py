# SPDX-License-Identifier: Apache-2.0
"""Looks at the page of a daemon as a person does, in Chromium.

usage: check_page.py URL PICTURES KEY     the daemon holds what daemon/web/page_test.cpp puts there; KEY is of its entry
Ends with 0 when all holds, with 77 when there is no Chromium.
"""

import pathlib
import sys

import browser

SIZES = [(1600, 1000, False), (1600, 1000, True), (400, 800, False), (400, 800, True)]

# Every text that can be seen, against the ground behind it (WCAG 2.1, 1.4.3).
FAINT_TEXTS = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const c = parse(getComputedStyle(at).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || element.closest('svg, noscript, script') || !element.checkVisibility()) continue;
    const a = light(parse(getComputedStyle(element).color)), b = light(behind(element));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.push(`${contrast.toFixed(2)} ${walk.currentNode.data.trim().slice(0, 40)}`);
  }
  return faint;
})()"""
TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"
WATCH_MOVES = """window.moves = []; new PerformanceObserver((list) => {
  for (const one of list.getEntries()) moves.push(...one.sources.map((source) => `${source.node?.className ?? source.node} by ${one.value}`));
}).observe({type: 'layout-shift'}); 0"""
TOO_WIDE = "document.documentElement.scrollWidth > innerWidth"


class Check:
    def __init__(self, url: str, pictures: str, key: str) -> None:
        self.url, self.key = url, key
        self.pictures = pathlib.Path(pictures)
        self.page = browser.Page(browser.find() or "")

    def text(self) -> str:
        return str(self.page.run("document.body.innerText"))

    def says(self, *words: str) -> None:
        text = self.text()
        for word in words:
            assert word in text, f"'{word}' is not on the page: {text}"

    def go(self, place: str, ready: str) -> None:
        self.page.open("about:blank")
        self.page.open(self.url + place)
        self.page.wait(f"document.getElementById('main')?.dataset.ready === '{ready}'")

    def look(self, name: str) -> None:
        """At all sizes and in both lights: nothing is cut off, nothing is faint."""
        for width, height, dark in SIZES:
            self.page.size(width, height, dark)
            # Charts follow a new size in the next frame.
            self.page.run(TWO_FRAMES)
            at = f"{name} at {width} px{' in the dark' if dark else ''}"
            assert not self.page.run(TOO_WIDE), f"{at}: the page is wider than the window"
            assert (faint := self.page.run(FAINT_TEXTS)) == [], f"{at}: {faint}"
            self.page.picture(self.pictures / f"{name}-{width}{'-dark' if dark else ''}.png")
        self.page.size(1600, 1000)

    def overview(self) -> None:
        self.page.size(1600, 1000)
        self.go("", "overview")
        self.says("net.Awaited.forward", "held by build-7", "in about")
        self.says("Hit ratio", "Look-ups each second", "Flights", "net.Slow.forward", "Newest misses", "never stored", "shares nothing with other machines")
        # While nobody asked there is no ratio, and so a gap.
        assert self.page.run("document.querySelectorAll('svg.chart .line').length") == 2
        assert self.page.run("document.querySelectorAll('svg.chart rect.hits').length") > 60
        self.look("overview")
        # What is refreshed stays where it is.
        self.page.run(TWO_FRAMES)
        self.page.run(WATCH_MOVES)
        asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/api/overview')).length"
        before = self.page.run(asked)
        self.page.wait(f"{asked} >= {before} + 2")
        self.page.run(TWO_FRAMES)
        assert self.page.run("moves") == [], f"what moved: {self.page.run('moves')}"
        # The chart is read with the keys as well.
        self.page.run("document.querySelector('svg.chart').focus()")
        self.page.press("ArrowLeft")
        self.page.wait("/hits? and/.test(document.querySelector('.reading').textContent)")

    def keys(self) -> None:
        self.go("", "overview")
        seen = []
        for _ in range(6):
            self.page.press("Tab")
            seen.append(str(self.page.run("document.activeElement.textContent.trim()")))
            assert self.page.run("getComputedStyle(document.activeElement).outlineStyle") != "none", f"no mark of focus on {seen[-1]}"
        assert seen[:5] == ["Skip to the content", "Ingot", "Overview", "Entries", "Doctor"], seen
        self.page.press("Tab", shift=True)
        self.page.press("Tab", shift=True)
        self.page.press("Enter")
        self.page.wait("location.hash === '#/entries' && document.getElementById('main').dataset.ready === 'entries'")

    def entries(self) -> None:
        self.go("#/entries?rows=100", "entries")
        self.page.wait("document.querySelectorAll('tbody tr').length === 100")
        self.says("Next page", "100 entries of this page", "net.layers.")
        self.look("entries")
        first = "document.querySelector('tbody tr td:nth-child(2)').textContent"
        self.page.run("document.getElementById('sort-key').focus()")
        self.page.press("Enter")
        self.page.wait("document.querySelector('th[aria-sort=\"ascending\"]')?.textContent === 'Key' && document.querySelectorAll('tbody tr').length === 100")
        keys = self.page.run("[...document.querySelectorAll('tbody tr td:nth-child(2)')].map((one) => one.textContent)")
        assert keys == sorted(keys), keys
        self.page.run("[...document.querySelectorAll('a')].find((one) => one.textContent === 'Next page').click()")
        self.page.wait("[...document.querySelectorAll('a')].some((one) => one.textContent === 'First page') && document.querySelectorAll('tbody tr').length > 0")
        assert self.page.run(first) not in keys
        for search, rows in (("net.Encoder", 1), (self.key[:8], 1), ("nothing of the kind", 0)):
            self.go("#/entries", "entries")
            self.page.run("document.getElementById('q').focus()")
            self.page.type(search)
            self.page.press("Enter")
            self.page.wait(f"document.querySelectorAll('tbody tr').length === {rows}")
        self.page.wait("document.body.innerText.includes('No entry has “nothing of the kind” in its name')")
        self.look("no-entries")

    def entry(self) -> None:
        self.go(f"#/entry/{self.key}", "entries")
        self.page.wait("document.querySelector('.picture svg, p.warn')")
        self.says("net.Encoder.forward", "Why", "stored", "Variant", "Dependencies (1)")
        if self.page.run("!document.querySelector('.picture svg')"):
            assert "graphviz is not installed" in self.text(), self.text()
        else:
            assert self.page.run("document.querySelectorAll('.picture .cluster').length") == 1
            assert self.page.run("document.querySelectorAll('.picture .node').length") > 1
            width = "document.querySelector('.picture svg').clientWidth"
            before = self.page.run(width)
            self.page.run("[...document.querySelectorAll('button')].find((one) => one.textContent === 'Larger').click()")
            assert self.page.run(width) > before
        self.page.run("for (const one of document.querySelectorAll('details')) one.open = true")
        self.says("model.act_fn", "SiLU")
        self.look("entry")

    def hostile(self) -> None:
        """Names are texts, whatever they are."""
        self.go("#/entries?q=onerror", "entries")
        self.page.wait("document.querySelectorAll('tbody tr').length === 1")
        self.says("<img src=x onerror=alert(1)>")
        self.page.run("document.querySelector('tbody a').click()")
        self.page.wait("document.querySelector('h1')?.textContent.includes('onerror') && document.querySelector('.picture svg, p.warn')")
        assert self.page.run("document.querySelectorAll('img').length") == 1, "only the mark of the page is a picture"
        self.go("#/entry/00000000000000000000000000000000", "entries")
        self.says("No entry 000000000000")

    def doctor(self) -> None:
        self.go("#/doctor", "doctor")
        self.says("compiler", "damage")
        self.look("doctor")

    def run(self) -> None:
        for check in (self.overview, self.keys, self.entries, self.entry, self.hostile, self.doctor):
            print(check.__name__, flush=True)
            check()
        # Where nothing is, the browser says so itself.
        trouble = [one for one in self.page.trouble if "404" not in one]
        assert trouble == [], trouble
        own = [one for one in self.page.asked if not one.startswith((self.url, "about:"))]
        assert own == [], f"asked elsewhere: {own}"


def main() -> int:
    if browser.find() is None:
        return 77
    check = Check(*sys.argv[1:])
    try:
        check.run()
    finally:
        check.page.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
