# SPDX-License-Identifier: Apache-2.0
"""Reports of where the time of native calls goes: what they hold, that they change nothing, and what they say where nothing is native."""

import gc
import json
import random
import threading
import weakref

import pytest
import torch


class Net(torch.nn.Module):
    def __init__(self, width=32):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        # PyTorch sorts, code of ours does the rest.
        return torch.sort(torch.tanh(self.linear(x)) * 2, dim=-1)[0].add(1)


@pytest.fixture
def step(ingot):
    made = ingot.compile(Net().eval(), wait=True)
    with torch.no_grad():
        for rows in (3, 5, 5):
            made(torch.randn(rows, 32))
    return made


def served(ingot, function, *args):
    before = ingot.stats()["native_calls"]
    result = function(*args)
    assert ingot.stats()["native_calls"] == before + 1, function.report()
    return result


def test_a_profile_holds_each_step_with_what_it_costs(ingot, step):
    x = torch.randn(5, 32)
    with torch.no_grad():
        plain = served(ingot, step, x)
        with ingot.profile(step) as profile:
            results = [served(ingot, step, x) for _ in range(4)]
    assert all(torch.equal(result, plain) for result in results)
    calls, = profile.calls
    assert calls.calls == 4 and calls.threads == 1 and calls.left_out == 0 and profile.steps == list(calls.steps)
    assert calls.artifact == step.variants[0]["artifact"] and calls.function in step.report()
    product, = (one for one in calls.steps if "linear" in one.name or "mm" in one.name)
    # x, the weight and the bias are read; 2 operations for each pair, and what is fused with them.
    assert product.flops >= 2 * 5 * 32 * 32 and product.read_bytes >= 4 * (5 * 32 + 32 * 32 + 32) and product.written_bytes == 4 * 5 * 32
    sort, = (one for one in calls.steps if one.name == "aten::sort")
    assert (sort.kind, sort.flops, sort.read_bytes, sort.written_bytes, sort.symbol) == ("aten", None, 640, 640 + 1280, "")
    kernels = [one for one in calls.steps if one.kind == "kernel"]
    assert kernels and all(one.symbol.startswith("ingot_k_") for one in kernels)
    for one in calls.steps:
        assert one.calls == 4 and one.total_s >= one.median_s > 0 and (one.bytes or 0) >= 0
        assert one.of_roof is None or one.of_roof == max(one.memory_s or 0, one.compute_s or 0) / one.median_s
        assert one.limit in ("memory", "compute", "cache", "") and (one.limit == "") == (one.of_roof is None)


def test_shares_and_times_add_up(ingot, step):
    with torch.no_grad(), ingot.profile(step) as profile:
        for _ in range(7):
            step(torch.randn(5, 32))
    calls, = profile.calls
    assert sum(one.share for one in calls.steps) + calls.outside_s / calls.total_s == pytest.approx(1)
    assert sum(one.total_s for one in calls.steps) + calls.outside_s == pytest.approx(calls.total_s)
    assert calls.outside_s >= 0


def test_sizes_of_a_template_are_told_apart_and_their_costs_follow(ingot):
    step = ingot.compile(lambda x: torch.exp(x) * x, wait=True)
    for rows in (4, 8, 8):
        step(torch.randn(rows, 16))
    with ingot.profile(step) as profile:
        for rows in (8, 300, 300):
            served(ingot, step, torch.randn(rows, 16))
    by_size = {calls.sizes: calls for calls in profile.calls}
    assert {sizes: calls.calls for sizes, calls in by_size.items()} == {(8,): 1, (300,): 2} or len(by_size) == 2
    for sizes, calls in by_size.items():
        rows = sizes[0]
        one, = calls.steps
        assert (one.flops, one.read_bytes, one.written_bytes) == (2 * rows * 16, rows * 64, rows * 64)


