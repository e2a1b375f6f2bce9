# SPDX-License-Identifier: Apache-2.0
"""Many processes, and many threads of one process, that call models on few cores: what all together get done, and how long a call waits."""

import argparse
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from tabulate import tabulate

CHILD = pathlib.Path(__file__).resolve().with_name("crowd_child.py")
MODELS = {"minilm1": ["minilm1"], "minilm4x128": ["minilm4x128"], "decode": ["decode"], "resnet50": ["resnet50"], "mix": ["minilm1", "resnet50"]}
# What must be importable for a way.
WAYS = {"ingot": [], "ort": ["onnx", "onnxscript", "onnxruntime"], "ort no spin": ["onnx", "onnxscript", "onnxruntime"],
        "openvino": ["onnx", "onnxscript", "openvino"], "inductor": [], "eager": []}
CONDITIONS, KINDS = ("quiet", "burner", "quota"), ("processes", "threads")
START_S_MAX = 900
QUICK = ["--seconds", "1", "--counts", "1,2", "--ways", "ingot,eager", "--conditions", "quiet"]


class Failed(Exception):
    pass


class Crowd:
    """A folder in which processes meet, with the store and the files that they share."""

    def __init__(self, box: pathlib.Path, peers: "str | None") -> None:
        self.box = box
        self.env = {**os.environ, "INGOT_STORE_DIR": str(box / "store"), "TORCHINDUCTOR_CACHE_DIR": str(box / "inductor"), "PEERS": peers or ""}
        self.env.pop("INGOT_SOCKET", None)

    def end(self) -> None:
        program = pathlib.Path(importlib.util.find_spec("ingot").origin).parent / "bin" / "ingot"
        subprocess.run([str(program), "daemon", "stop", "--now"], env=self.env, capture_output=True)

    def start(self, number: int, way: str, names: "list[str]", seconds: float = 0, before: "list[str]" = ()) -> subprocess.Popen:
        command = [*before, sys.executable, str(CHILD), str(self.box), way, str(seconds), *names]
        with open(self.box / f"errors.{number}", "w") as errors:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=self.env)

    def check(self, processes: "list[subprocess.Popen]") -> None:
        for i, process in enumerate(processes):
            if process.poll():
                lines = (self.box / f"errors.{i}").read_text().split("\n")
                raise Failed(next((line for line in reversed(lines) if line.strip()), f"a process ended with status {process.returncode}"))

    def run(self, way: str, children: "list[list[str]]", seconds: float = 0, before: "list[str]" = ()) -> "list[dict]":
        """Starts one process for each list of models, a thread for each of its models, and lets all call at once."""
        for file in (*self.box.glob("ready.*"), *self.box.glob("go")):
            file.unlink()
        running = []
        try:
            for i, names in enumerate(children):
                running.append(self.start(i, way, names, seconds, before))
            end = time.monotonic() + START_S_MAX
            while len(list(self.box.glob("ready.*"))) < len(running):
                self.check(running)
                if time.monotonic() > end:
                    raise Failed(f"not ready after {START_S_MAX} s")
                time.sleep(0.02)
            # Under another name first: nobody may read it half written.
            (self.box / "go.new").write_text(str(time.monotonic() + 0.3))
            (self.box / "go.new").rename(self.box / "go")
            said = [process.communicate(timeout=START_S_MAX)[0] for process in running]
            self.check(running)
            return [json.loads(text.splitlines()[-1]) for text in said]
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {START_S_MAX} s") from None
        finally:
            for process in running:
                process.kill()
                process.wait()

    def prepare(self, way: str, name: str) -> None:
        """Makes what the processes of a way find: what compiles does so once, alone."""
        if way in ("ingot", "inductor"):
            self.run(way, [[name]])
        elif "onnx" in WAYS[way] and not (self.box / f"{name}.onnx").exists():
            process = self.start(0, "export", [name])
            process.communicate()
            self.check([process])


def make_group() -> pathlib.Path:
    """A cgroup whose processes have the time of one and a half cores: below this process's own, or else below the next above."""
    own = {names: path for _, names, path in (line.strip().split(":", 2) for line in open("/proc/self/cgroup"))}
    refused = "no mounted cgroup has quotas of CPU time"
    for _, mount, kind, mounted_with, *_ in (line.split() for line in open("/proc/mounts")):
        if kind == "cgroup2":
            file, path = "cpu.max", own.get("", "/")
        elif kind == "cgroup" and "cpu" in mounted_with.split(","):
            file, path = "cpu.cfs_quota_us", next((path for names, path in own.items() if "cpu" in names.split(",")), "/")
        else:
            continue
        for above in (pathlib.Path(path), *pathlib.Path(path).parents):
            group = pathlib.Path(mount + str(above)) / f"ingot-crowd-{os.getpid()}"
            try:
                group.mkdir()
                # Of each 100 ms, which is the default of both versions.
                (group / file).write_text("150000")
                print(f"crowd: quota: 1.5 cores by {group / file}", flush=True)
                return group
            except OSError as failed:
                refused = str(failed)
                with contextlib.suppress(OSError):
                    group.rmdir()
    raise Failed(refused)


