# SPDX-License-Identifier: Apache-2.0
"""Figures as ratios, everything measured in this run: starts of processes, steady calls, the daemon's lookups."""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import crowd
from tabulate import tabulate

HERE = pathlib.Path(__file__).resolve().parent
SECTIONS = ["starts", "calls", "decode", "memory", "products", "arena", "keys", "daemon", "guards", "redis", "scale", "crowd"]
BIN = pathlib.Path(importlib.util.find_spec("ingot").origin).parent / "bin"


class Bench:
    def __init__(self, folder: str) -> None:
        self.folder = pathlib.Path(folder)
        self.env = {**os.environ, "INGOT_STORE_DIR": str(self.folder / "store")}
        self.env.pop("INGOT_SOCKET", None)

    def script(self, name: str, *args: str) -> dict:
        done = subprocess.run([sys.executable, str(HERE / name), *args], env=self.env, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"bench: {name} {' '.join(args)} failed\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        said = ", ".join(f"{key} {value * 1e3:.1f} ms" for key, value in found.items() if key.endswith("_s"))
        print(f"bench: {' '.join([name, *args[:2]])}: {said or 'done'}", file=sys.stderr, flush=True)
        return found

    def forget(self) -> None:
        """Stops the daemon and removes its store: the next start is cold."""
        subprocess.run([str(BIN / "ingot"), "daemon", "stop"], env=self.env, capture_output=True)
        subprocess.run(["rm", "-rf", str(self.folder / "store")], check=True)


def median(values: "list[float]") -> float:
    return statistics.median(values)


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f}"


def starts(bench: Bench, rounds: int, peers: bool) -> None:
    rows = []
    for model in ("minilm", "llama", "gpt2", "t5 encoder"):
        eager, cold, native, warm, fourth = [], [], [], [], []
        for _ in range(rounds):
            eager.append(bench.script("start.py", model, "eager")["first_s"])
            bench.forget()
            run = bench.script("start.py", model, "ingot")
            cold.append(run["first_s"])
            native.append(run["native_s"])
            run = bench.script("start.py", model, "ingot")
            assert run["stats"]["captures"] == 0, run["stats"]
            warm.append(run["first_s"])
            fourth.append(run["variants"][0]["bytes"])
        arena, least = run["variants"][0]["arena_bytes"], run["variants"][0]["arena_bytes_min"]
        e = median(eager)
        rows += [[model, "eager first call, ms", ms(e), ""],
                 ["", "ingot cold: first call, ms", ms(median(cold)), f"{median(cold) / e:.2f}x eager"],
                 ["", "ingot cold: native code serving after, ms", ms(median(native)), f"eager + {ms(median(native) - e)} ms"],
                 ["", "ingot warm, new process: first call, ms", ms(median(warm)), f"eager + {ms(median(warm) - e)} ms"],
                 ["", "artifact, bytes", f"{fourth[0]:,}", ""],
                 ["", "arena / least possible", f"{arena:,} / {least:,}", f"{arena / max(least, 1):.3f}x"]]
        if peers and model in ("minilm", "llama"):
            rows += peer_starts(bench, model, median(native), median(warm), e)
    print(tabulate(rows, headers=["model", "start of a process", "value", "ratio"]), "\n", flush=True)


def peer_starts(bench: Bench, model: str, native: float, warm: float, eager: float) -> "list[list[str]]":
    with tempfile.TemporaryDirectory(prefix="ingot-bench-peer-") as folder:
        rows = []
        for way, title, ours in (("inductor", "Inductor cold: first call, ms", native), ("inductor", "Inductor warm: first call, ms", warm),
                                 ("aoti-save", "AOTInductor save, ms", native), ("aoti-load", "AOTInductor load: first call, ms", warm)):
            seconds = bench.script("start.py", model, way, folder)["first_s"]
            beyond = f", {max(seconds - eager, 0) / max(ours - eager, 1e-4):.0f}x beyond eager" if "warm" in title else ""
            rows.append(["", title, ms(seconds), f"{seconds / ours:.1f}x ingot's{beyond}"])
        return rows


