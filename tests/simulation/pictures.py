# SPDX-License-Identifier: Apache-2.0
"""Draws what simulations printed (docs/images/cluster-*.svg) and prints their table: pictures.py FOLDER_OF_JSON FOLDER_OF_SVG"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 72, 24, 44, 54
COLOURS = ("c0", "c1", "c2", "c3", "c4")
DASHES = ("none", "8 4", "2 3", "10 3 2 3", "1 5")
# Whoever looks has a light page or a dark one.
STYLE = """
svg { font: 13px system-ui, sans-serif; }
.page { fill: #ffffff; } text { fill: #1e293b; } .grid { stroke: #e2e8f0; } .axis { stroke: #64748b; } .mark { stroke: #64748b; }
.c0 { stroke: #2563eb; } .c1 { stroke: #c2410c; } .c2 { stroke: #047857; } .c3 { stroke: #7c3aed; } .c4 { stroke: #be123c; }
path { fill: none; } .line { stroke-width: 2.2; stroke-linejoin: round; } circle { fill: currentColor; stroke-width: 6; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; } text { fill: #e2e8f0; } .grid { stroke: #283141; } .axis { stroke: #94a3b8; } .mark { stroke: #94a3b8; }
  .c0 { stroke: #60a5fa; } .c1 { stroke: #fb923c; } .c2 { stroke: #34d399; } .c3 { stroke: #a78bfa; } .c4 { stroke: #fb7185; }
}
"""
CAUSES = {"holder_died": "holder died", "index_lost": "index lost", "partition": "network parted", "blobs_away": "no blobs", "too_large": "too large to share",
          "slow": "slow index", "other": "other"}


def label(value: float) -> str:
    return f"{value:,.6g}"


class Plot:
    """Lines over two axes; either may be logarithmic. `key`: where the lines are named, left or right."""

    def __init__(self, title: str, x: str, y: str, x_range: "tuple[float, float]", y_range: "tuple[float, float]", x_log: bool = False, y_log: bool = False, key: str = "right"):
        self.x_range, self.y_range, self.x_log, self.y_log, self.key = x_range, y_range, x_log, y_log, key
        self.title = title
        bottom = HEIGHT - BOTTOM
        self.parts = [f'<text x="{LEFT}" y="26" font-size="16" font-weight="600">{title}</text>',
                      f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{x}</text>',
                      f'<text transform="translate(18 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{y}</text>']
        for tick in self.ticks(*x_range, x_log):
            at = self.place(tick, y_range[0])[0]
            self.parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/><text x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">{label(tick)}</text>')
        for tick in self.ticks(*y_range, y_log):
            at = self.place(x_range[0], tick)[1]
            self.parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}"/><text x="{LEFT - 8}" y="{at + 4.5:.1f}" text-anchor="end">{label(tick)}</text>')
        self.parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>')
        self.lines: "list[str]" = []

    @staticmethod
    def ticks(low: float, high: float, is_log: bool) -> "list[float]":
        if is_log:
            return [10.0 ** i for i in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
        rough = (high - low) / 6
        step = min((m * 10.0 ** math.floor(math.log10(rough)) for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
        return [round(i * step, 9) for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]

    def place(self, x: float, y: float) -> "tuple[float, float]":
        def share(value: float, low: float, high: float, is_log: bool) -> float:
            if is_log:
                value, low, high = math.log10(max(value, low)), math.log10(low), math.log10(high)
            return min(1.0, max(0.0, (value - low) / (high - low)))
        return (LEFT + share(x, *self.x_range, self.x_log) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - share(y, *self.y_range, self.y_log) * (HEIGHT - TOP - BOTTOM))

    def line(self, points: "list[tuple[float, float]]", name: str, dots: bool = False) -> None:
        colour, dash = COLOURS[len(self.lines)], DASHES[len(self.lines)]
        placed = [self.place(*point) for point in points]
        way = " L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        self.parts.append(f'<path class="line {colour}" stroke-dasharray="{dash}" d="M{way}"/>')
        if dots:
            self.parts += [f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="1"/>' for x, y in placed]
        self.lines.append(name)

    def mark(self, x: float, words: str) -> None:
        """A moment or a limit."""
        at = self.place(x, 0)[0]
        self.parts.append(f'<path class="mark" stroke-dasharray="3 4" d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}"/>'
                          f'<text x="{at - 6:.1f}" y="{TOP + 14}" text-anchor="end">{words}</text>')

    def text(self) -> str:
        key = []
        width = 52 + 7.2 * max(map(len, self.lines), default=0)
        left = WIDTH - RIGHT - width - 8 if self.key == "right" else LEFT + 8
        top = TOP + 8
        if len(self.lines) > 1:
            key.append(f'<rect class="page" x="{left:.1f}" y="{top}" width="{width:.1f}" height="{20 * len(self.lines) + 8}" opacity="0.85"/>')
            for i, name in enumerate(self.lines):
                y = top + 19 + 20 * i
                key.append(f'<path class="line {COLOURS[i]}" stroke-dasharray="{DASHES[i]}" d="M{left + 8:.1f} {y - 4}h30"/><text x="{left + 46:.1f}" y="{y}">{name}</text>')
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n<title>{self.title}</title>\n<style>{STYLE}</style>\n'
                f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>\n' + "\n".join(self.parts + key) + "\n</svg>\n")


HEAD = """| scenario | nodes | keys | compiles a key | compiles again, because | added ms, p50, p99 | waits | takeovers | blobs moved | index, calls/s |
|---|---|---|---|---|---|---|---|---|---|"""


def row(run: dict) -> str:
    again = ", ".join(f"{CAUSES[cause]} {count:,}" for cause, count in run["compiles_again"].items() if count)
    moved = (run["blob_bytes_read"] + run["blob_bytes_written"]) / 1e9
    return (f'| {run["scenario"]} | {run["nodes"]:,} | {run["keys"]:,} | {run["compiles_a_key"]:.3f} | {again or "-"} '
            f'| {1e3 * run["added_p50_s"]:.1f}, {1e3 * run["added_p99_s"]:.1f} | {run["waits"]:,} | {run["takeovers"]:,} '
            f'| {moved:,.0f} GB | {run["index_calls_a_second_max"]:,} |')


def main() -> int:
    runs = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))}
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    nodes = next(iter(runs.values()))["nodes"]
    plot = Plot(f"What asking the cluster adds to a first call, {nodes:,} nodes", "milliseconds added, at most", "first calls, %", (0.1, 100), (0, 100),
                x_log=True, key="left")
    for name in ("herd", "rolling", "rolling-lost", "slow", "all"):
        if name in runs:
            plot.line([(max(0.1, 1e3 * value), percent) for percent, value in enumerate(runs[name]["added_s_by_percent"])], name)
    plot.mark(40, "cluster_lookup_ms_max")
    (out / "cluster-added.svg").write_text(plot.text())
    if "rolling-lost" in runs:
        load = runs["rolling-lost"]["load"]
        bins = load["seconds_a_bin"]
        last = max((i for i, value in enumerate(load["calls"]) if value > 1), default=1)
        plot = Plot(f"Calls to the index in a rolling restart, {nodes:,} nodes", "minutes", "calls a second", (0, (last + 1) * bins / 60),
                    (1, 2 * max(load["calls"])), y_log=True)
        plot.line([(i * bins / 60, value) for i, value in enumerate(load["calls"][:last + 1])], "calls")
        plot.mark(15, "the index is lost")
        (out / "cluster-load.svg").write_text(plot.text())
    print(HEAD)
    for run in runs.values():
        print(row(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
