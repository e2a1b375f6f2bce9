# SPDX-License-Identifier: Apache-2.0
"""One process of a crowd: crowd_child.py BOX WAY SECONDS MODEL...; a thread for each MODEL calls it, and the process prints one JSON line.

WAY: ingot, inductor, eager, ort, ort no spin, openvino; export writes what the last three read. The process says in BOX when it is ready and
begins at the instant that the file `go` names, as all others do. It uses as many threads for one call as it may use cores.
"""

import json
import os
import pathlib
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

BOX, WAY, SECONDS = pathlib.Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
CORES = len(os.sched_getaffinity(0))
PROMPT, CACHE = 128, 512
# Ingot compares itself with eager in its first calls, and threads of pools are started by them.
WARM_CALLS, WARM_S = 20, 0.5
if WAY not in ("ingot", "inductor", "eager") and os.environ.get("PEERS"):
    # Behind everything else: a folder of peers may have other versions of what PyTorch needs.
    sys.path.append(os.environ["PEERS"])


def model_and_args(name: str):
    import torch
    from models import llama, minilm, resnet50

    torch.set_num_threads(CORES)
    torch.set_grad_enabled(False)
    return {"minilm1": lambda: minilm(1, 24), "minilm4x128": minilm, "decode": lambda: (llama()[0].model, ()), "resnet50": resnet50}[name]()


class Decoding:
    """Steps of one sequence over a static cache of its own: from the prompt on until the cache is full, and again."""

    def __init__(self, model) -> None:
        import torch
        from transformers import StaticCache

        torch.manual_seed(0)
        self.cache = StaticCache(config=model.config, max_cache_len=CACHE)
        self.token, self.left = torch.zeros(1, 1, dtype=torch.long), CACHE - PROMPT
        model(input_ids=torch.randint(0, 32000, (1, PROMPT)), past_key_values=self.cache, use_cache=True)

    def __call__(self, step) -> None:
        if self.left == 0:
            self.left = CACHE - PROMPT
            for layer in self.cache.layers:
                layer.cumulative_length.fill_(PROMPT)
        self.left -= 1
        step(input_ids=self.token, past_key_values=self.cache, use_cache=True)


def by_torch(name: str):
    """What makes, in the thread that will call, one call of the model."""
    import torch

    model, args = model_and_args(name)
    if WAY == "ingot":
        import ingot

        step = ingot.compile(model)
    else:
        step = torch.compile(model) if WAY == "inductor" else model

    def caller():
        # Gradients are a setting of a thread.
        torch.set_grad_enabled(False)
        decoding = Decoding(model) if name == "decode" else None
        call = (lambda: decoding(step)) if decoding else (lambda: step(*args))
        call()
        if WAY == "ingot":
            step.wait()
        return call

    return caller


def export(name: str) -> None:
    """Writes NAME.onnx and NAME.npz, its inputs. Results after the first are the inputs after the first, for the next call."""
    import numpy
    import torch
    from transformers import StaticCache

    model, args = model_and_args(name)
    if name == "decode":
        llama = model

        class Step(torch.nn.Module):
            """A step whose cache comes and goes as tensors."""

            def __init__(self) -> None:
                super().__init__()
                self.model = llama

            def forward(self, token, at, *cached):
                cache = StaticCache(config=llama.config, max_cache_len=CACHE)
                for i, layer in enumerate(cache.layers):
                    layer.keys, layer.values, layer.cumulative_length = cached[2 * i].clone(), cached[2 * i + 1].clone(), at.clone()
                    layer.dtype, layer.device, layer.is_initialized = at.dtype, at.device, True
                logits = self.model(input_ids=token, past_key_values=cache, use_cache=True, return_dict=False)[0]
                after = PROMPT + (at + 1 - PROMPT) % (CACHE - PROMPT)
                return logits, after, *(t for layer in cache.layers for t in (layer.keys, layer.values))

        begun = Decoding(llama)
        layers = begun.cache.layers
        model, args = Step().eval(), (begun.token, layers[0].cumulative_length, *(t for layer in layers for t in (layer.keys, layer.values)))
    numpy.savez(BOX / f"{name}.npz", *(a.numpy() for a in args))
    torch.onnx.export(model, args, BOX / f"{name}.onnx", dynamo=True, verbose=False)