def calls(bench: Bench, seconds: float, peers: bool) -> None:
    rows = []
    for model, extra in (("tiny", []), ("swiglu", ["memory"]), ("swiglu bf16", ["rounding"]), ("softmax", ["memory"]),
                         ("rmsnorm", ["memory"]), ("rmsnorm bf16", ["rounding"]), ("minilm", []), ("llama", [])):
        ways = ["eager", "ingot", *(["inductor"] if peers else []), *extra]
        times = bench.script("calls.py", model, str(seconds * (3 if model in ("minilm", "llama") else 1)), *ways)
        ours = times["ingot"]["median_s"]
        for way in ways:
            value = times[way]["median_s"]
            rows.append([model if way == "eager" else "", way, f"{value * 1e6:,.2f}", f"{times[way]['min_s'] * 1e6:,.2f}", f"{value / ours:.2f}x"])
    print(tabulate(rows, headers=["model", "steady calls", "median, us", "least, us", "time / ingot's"]), "\n", flush=True)


def keys_and_gears(bench: Bench, seconds: float) -> None:
    rows = []
    for model in ("minilm", "llama"):
        bench.forget()
        bench.script("keys.py", model)
        warm = bench.script("keys.py", model)
        rows += [[model, "entry key, ms", f"{warm['key_s'] * 1e3:.2f}", ""],
                 ["", "check of the dependency record, ms", f"{warm['check_s'] * 1e3:.2f}", f"{warm['items']} items"],
                 ["", "key and check, ms", f"{(warm['key_s'] + warm['check_s']) * 1e3:.2f}",
                  f"at the start itself: check {warm['first_check_s'] * 1e3:.2f} ms"]]
    found = bench.script("gears.py", "dispatch", str(seconds))
    for name, words in (("among", "one gear among"), ("turning", "each time another of")):
        two, hundred = found[f"{name}_2_s"], found[f"{name}_100_s"]
        rows += [["silu*y" if name == "among" else "", f"a call, {words} 2 gears, us", f"{two * 1e6:.3f}", ""],
                 ["", f"a call, {words} 100 gears, us", f"{hundred * 1e6:.3f}", f"{hundred / two:.3f}x"]]
    for name, ratios in bench.script("gears.py", "special", str(2 * seconds)).items():
        rows.append([name, "code for all sizes / code for one, by last dim",
                     " ".join(f"{size}: {ratio:.2f}" for size, ratio in ratios.items()), "512 rows"])
    cold = {}
    for count in (1, 16):
        bench.forget()
        cold[count] = bench.script("gears.py", "cold", str(count))
        rows.append(["minilm" if count == 1 else "", f"{count} gears cold, all native, ms", ms(cold[count]["all_native_s"]),
                     f"eager runs of the same sizes {ms(cold[count]['eager_s'])} ms"])
    rows[-1][-1] += f", {cold[16]['all_native_s'] / cold[1]['all_native_s']:.2f}x one gear"
    print(tabulate(rows, headers=["model", "keys and gears", "value", "ratio"]), "\n", flush=True)


def decode(bench: Bench, peers: bool) -> None:
    rows = []
    has_llama_cpp = all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf"))
    for dtype, kind in (("float32", "f32"), ("bfloat16", "bf16")):
        for batch in ("1", "4", "8"):
            ways = ["eager", *(["inductor"] if peers else []), "ingot", "int8"]
            found = {}
            for way in ways:
                bench.forget()
                found[way] = bench.script("decode.py", dtype, batch, way)
            if peers and has_llama_cpp and batch == "1":
                found["llama.cpp"] = bench.script("decode.py", kind, batch, "llama.cpp")
                found["llama.cpp q8_0"] = bench.script("decode.py", "q8_0", batch, "llama.cpp")
            for way, run in found.items():
                rows.append([f"{kind}, batch {batch}" if way == "eager" else "", way, f"{int(batch) / run['token_s']:.1f}",
                             f"{run['weights'] / run['token_s'] / 1e9:.1f}", f"{found['ingot']['token_s'] / run['token_s']:.2f}"])
    print(tabulate(rows, headers=["decode", "by", "tokens/s", "weights, GB/s", "of ingot's speed"]), "\n", flush=True)