def test_report_with_arguments_measures_and_without_remembers(ingot):
    step = ingot.compile(Net().eval())
    assert "no call was measured" in step.report() and step.report().steps == [] and step.report().to_dict()["profile"] is None
    with pytest.raises(ingot.NotFound, match="no call was measured"):
        step.report().save_timeline("nowhere.json")
    report = step.report(torch.randn(4, 32))
    assert report.steps and "aten::sort" in report and "GB/s" in report and "1 variants" in report
    again = step.report()
    assert len(step.variants) == 1, "it measures in the mode that serves"
    assert again.profile is report.profile and again == str(report)
    content = json.loads(json.dumps(report.to_dict()))
    assert content["text"] == report and content["profile"]["roofs"]["threads"] == torch.get_num_threads()
    assert [one["name"] for one in content["profile"]["calls"][0]["steps"]] == [one.name for one in report.steps]


def test_calls_of_several_threads_are_all_seen(ingot, step):
    x = torch.randn(5, 32)

    def work():
        with torch.no_grad():
            for _ in range(20):
                step(x)

    work()  # A kind of size that is new is eager's until both have agreed.
    step.wait()
    threads = [threading.Thread(target=work) for _ in range(4)]
    with ingot.profile(step) as profile, ingot.profile(step, calls_max=10) as short:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    calls, = profile.calls
    assert (calls.calls, calls.threads) == (80, 4)
    kept, = short.calls
    assert (kept.calls, kept.left_out) == (10, 70) and "and 70 more" in str(short)


def test_the_timeline_nests_steps_in_their_calls(ingot, step, tmp_path):
    with torch.no_grad(), ingot.profile(step) as profile:
        for _ in range(3):
            step(torch.randn(5, 32))
    profile.save_timeline(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    calls = [event for event in slices if event["cat"] == "call"]
    assert len(calls) == 3 and len(slices) == 3 + 3 * len(profile.steps)
    for event in slices:
        inside = [call for call in calls if call["ts"] <= event["ts"] and event["ts"] + event["dur"] <= call["ts"] + call["dur"] + 1e-3]
        assert len(inside) == 1 and event["tid"] == threading.get_native_id() and event["dur"] >= 0
    assert {"process_name", "thread_name"} == {event["name"] for event in events if event["ph"] == "M"}
    sort = next(event for event in slices if event["name"] == "aten::sort")
    assert sort["args"]["read_bytes"] == 640 and "flops" not in sort["args"]


def test_functions_that_are_not_named_are_left_out(ingot, step):
    other = ingot.compile(lambda x: x * 3, wait=True)
    x = torch.randn(7)
    other(x), other(x)
    with ingot.profile(step) as named, ingot.profile() as everything:
        with torch.no_grad():
            step(torch.randn(5, 32))
        served(ingot, other, x)
    assert len(named.calls) == 1 and len(everything.calls) == 2
    served(ingot, other, x)
    assert len(everything.calls) == 2, "it has ended"


def test_what_runs_eagerly_says_why(ingot):
    step = ingot.compile(lambda x: torch.from_numpy(x.numpy() * 2), wait=True)
    x = torch.randn(4)
    for _ in range(3):
        step(x)
    report = step.report(x)
    assert report.steps == [] and "no call was served by native code" in report
    assert any("Tensor.numpy" in why for why in report.profile.eager), report
    fresh = ingot.compile(lambda x: x * 5)
    with ingot.profile(fresh) as profile:
        pass
    assert "no native call was seen" in str(profile) and profile.steps == []


def test_parts_are_named(ingot):
    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh())

        def forward(self, x):
            y = self.inner(x)
            return self.inner(torch.from_numpy(y.detach().numpy().copy()))

    step = ingot.compile(Whole().eval(), wait=True)
    with torch.no_grad():
        for _ in range(8):
            step(torch.randn(3, 16))
            step.wait()
        with ingot.profile(step) as profile:
            step(torch.randn(3, 16))
    assert ingot.stats()["native_calls"] > 0, step.report()
    assert profile.calls and all("Whole" in calls.function or "from line" in calls.function for calls in profile.calls), profile


