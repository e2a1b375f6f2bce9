# SPDX-License-Identifier: Apache-2.0
"""The demo: two real jobs, each run eager, cold, warm in a new process, and by several processes at once."""

import argparse
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tabulate import tabulate

HERE = pathlib.Path(__file__).resolve().parent
INGOT = pathlib.Path(importlib.util.find_spec("ingot").origin).parent / "bin" / "ingot"
TITLES = {"search": "semantic search (MiniLM, real weights)", "generate": "text generation (Llama, 6 layers, static KV cache)"}


class Stage:
    """A scratch copy of the examples with a store of its own, so that cold means cold."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.code = folder / "code"
        shutil.copytree(HERE, self.code, ignore=shutil.ignore_patterns("__pycache__"))
        self.env = {**os.environ, "INGOT_STORE_DIR": str(folder / "store"), "PYTHONDONTWRITEBYTECODE": "1"}
        self.env.pop("INGOT_SOCKET", None)

    def run(self, job: str, way: str, processes: int = 1) -> "list[dict]":
        # Processes that share a machine share its cores: threads that wait for each other would spin.
        threads = max(1, len(os.sched_getaffinity(0)) // processes)
        env = {**self.env, "OMP_NUM_THREADS": str(threads)}
        started = [subprocess.Popen([sys.executable, str(self.code / "job.py"), job, way], env=env, stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True) for _ in range(processes)]
        results = []
        for process in started:
            out, _ = process.communicate()
            if process.returncode != 0:
                raise SystemExit(f"demo: {job} {way} failed with exit code {process.returncode}")
            results.append(json.loads(out.splitlines()[-1]))
        return results

    def ingot(self, *args: str) -> str:
        done = subprocess.run([str(INGOT), *args], env=self.env, capture_output=True, text=True)
        return (done.stdout + done.stderr).rstrip()

    def edit_one_line(self) -> str:
        path = self.code / "semantic_search.py"
        old, new = "clamp(min=1e-9)", "clamp(min=1e-6)"
        text = path.read_text()
        assert text.count(old) == 1, "the line to edit is gone"
        path.write_text(text.replace(old, new))
        return f"{old} -> {new}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"


def counters(stats: dict) -> str:
    names = ("captures", "compiles", "joins", "graph_hits", "proven", "entry_hits", "fallbacks")
    return " ".join(f"{name}={stats[name]}" for name in names if stats[name]) or "-"


def same_answer(job: str, eager: list, other: list) -> bool:
    if job == "generate":
        return eager == other
    return all(a[:2] == b[:2] and abs(a[2] - b[2]) < 2e-3 for a, b in zip(eager, other))


def show(stage: Stage, job: str, processes: int) -> None:
    print(f"\n== {TITLES[job]}\n", flush=True)
    runs = [("eager", stage.run(job, "eager")), ("cold: nothing stored", stage.run(job, "ingot")),
            ("warm: a new process", stage.run(job, "ingot")), (f"warm: {processes} at once, a thread each", stage.run(job, "ingot", processes))]
    eager = runs[0][1][0]
    if job == "search":
        print(tabulate(runs[2][1][0]["answer"], headers=["query", "nearest sentence", "cosine"], maxcolwidths=[None, 60, None]), "\n")
    else:
        print("tokens:", *runs[2][1][0]["answer"], "\n")
    rows = []
    for title, results in runs:
        for number, result in enumerate(results):
            rows.append(["" if number else title, milliseconds(result["first_s"]), milliseconds(result["native_s"]), milliseconds(result["call_s"]),
                         f"{eager['call_s'] / result['call_s']:.2f}x", "yes" if same_answer(job, eager["answer"], result["answer"]) else "NO",
                         counters(result["stats"])])
    print(tabulate(rows, headers=["run", "first call", "wait for native", "later call", "vs eager", "same answer", "this process counted"]), flush=True)
    if any(row[5] == "NO" for row in rows):
        raise SystemExit("demo: an answer differs from eager's")


def main() -> None:
    parser = argparse.ArgumentParser(prog="demo")
    parser.add_argument("--processes", type=int, default=4, help="how many run at once (default: %(default)s)")
    processes = parser.parse_args().processes
    with tempfile.TemporaryDirectory(prefix="ingot-demo-") as folder:
        stage = Stage(pathlib.Path(folder))
        try:
            for job in ("search", "generate"):
                show(stage, job, processes)
            print(f"\n== {processes} processes start at once with nothing stored\n", flush=True)
            print(stage.ingot("daemon", "stop"))
            shutil.rmtree(stage.folder / "store", ignore_errors=True)
            rows = [[i, milliseconds(r["first_s"]), counters(r["stats"])] for i, r in enumerate(stage.run("search", "ingot", processes))]
            print(tabulate(rows, headers=["process", "first call", "this process counted"]))
            print("\n== the daemon's counters\n\n" + stage.ingot("stats"))
            print("\n== ingot list\n\n" + stage.ingot("list"), flush=True)
            edit = stage.edit_one_line()
            edited = stage.run("search", "ingot")[0]
            print(f"\n== one line of the model edited ({edit}), run again\n")
            print("this process counted:", counters(edited["stats"]))
            print("f.why_miss():", edited["why"])
            print("\n$ ingot why-miss semantic_search.Embedder.forward\n" + stage.ingot("why-miss", "semantic_search.Embedder.forward"))
        finally:
            stage.ingot("daemon", "stop")


if __name__ == "__main__":
    main()