def remove_group(group: pathlib.Path) -> None:
    for _ in range(100):
        # A daemon that a measured process has started outlives it.
        for process in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (group.parent / "cgroup.procs").write_text(process)
        with contextlib.suppress(OSError):
            return group.rmdir()
        time.sleep(0.05)
    print(f"crowd: {group} could not be removed", file=sys.stderr)


@contextlib.contextmanager
def condition(name: str):
    """Holds while measured processes run; gives the words before the command of each of them."""
    if name == "burner":
        burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            yield []
        finally:
            burner.kill()
            burner.wait()
    elif name == "quota":
        group = make_group()
        try:
            yield ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs")]
        finally:
            remove_group(group)
    else:
        yield []


def rows_of(outs: "list[dict]", labels: dict) -> "list[dict]":
    """One row for each model that was called."""
    threads = [thread for out in outs for thread in out["threads"]]
    rows = []
    for part in dict.fromkeys(thread["model"] for thread in threads):
        its = [thread for thread in threads if thread["model"] == part]
        times = sorted(t for thread in its for t in thread["times"])
        # The CPU time of a process that calls several models is no single one's.
        only = [out for out in outs if all(thread["model"] == part for thread in out["threads"])]
        rows.append({**labels, "model": f"mix: {part}" if labels["model"] == "mix" else part, "calls": len(times),
                     "calls_s": sum(len(thread["times"]) / thread["s"] for thread in its), "p50_s": times[len(times) // 2],
                     "p99_s": times[int(len(times) * 0.99)], "cpu_s": sum(out["cpu_s"] for out in only) / len(times) if only else None,
                     "native": sum(out["native"] for out in only) / len(times) if only and labels["way"] == "ingot" else None})
    return rows


def shown(value: "float | None", digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def table(rows: "list[dict]") -> str:
    cells = [[row["model"], row["condition"], f"{row['n']} {row['kind']}", row["way"], shown(row["calls_s"], 1),
              *(shown(row[key] and 1e3 * row[key]) for key in ("p50_s", "p99_s", "cpu_s"))] for row in rows]
    return tabulate(cells, headers=["model", "condition", "crowd", "way", "calls/s", "p50, ms", "p99, ms", "CPU a call, ms"], disable_numparse=True,
                    colalign=("left",) * 4 + ("right",) * 4)


def ratios(rows: "list[dict]", base: str) -> str:
    """What the figures of one model say, a column for each way; under the condition `base` where a line names none."""
    found = {(row["condition"], row["way"], row["kind"], row["n"]): row for row in rows}
    counts, ways = sorted({row["n"] for row in rows}), list(dict.fromkeys(row["way"] for row in rows))
    least, many = counts[0], 4 if 4 in counts else counts[-1]
    lines: "dict[str, list[str]]" = {}

    def figure(way: str, kind: str, n: int, key: str = "calls_s", under: str = base) -> "float | None":
        return found.get((under, way, kind, n), {}).get(key)

    def add(title: str, above: "float | None", below: "float | None") -> None:
        lines.setdefault(title, []).append(shown(above / below) if above and below else "")

    for way in ways:
        for n in counts:
            add(f"calls/s: {n} processes / {n} threads", figure(way, "processes", n), figure(way, "threads", n))
        for kind in KINDS:
            add(f"calls/s: ingot / this, {many} {kind}", figure("ingot", kind, many), figure(way, kind, many))
            add(f"p99 / p50, {many} {kind}", figure(way, kind, many, "p99_s"), figure(way, kind, many, "p50_s"))
        for fewer, more in zip(counts, counts[1:]):
            add(f"calls/s: {more} threads / {fewer}", figure(way, "threads", more), figure(way, "threads", fewer))
        for other in (name for name in CONDITIONS if name != base):
            add(f"calls/s: {other} / {base}, processes: {least}", figure(way, "processes", least, under=other), figure(way, "processes", least))
        if least != many:
            add(f"CPU a call: {many} processes / {least}", figure(way, "processes", many, "cpu_s"), figure(way, "processes", least, "cpu_s"))
    cells = [[title, *values] for title, values in lines.items() if any(values)]
    return tabulate(cells, headers=[f"{rows[0]['model']}, {base}", *ways], disable_numparse=True, colalign=("left", *("right" for _ in ways)))


class Measured:
    """Rows of one model. A way that has failed is not tried again."""

    def __init__(self, crowd: Crowd, model: str, options: argparse.Namespace) -> None:
        self.crowd, self.model, self.options = crowd, model, options
        self.rows, self.failed = [], set()
        for way in options.ways:
            for name in MODELS[model]:
                self.attempt(way, "", lambda way=way, name=name: crowd.prepare(way, name))
        for where in options.conditions:
            try:
                with condition(where) as before:
                    # All ways of one crowd run after each other: their ratios are of the same minutes.
                    for n, kind, way in itertools.product(options.counts, options.kinds, options.ways):
                        if n >= len(MODELS[model]) and not self.failed & {(way, ""), (way, kind)}:
                            self.attempt(way, kind, functools.partial(self.once, way, kind, n, where, before))
            except Failed as why:
                print(f"crowd: {where} is left out: {why}", flush=True)

    def attempt(self, way: str, kind: str, do) -> None:
        try:
            do()
        except Failed as why:
            self.failed.add((way, kind))
            print(f"crowd: {self.model} by {way}{kind and f' in {kind}'} is left out: {why}", flush=True)

    def once(self, way: str, kind: str, n: int, where: str, before: "list[str]") -> None:
        names = [MODELS[self.model][i % len(MODELS[self.model])] for i in range(n)]
        outs = self.crowd.run(way, [names] if kind == "threads" else [[name] for name in names], self.options.seconds, before)
        for row in rows_of(outs, {"model": self.model, "condition": where, "way": way, "kind": kind, "n": n}):
            self.rows.append(row)
            aside = f", {row['native']:.0%} of them native" if row["native"] is not None and row["native"] < 0.9 else ""
            print(f"crowd: {row['model']}, {where}, {n} {kind}, {way}: {row['calls_s']:.1f} calls/s{aside}", file=sys.stderr, flush=True)


def parsed(args: "list[str]") -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/bench crowd", description=__doc__)

    def some(known):
        def read(text: str) -> "list[str]":
            if unknown := [word for word in text.split(",") if word not in known]:
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
            return [word for word in known if word in text.split(",")]
        return read

    for name, known in (("models", MODELS), ("ways", WAYS), ("conditions", CONDITIONS), ("kinds", KINDS)):
        parser.add_argument(f"--{name}", type=some(known), default=list(known), metavar="A,B", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--counts", type=lambda text: sorted({int(n) for n in text.split(",")}), default=[1, 2, 4, 8], metavar="N,N",
                        help="processes or threads; default: 1,2,4,8")
    parser.add_argument("--seconds", type=float, default=5, help="of calls in each run; default: 5")
    parser.add_argument("--peers", default=os.environ.get("PEERS"), metavar="DIR",
                        help="where onnx, onnxscript, onnxruntime and openvino are; default: $PEERS")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="keeps the rows")
    parser.add_argument("--quick", action="store_true", help=f"begins with {' '.join(QUICK)}")
    options = parser.parse_args([*QUICK, *args] if "--quick" in args else args)
    if options.peers:
        sys.path.append(options.peers)
    for way in list(options.ways):
        if missing := [name for name in WAYS[way] if importlib.util.find_spec(name) is None]:
            options.ways.remove(way)
            print(f"crowd: {way} is left out: {', '.join(missing)} cannot be imported (--peers)", file=sys.stderr)
    return options


def main(args: "list[str]") -> None:
    options, rows = parsed(args), []
    # What has been started and made goes away with whoever is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"crowd: {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} before the first run", flush=True)
    with tempfile.TemporaryDirectory(prefix="ingot-crowd-", ignore_cleanup_errors=True) as folder:
        crowd = Crowd(pathlib.Path(folder), options.peers)
        try:
            for model in options.models:
                found = Measured(crowd, model, options).rows
                print(table(found), "\n")
                for part in dict.fromkeys(row["model"] for row in found):
                    print(ratios([row for row in found if row["model"] == part], options.conditions[0]), "\n", flush=True)
                rows += found
                if options.json:
                    options.json.write_text(json.dumps(rows, indent=1))
        finally:
            crowd.end()


if __name__ == "__main__":
    main(sys.argv[1:])