def test_a_profile_takes_no_wrong_use(ingot, step):
    for wrong in (Net(), lambda x: x, 3):
        with pytest.raises(ingot.Invalid, match="takes what ingot.compile and ingot.load give"):
            ingot.profile(wrong)
    for wrong in (0, -1, True, "many"):
        with pytest.raises(ingot.Invalid, match="calls_max"):
            ingot.profile(step, calls_max=wrong)
    profile = ingot.profile(step)
    with pytest.raises(ingot.Invalid, match="has ended"):
        profile.calls
    with profile:
        with pytest.raises(ingot.Invalid, match="has ended"):
            profile.save_timeline("nowhere.json")
    with pytest.raises(ingot.Invalid, match="before"), profile:
        pass


def test_an_exception_ends_it(ingot, step):
    with pytest.raises(ZeroDivisionError), ingot.profile(step) as profile:
        with torch.no_grad():
            step(torch.randn(5, 32))
        1 / 0
    with torch.no_grad():
        step(torch.randn(5, 32))
    assert profile.calls[0].calls == 1


def test_a_profile_keeps_no_model_alive(ingot):
    model = Net().eval()
    step = ingot.compile(model, wait=True)
    report = step.report(torch.randn(4, 32))
    gone = weakref.ref(model)
    del model, step
    gc.collect()
    assert gone() is None and report.steps


def test_loaded_files_report_too(ingot, step, tmp_path):
    step.export(tmp_path / "f.ingot")
    loaded = ingot.load(tmp_path / "f.ingot")
    x = torch.randn(5, 32)
    assert "aten::sort" in loaded.report(x)
    with torch.no_grad(), ingot.profile(loaded) as profile:
        loaded(x)
        step(x)
    assert [calls.calls for calls in profile.calls] == [1]


def test_roofs_are_measured_once_and_kept(ingot, tmp_path, monkeypatch):
    from ingot import _native, machine

    monkeypatch.setenv("INGOT_STORE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "_known", {})
    found = ingot.roofs()
    assert found.threads == torch.get_num_threads() and found.memory_bytes > 0 and found.f32_flops > 0
    assert found.flops("f64") == found.f32_flops / 2 and found.flops("bf16") in (found.bf16_flops, found.f32_flops)
    assert "GB/s" in str(found)
    monkeypatch.setattr(_native, "measure_roofs", lambda threads: pytest.fail("measured again"))
    assert ingot.roofs() is found
    machine._known.clear()
    assert ingot.roofs() == found
    path = tmp_path / "roofs.json"
    whole = path.read_bytes()
    fake = {"read_bytes": 2.0, "copy_bytes": 1.0, "f32_flops": 8.0, "bf16_flops": 0.0}
    monkeypatch.setattr(_native, "measure_roofs", lambda threads: dict(fake))
    dice = random.Random(1)
    for case in range(len(whole) + 200):
        damaged = whole[:case] if case < len(whole) else bytearray(whole)
        if case >= len(whole):
            damaged[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(damaged)
        machine._known.clear()
        again = ingot.roofs()  # Kept, or measured anew, whatever stands there.
        assert again.threads == found.threads and again.f32_flops > 0
    assert ingot.roofs(again=True) == machine.Roofs(found.cpu, found.threads, **fake)
    assert json.loads(path.read_text())["roofs"][f"{found.cpu} / {found.threads}"] == fake


def test_roofs_are_not_kept_where_no_store_is(ingot, tmp_path, monkeypatch):
    from ingot import machine

    monkeypatch.setenv("INGOT_STORE_DIR", str(tmp_path / "none"))
    monkeypatch.setattr(machine, "_known", {})
    assert ingot.roofs().f32_flops > 0
    assert not (tmp_path / "none").exists()