def memory(bench: Bench, seconds: float, peers: bool) -> None:
    ways = ["memory", "ingot", "eager", *(["inductor"] if peers else [])]
    rows = []
    for title, run in bench.script("memory.py", str(seconds), *ways).items():
        ratios = [f"{run[way]['median_s'] / run['ingot']['median_s']:.2f}" for way in ways if way != "ingot"]
        rows.append([title, ms(run["ingot"]["median_s"]), f"{run['ingot']['gb_s']:.1f}", *ratios])
    headers = ["kernel", "ingot, ms", "GB/s", *(f"{way} / ingot" for way in ways if way != "ingot")]
    print(tabulate(rows, headers=headers), "\n", flush=True)


def program(name: str, *args: str) -> None:
    done = subprocess.run([str(BIN / name), *args], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    if done.returncode != 0:
        raise SystemExit(f"bench: {name} failed")


def daemon(bench: Bench) -> None:
    done = subprocess.run([str(BIN / "ingot-lookup-bench")], env=bench.env, capture_output=True, text=True)
    print(done.stdout + done.stderr)
    if done.returncode != 0:
        raise SystemExit("bench: the lookup benchmark failed")


def scale(quick: bool) -> None:
    store = HERE.parents[1] / "build" / ("bench-scale-quick" if quick else "bench-scale")
    sizes = ["--entries", "20000", "--seconds", "3", "--compiles", "500", "--sessions", "2000"] if quick else []
    done = subprocess.run([str(BIN / "ingot-scale-bench"), "--store", str(store), *sizes])
    if done.returncode != 0:
        raise SystemExit("bench: the benchmark of a large store failed")


def main() -> None:
    if sys.argv[1:2] == ["crowd"]:
        crowd.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="tools/bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, no peers")
    parser.add_argument("section", nargs="?", choices=SECTIONS, help="the same as --only; crowd takes options of its own: tools/bench crowd --help")
    parser.add_argument("--only", choices=SECTIONS, help="scale and crowd run only when they are named: scale fills a store of 4 GB below build/ "
                                                         "and keeps it, crowd takes hours for all that it can measure")
    options = parser.parse_args()
    options.only = options.section or options.only
    with tempfile.TemporaryDirectory(prefix="ingot-bench-") as folder:
        bench = Bench(folder)
        try:
            if options.only in (None, "starts"):
                starts(bench, 1 if options.quick else 5, not options.quick)
            if options.only in (None, "calls"):
                calls(bench, 2 if options.quick else 6, not options.quick)
            if options.only in (None, "decode"):
                decode(bench, not options.quick)
            if options.only in (None, "memory"):
                memory(bench, 0.2 if options.quick else 0.5, not options.quick)
            if options.only in (None, "products"):
                program("ingot-contract-bench")
            if options.only in (None, "arena"):
                program("ingot-arena-bench")
            if options.only in (None, "keys"):
                keys_and_gears(bench, 2 if options.quick else 6)
            if options.only in (None, "daemon"):
                daemon(bench)
            if options.only in (None, "guards"):
                program("ingot-guard-bench")
            if options.only in (None, "redis"):
                program("ingot-redis-bench")
            if options.only == "scale":
                scale(options.quick)
            if options.only == "crowd":
                crowd.main(["--quick"] if options.quick else [])
        finally:
            bench.forget()


if __name__ == "__main__":
    main()