def inputs_of(name: str) -> list:
    import numpy

    with numpy.load(BOX / f"{name}.npz") as saved:
        return [saved[key] for key in saved.files]


def by_onnxruntime(name: str):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = CORES
    if WAY == "ort no spin":
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(str(BOX / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
    inputs, outputs = [i.name for i in session.get_inputs()], [o.name for o in session.get_outputs()]

    def caller():
        feed = {key: onnxruntime.OrtValue.ortvalue_from_numpy(a) for key, a in zip(inputs, inputs_of(name))}

        def call():
            # Values stay where the session made them: a cache is not copied to arrays and back.
            results = session.run_with_ort_values(outputs, feed)
            feed.update(zip(inputs[1:], results[1:]))

        return call

    return caller


def by_openvino(name: str):
    import openvino
    from openvino._offline_transformations import apply_make_stateful_transformation

    core = openvino.Core()
    model = core.read_model(BOX / f"{name}.onnx")
    inputs, outputs = [i.any_name for i in model.inputs], [o.any_name for o in model.outputs]
    # A cache is kept inside of a request, as its users have it; states may not be integers, as a position is.
    states = dict(zip(inputs[2:], outputs[2:])) if len(outputs) > 2 else {}
    if states:
        apply_make_stateful_transformation(model, states)
    compiled = core.compile_model(model, "CPU", {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": CORES, "INFERENCE_PRECISION_HINT": "f32"})

    def caller():
        request, feed = compiled.create_infer_request(), dict(zip(inputs, inputs_of(name)))
        for state in request.query_state():
            state.state = openvino.Tensor(feed.pop(next(key for key, value in states.items() if state.name == key + value)))

        def call():
            results = request.infer(feed, share_inputs=True, share_outputs=True)
            feed.update({key: results[out].copy() for key, out in zip(inputs[1:2], outputs[1:2])})

        return call

    return caller


class Run:
    """The threads of this process: all warm, then all calling from the same instant on."""

    def __init__(self, names: "list[str]") -> None:
        make = {"ort": by_onnxruntime, "ort no spin": by_onnxruntime, "openvino": by_openvino}.get(WAY, by_torch)
        self.callers = {name: make(name) for name in dict.fromkeys(names)}
        self.barrier = threading.Barrier(len(names), action=self.begin)
        self.native = (lambda: sys.modules["ingot"].stats()["native_calls"]) if WAY == "ingot" else (lambda: 0)

    def begin(self) -> None:
        (BOX / f"ready.{os.getpid()}").touch()
        go = BOX / "go"
        while not go.exists():
            time.sleep(0.01)
        time.sleep(max(0.0, float(go.read_text()) - time.monotonic()))
        self.native_before, self.cpu_before = self.native(), time.process_time()

    def thread(self, name: str) -> dict:
        try:
            call, calls, end = self.callers[name](), 0, time.perf_counter() + WARM_S
            while calls < WARM_CALLS or time.perf_counter() < end:
                call()
                calls += 1
            self.barrier.wait()
            times, began = [], time.perf_counter()
            now, end = began, began + SECONDS
            while now < end:
                call()
                after = time.perf_counter()
                times.append(after - now)
                now = after
            return {"model": name, "s": now - began, "times": times}
        except BaseException:
            # Others wait for this thread at the barrier.
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    def all(self, names: "list[str]") -> dict:
        if len(names) == 1:
            threads = [self.thread(names[0])]
        else:
            with ThreadPoolExecutor(len(names)) as pool:
                threads = list(pool.map(self.thread, names))
        return {"threads": threads, "cpu_s": time.process_time() - self.cpu_before, "native": self.native() - self.native_before}


if __name__ == "__main__":
    if WAY == "export":
        export(sys.argv[4])
    else:
        print(json.dumps(Run(sys.argv[4:]).all(sys.argv[4:])))
