# SPDX-License-Identifier: Apache-2.0
"""Draws what a simulation printed (docs/images/cluster-*.svg): python3 pictures.py FOLDER_OF_JSON FOLDER_OF_SVG"""

import json
import math
import pathlib
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 360, 70, 20, 40, 50
COLOURS = ("#2563eb", "#ea580c", "#059669", "#7c3aed", "#dc2626")
DASHES = ("", "7 4", "2 3", "9 3 2 3", "1 4")


def label(value: float) -> str:
    return f"{value:g}" if abs(value) < 1e4 else f"{value / 1e3:g} k"


class Plot:
    """Lines over two axes; either may be logarithmic."""

    def __init__(self, title: str, x: str, y: str, x_range: "tuple[float, float]", y_range: "tuple[float, float]", x_log: bool = False):
        self.x_range, self.y_range, self.x_log = x_range, y_range, x_log
        self.parts = [f'<text x="{LEFT}" y="22" font-size="16" font-weight="bold">{title}</text>',
                      f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{x}</text>',
                      f'<text transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">{y}</text>']
        self.count = 0
        for tick in self.ticks(*x_range, x_log):
            at = self.place(tick, y_range[0])[0]
            self.parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e2e8f0"/>'
                              f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{label(tick)}</text>')
        for tick in self.ticks(*y_range, False):
            at = self.place(x_range[0], tick)[1]
            self.parts.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#e2e8f0"/>'
                              f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label(tick)}</text>')

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
                value, low, high = (math.log10(max(v, low)) for v in (value, low, high))
            return min(1.0, max(0.0, (value - low) / (high - low)))
        return (LEFT + share(x, *self.x_range, self.x_log) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - share(y, *self.y_range, False) * (HEIGHT - TOP - BOTTOM))

    def line(self, points: "list[tuple[float, float]]", name: str, dots: bool = False) -> None:
        colour, dash = COLOURS[self.count % len(COLOURS)], DASHES[self.count % len(DASHES)]
        placed = [self.place(*point) for point in points]
        self.parts.append(f'<path d="M{" L".join(f"{x:.1f} {y:.1f}" for x, y in placed)}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        if dots:
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed]
        y = TOP + 16 + 18 * self.count
        self.parts.append(f'<path d="M{WIDTH - 230} {y - 4}h30" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/><text x="{WIDTH - 192}" y="{y}">{name}</text>')
        self.count += 1

    def text(self) -> str:
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" font-size="12">\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def main() -> int:
    runs = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json"))}
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    lost = sorted((float(name.removeprefix("lost-")), run["compiles_a_key"]) for name, run in runs.items() if name.startswith("lost-"))
    if lost:
        nodes = next(run["nodes"] for name, run in runs.items() if name.startswith("lost-"))
        plot = Plot(f"Compiles a key, {nodes:,} nodes in a rolling restart", "shards of the index lost in the middle, %", "compiles a key",
                    (0, 100 * lost[-1][0]), (1, max(1.1, 1.05 * lost[-1][1])))
        plot.line([(100 * share, value) for share, value in lost], "simulated", dots=True)
        plot.line([(0, 1.05), (100 * lost[-1][0], 1.05)], "1.05")
        (out / "cluster-compiles.svg").write_text(plot.text())
    shown = [name for name in ("herd", "rolling", "rolling-lost", "slow", "all") if name in runs]
    plot = Plot("What a look-up in the cluster adds to a first call", "milliseconds", "first calls, %", (0.1, 100), (0, 100), x_log=True)
    for name in shown:
        plot.line([(max(0.1, 1e3 * value), percent) for percent, value in enumerate(runs[name]["added_s_by_percent"])], name)
    (out / "cluster-added.svg").write_text(plot.text())
    if "rolling-lost" in runs:
        load = runs["rolling-lost"]["load"]
        bins = load["seconds_a_bin"]
        last = max((i for i, value in enumerate(load["all_shards"]) if value), default=1)
        plot = Plot("Calls to the index in a rolling restart, one shard of twenty lost at 15 minutes", "minutes", "calls a second",
                    (0, (last + 1) * bins / 60), (0, 1.05 * max(load["all_shards"])))
        plot.line([(i * bins / 60, value) for i, value in enumerate(load["all_shards"][:last + 1])], "all shards")
        plot.line([(i * bins / 60, value) for i, value in enumerate(load["busiest_shard"][:last + 1])], "the busiest shard")
        (out / "cluster-load.svg").write_text(plot.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
