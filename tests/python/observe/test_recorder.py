# SPDX-License-Identifier: Apache-2.0
"""The recorder and the escape mode, on plain torch functions and tiny models."""

import re
import struct
import threading
import warnings

import numpy
import pytest
import torch
import torch.nn.functional as F

from recorded import Run, parts, record  # noqa: F401  (fixtures)


def _ops(recording):
    return [step["op"] for step in recording["steps"]]


# --- steps ---------------------------------------------------------------------------------------


def test_notes_composites_whole(record):
    def fn(x, w):
        x = F.layer_norm(F.linear(x, w), (4,))
        x = F.scaled_dot_product_attention(x, x, x)
        return F.silu(F.gelu(x)) + F.softmax(x, dim=-1)

    run = record(fn, torch.randn(1, 3, 4), torch.randn(4, 4))
    assert _ops(run.decode()) == [
        "aten::linear", "aten::layer_norm", "aten::scaled_dot_product_attention", "aten::gelu",
        "aten::silu", "aten::softmax.int", "aten::add.Tensor",
    ]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_sees_the_same_steps_in_every_grad_mode(parts, mode):
    with mode():
        run = Run(parts, lambda x: F.silu(F.linear(x, x)), torch.randn(2, 2))
        assert _ops(run.decode()) == ["aten::linear", "aten::silu"]


def test_keeps_the_answer(record):
    x = torch.randn(3, 3)
    assert torch.equal(record(lambda x: x.exp() @ x, x).result, x.exp() @ x)


def test_writes_arguments_in_schema_order(record):
    def fn(x):
        y = x.to(torch.float16).sum(dim=[0, 1], keepdim=True)
        return y.contiguous(memory_format=torch.preserve_format).reshape(-1)

    steps = record(fn, torch.randn(2, 3)).decode()["steps"]
    assert steps[0]["op"] == "aten::to.dtype"
    assert steps[0]["args"] == [("value", 0), ("dtype", "F16"), False, False, None]
    assert steps[1]["op"] == "aten::sum.dim_IntList"
    assert steps[1]["args"] == [("value", 1), [0, 1], True, None]


def test_writes_devices_layouts_and_formats_as_text(record):
    def fn(x):
        return torch.zeros_like(x, memory_format=torch.contiguous_format, layout=torch.strided)

    (step,) = record(fn, torch.randn(2)).decode()["steps"]
    assert step["args"][2] == "strided" and step["args"][5] == "contiguous_format"
    (step,) = record(lambda x: torch.arange(3, device="cpu"), torch.randn(2)).decode()["steps"]
    assert "cpu" in step["args"]


@pytest.mark.parametrize("number", [2, 0.5, True])
def test_python_numbers_are_numbers(record, number):
    (step,) = record(lambda x: x * number, torch.randn(2)).decode()["steps"]
    assert step["args"] == [("value", 0), ("number", number)]
    assert type(step["args"][1][1]) is type(number)


def test_tensor_lists_and_absent_tensors(record):
    def fn(x):
        a, b = torch.split(x, 2)
        return torch.cat([a, b]), F.layer_norm(x, (3,)), x[:, torch.tensor([0, 2])]

    steps = record(fn, torch.randn(4, 3)).decode()["steps"]
    assert steps[0]["results"] == [("values", [1, 2])] and steps[0]["is_view"]
    assert steps[1]["args"][0] == ("values", [1, 2])
    assert steps[2]["args"][2:4] == [None, None]
    assert steps[-1]["args"][1][0] == "values" and steps[-1]["args"][1][1][0] == -1


def test_views_share_a_storage(record):
    recording = record(lambda x: (x.view(-1), x.t(), x + 0), torch.randn(2, 3)).decode()
    x, flat, turned, fresh = recording["values"]
    assert x["storage"] == flat["storage"] == turned["storage"] != fresh["storage"]
    assert turned["sizes"] == [3, 2] and turned["strides"] == [1, 3]
    assert [step["is_view"] for step in recording["steps"]] == [True, True, False]


def test_in_place_steps_keep_the_value(record):
    def fn(x):
        y = x * 2
        y.add_(1)
        y[0] = 5.0
        return y

    recording = record(fn, torch.randn(2, 3)).decode()
    assert _ops(recording) == ["aten::mul.Tensor", "aten::add_.Tensor", "aten::select.int",
                               "aten::fill_.Tensor"]
    assert [step["writes"] for step in recording["steps"]] == [[], [0], [], [0]]
    assert recording["steps"][1]["results"] == [("value", 1)]
    assert recording["outputs"] == [1]


def test_out_arguments_are_written(record):
    (step,) = record(lambda x, o: torch.add(x, x, out=o), torch.ones(2), torch.ones(2)).decode()["steps"]
    assert step["op"] == "aten::add.out" and step["writes"] == [3]


@pytest.mark.parametrize(
    ("fn", "op", "result"),
    [
        (lambda x: x.sum().item(), "aten::item", 6.0),
        (lambda x: float(x.sum()), "aten::item", 6.0),
        (lambda x: int(x.sum()), "aten::item", 6.0),
        (lambda x: [0][int(x.long().sum()) - 6], "aten::item", 6),
        (lambda x: bool(x.all()), "aten::is_nonzero", True),
        (lambda x: 1 if (x > 0).any() else 2, "aten::is_nonzero", True),
        (lambda x: torch.equal(x, x), "aten::equal", True),
        (lambda x: range(9)[x.long().sum()], "aten::item", 6),
    ],
)
def test_values_that_reach_python_are_results(record, fn, op, result):
    step = record(fn, torch.tensor([1.0, 2.0, 3.0])).decode()["steps"][-1]
    assert (step["op"], step["results"]) == (op, [result])
    assert type(step["results"][0]) is type(result)


def test_a_short_tolist_is_one_result_for_each_element(record):
    run = record(lambda x: x.tolist(), torch.tensor([[1, 2], [3, 4]]))
    assert run.result == [[1, 2], [3, 4]] and run.refusal is None
    results = [s["results"][0] for s in run.decode()["steps"] if s["op"] == "aten::item"]
    assert results == [1, 2, 3, 4]


def test_flags_random_steps(record):
    def fn(x):
        return F.dropout(x, 0.5, training=True) + torch.rand(3) + F.dropout(x, 0.5, training=False)

    recording = record(fn, torch.ones(3)).decode()
    random_ops = [(s["op"], s["is_random"]) for s in recording["steps"] if not s["op"].startswith("aten::add")]
    assert random_ops == [("aten::dropout", True), ("aten::rand", True), ("aten::dropout", False)]


def test_flags_shapes_that_depend_on_data(record):
    recording = record(lambda x: x[x > 0].sum() + x.nonzero().sum(), torch.ones(3)).decode()
    flagged = {s["op"] for s in recording["steps"] if s["is_dynamic_shape"]}
    assert flagged == {"aten::index.Tensor", "aten::nonzero"}


def test_flags_other_libraries_operators(record):
    with torch.library._scoped_library("recordertest", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        recording = record(lambda x: torch.ops.recordertest.twice(x) + 1, torch.ones(3)).decode()
    assert [(s["op"], s["is_opaque"]) for s in recording["steps"]] == [
        ("recordertest::twice", True), ("aten::add.Tensor", False)]


def test_metadata_questions_are_no_steps(record):
    def fn(x):
        assert x.is_floating_point() and not torch.is_complex(x)
        assert torch.result_type(x, 1) == torch.float32 and torch.is_same_size(x, x)
        return x + x.size(0) + x.numel()

    assert _ops(record(fn, torch.ones(3)).decode()) == ["aten::add.Tensor", "aten::add.Tensor"]


def test_data_is_recorded_as_an_alias(record):
    def fn(x):
        x.data.mul_(2)
        return x

    run = record(fn, torch.ones(3))
    assert run.result.tolist() == [2, 2, 2]
    recording = run.decode()
    assert _ops(recording) == ["aten::detach", "aten::mul_.Tensor"]
    assert recording["values"][0]["storage"] == recording["values"][1]["storage"]


def test_memory_freed_during_the_call_is_not_taken_for_new_memory(record):
    def fn(x):
        for _ in range(50):
            x = x.relu()
        return x

    recording = record(fn, torch.randn(1000)).decode()
    assert len({value["storage"] for value in recording["values"]}) == 51


def test_intermediate_memory_is_released(record):
    held = []

    def fn(x):
        y = x + 1
        held.append(torch.multiprocessing.reductions.StorageWeakRef(y.untyped_storage()))
        del y
        held.append(held[0].expired())

    # The weak reference itself reads the storage; that escape does not matter here.
    record(fn, torch.randn(1000))
    assert held[1] is True


# --- tensors without an origin -------------------------------------------------------------------


def test_finds_foreign_tensors_once_in_order_of_use(record):
    a, b = torch.randn(2, 2), torch.randn(2, 2)
    run = record(lambda x: (x + b) @ a + b, torch.randn(2, 2), weights=(a, b))
    assert [(t is b, t is a, w) for _, t, w in run.recorder.foreigns()] == [
        (True, False, False), (False, True, False)]
    sources = run.decode()["sources"]
    assert [(s["kind"], s["name"]) for s in sources] == [("Input", "x0"), ("Weight", "w1"), ("Weight", "w0")]


def test_says_which_foreign_tensors_were_written(record):
    cache, view = torch.zeros(4), torch.zeros(4)

    def fn(x):
        cache.index_copy_(0, torch.tensor([1]), x)
        view[1:3].add_(1)
        return cache + view

    run = record(fn, torch.ones(1), weights=(cache, view))
    assert [written for _, _, written in run.recorder.foreigns()] == [True, True]


def test_python_data_becomes_a_constant_with_its_first_elements(record):
    def fn(x):
        y = torch.tensor([1.0, 2.0])
        y[0] = 9.0
        return x + y + torch.tensor(4.0) + torch.Tensor([7.0, 8.0]) + x.new_tensor([1.0, 1.0])

    run = record(fn, torch.zeros(2))
    assert run.recorder.foreigns() == []
    recording = run.decode()
    constants = [s["data"] for s in recording["sources"] if s["kind"] == "Constant"]
    assert struct.pack("ff", 1.0, 2.0) in constants
    assert struct.pack("f", 4.0) in constants
    assert struct.pack("ff", 7.0, 8.0) in constants
    # Uninitialised memory that Python data then filled must never look like a step.
    assert not any("empty" in op for op in _ops(recording))


def test_a_list_as_index_becomes_a_constant(record):
    run = record(lambda x: x[[2, 0]], torch.arange(3.0))
    assert run.result.tolist() == [2, 0]
    data = [s["data"] for s in run.decode()["sources"] if s["kind"] == "Constant"]
    assert data == [struct.pack("qq", 2, 0)]


def test_a_number_tensor_is_a_constant_as_it_was_at_first_use(record):
    number = torch.tensor(3.0)

    def fn(x):
        y = x + number
        number.add_(1)
        return y

    run = record(fn, torch.ones(2))
    data = [s["data"] for s in run.decode()["sources"] if s["kind"] == "Constant"]
    assert data == [struct.pack("f", 3.0)]


def test_a_tensor_without_origin_cannot_become_a_constant(record):
    stranger = torch.randn(2, 2)
    run = record(lambda x: x + stranger, torch.randn(2, 2))
    ((value, _, _),) = run.recorder.foreigns()
    assert "no origin" in run.recorder.declare_constant(value, 1 << 20)
    with pytest.raises(RuntimeError, match="is not bound"):
        run.recorder.finish("f", [run.result])


def test_factories_inside_the_call_are_steps(record):
    run = record(lambda x: x + torch.arange(3) + torch.zeros(3) + torch.full((3,), 2.0), torch.ones(3))
    assert run.recorder.foreigns() == []
    assert {"aten::arange", "aten::zeros", "aten::full"} <= set(_ops(run.decode()))


def test_outputs_that_no_step_touched(record):
    weight = torch.randn(2)
    recording = record(lambda x: (x, weight), torch.randn(2), weights=(weight,)).decode()
    assert recording["steps"] == [] and recording["outputs"] == [0, 1]


def test_an_output_nobody_noted_is_an_error(record):
    run = record(lambda x: x + 1, torch.ones(2))
    with pytest.raises(RuntimeError, match="output 0 was not made"):
        run.recorder.finish("f", [torch.ones(2)])


# --- refusals ------------------------------------------------------------------------------------


def _in_autocast(x):
    with torch.autocast("cpu"):
        return x @ x


class _Subclass(torch.Tensor):
    pass


def _with_mode(x):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    with Mode():
        return x + 1


def _set_data(x):
    y = x + 1
    y.data = torch.zeros(7)


_ARRAY = numpy.ones(3)
_REFUSED = {
    "autocast": _in_autocast,
    "functorch": lambda x: torch.vmap(lambda row: row + 1)(x),
    "dispatch-mode": _with_mode,
    "subclass": lambda x: x.as_subclass(_Subclass) + 1,
    "requires-grad": lambda x: torch.enable_grad()(lambda: x.requires_grad_() + 1)(),
    "device": lambda x: x.to("meta") + 1,
    "sparse": lambda x: x.to_sparse(),
    "mkldnn": lambda x: x.to_mkldnn(),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8),
    "nested-tensor": lambda x: torch.nested.nested_tensor([x, x]) * 2,
    "conjugate": lambda x: x.to(torch.complex64).conj(),
    "dtype": lambda x: x.to(torch.float8_e4m3fnuz),
    "generator": lambda x: torch.rand(3, generator=torch.Generator()),
    "argument": lambda x: x.to(torch.complex64) * (1 + 2j),
    "metadata-change": lambda x: (x + 1).unsqueeze_(0),
    "constant-size": lambda x: torch.tensor([0.0] * (17 << 18)) + x.sum(),
    "escape-numpy": lambda x: x.numpy(),
    "escape-tolist": lambda x: x.expand(100, 3, 3).tolist(),
    "escape-data-ptr": lambda x: x.data_ptr(),
    "escape-dlpack": lambda x: torch.utils.dlpack.from_dlpack(x),
    "escape-storage": lambda x: x.untyped_storage(),
    "escape-memory": lambda x: x + torch.tensor(_ARRAY),
    "escape-repr": lambda x: f"{x}",
    "escape-version": lambda x: x._version,
    "higher-order": lambda x: torch.ops.higher_order.strict_mode(lambda y: y + 1, (x,)),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_refuses_by_name(record, name):
    run = record(_REFUSED[name], torch.ones(3, 3))
    assert run.recorder.refusal is not None and run.recorder.refusal[0] == name
    assert run.recorder.refusal[1]
    with pytest.raises(RuntimeError, match="unsupported: " + name):
        run.recorder.finish("f", [])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x + 1).resize_(2),
        lambda x: (x + 1).squeeze_(),
        lambda x: (x + 1).t_(),
        lambda x: torch.add(x, 1, out=torch.empty(0)),
        _set_data,
    ],
)
def test_refuses_changed_metadata(record, fn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert record(fn, torch.ones(3, 1)).refusal == "metadata-change"


def test_numpy_conversions_are_escapes(record):
    for function in (lambda x: numpy.asarray(x).sum(), lambda x: numpy.exp(x), lambda x: x + _ARRAY):
        run = record(function, torch.ones(3))
        assert run.refusal == "escape-numpy" or run.observed_refusal is not None


def test_an_alias_that_no_operator_made_is_refused(parts):
    def fn(x):
        y = x * 2
        return y.data + 1  # without the escape mode, an alias behind the dispatcher's back

    recorder = parts.Recorder()
    with torch.no_grad():
        recorder.start()
        fn(torch.ones(2))
        recorder.stop()
    assert recorder.refusal[0] == "hidden-alias"


def test_the_first_refusal_wins_and_the_function_runs_on(record):
    run = record(lambda x: (x.numpy().sum(), (x + 1).unsqueeze_(0).sum() * 2)[1], torch.ones(3))
    assert run.refusal == "escape-numpy" and run.result.item() == 12
    run.recorder.refuse("later", "nothing")
    assert run.refusal == "escape-numpy"


def test_the_same_tensor_twice_is_two_sources_of_one_value(record):
    x = torch.ones(2)
    recording = record(lambda a, b: a + b, x, x).decode()
    assert [(s["name"], s["value"]) for s in recording["sources"]] == [("x0", 0), ("x1", 0)]
    assert recording["steps"][0]["args"][:2] == [("value", 0), ("value", 0)]


def test_a_scripted_function_is_seen_inside(record):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(_scripted)
    run = record(lambda x: scripted(x), torch.ones(2))
    assert "aten::exp" in _ops(run.decode())


def _scripted(x):
    return x.exp() + 1


def test_exceptions_propagate_and_refuse(parts):
    recorder = parts.Recorder()
    recorder.start()
    with pytest.raises(RuntimeError, match="size of tensor"):
        torch.ones(2) + torch.ones(3)
    recorder.stop()
    name, why = recorder.refusal
    assert name == "exception" and re.fullmatch(r"aten::add.Tensor raised an exception \(test_recorder.py:\d+\)", why), why


def test_a_nested_recording_refuses_and_leaves_the_outer_alone(parts, record):
    inner = parts.Recorder()

    def fn(x):
        inner.start()
        y = x + 1
        inner.stop()
        return y * 2

    run = record(fn, torch.ones(2))
    assert inner.refusal[0] == "nested" and inner.step_count == 0
    assert _ops(run.decode()) == ["aten::add.Tensor", "aten::mul.Tensor"]


# --- isolation -----------------------------------------------------------------------------------


def test_after_stop_nothing_is_noted(record):
    run = record(lambda x: x + 1, torch.ones(2))
    torch.ones(2) + 1
    assert run.recorder.step_count == 1 and not run.recorder.recording
    assert "GenericMode" not in str(torch._C._dispatch_tls_local_include_set())


def test_a_dropped_recorder_stops(parts):
    recorder = parts.Recorder()
    recorder.start()
    del recorder
    again = parts.Recorder()
    again.start()
    torch.ones(2)
    again.stop()
    assert again.refusal is None and again.step_count == 1


def test_other_threads_are_not_noted(parts):
    recorder = parts.Recorder()
    recorder.start()
    thread = threading.Thread(target=lambda: torch.ones(2) + 1)
    thread.start()
    thread.join()
    recorder.stop()
    assert recorder.step_count == 0


def test_two_threads_record_at_once(parts):
    counts = {}
    barrier = threading.Barrier(2)

    def work(steps):
        recorder = parts.Recorder()
        x = torch.ones(2)
        recorder.declare_input(x, "x")
        barrier.wait()
        recorder.start()
        for _ in range(steps):
            x = x + 1
        recorder.stop()
        counts[steps] = recorder.step_count

    threads = [threading.Thread(target=work, args=(n,)) for n in (100, 300)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert counts == {100: 100, 300: 300}


def test_finish_gives_the_recording_once(record):
    run = record(lambda x: x + 1, torch.ones(2))
    recording = run.decode()
    assert recording["name"] == "test.fn" and recording["eager_ns"] > 0
    assert all(step["eager_ns"] > 0 for step in recording["steps"])
    with pytest.raises(RuntimeError, match="already taken"):
        run.recorder.finish("again", [])


def test_cut_recordings_do_not_verify(parts, record):
    run = record(lambda x: F.silu(x) * 2, torch.ones(2))
    whole = run.recorder.finish("f", [run.result])
    # The last bytes are padding of the first string.
    for size in range(len(whole) - 8):
        with pytest.raises(RuntimeError, match="not a recording"):
            parts.decode(whole[:size])


# --- models --------------------------------------------------------------------------------------


def _llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, vocab_size=100,
                         max_position_embeddings=64)
    return LlamaForCausalLM(config).eval()


def _bert():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                                num_attention_heads=2, vocab_size=100)).eval()


@pytest.mark.parametrize("make", [_llama, _bert])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_records_transformers(parts, make, mode):
    torch.manual_seed(0)
    model = make()
    ids = torch.randint(0, 100, (2, 7))
    mask = torch.ones_like(ids)
    extra = {"use_cache": False} if make is _llama else {}
    with mode():
        expected = model(ids, attention_mask=mask, return_dict=False, **extra)[0]
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        run = Run(parts, lambda i, m: model(i, attention_mask=m, return_dict=False, **extra)[0],
                  ids, mask, weights=state.values())
        assert run.refusal is None
        assert torch.equal(run.result, expected)
        recording = run.decode()
    ops = _ops(recording)
    assert ops.count("aten::scaled_dot_product_attention") == 2
    assert ops.count("aten::linear") == (15 if make is _llama else 13)
    assert not any(step["is_random"] for step in recording["steps"])
    weights = [s for s in recording["sources"] if s["kind"] == "Weight"]
    assert len(weights) > 20


@pytest.fixture
def world(tmp_path):
    """This process as the only one of a job; the name of its group."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield dist.group.WORLD.group_name
    dist.destroy_process_group()


def _all_reduced(name):
    ops = torch.ops._c10d_functional

    def summed(x):
        return ops.wait_tensor(ops.all_reduce(x, "sum", name)) + ops.wait_tensor(ops.broadcast(x, 0, name))

    return summed


def test_a_collective_names_its_group_by_a_slot(parts, world):
    recorder, x = parts.Recorder(), torch.ones(4)
    recorder.declare_input(x, "x")
    recorder.declare_group(world, "ranks 0")
    recorder.start()
    result = _all_reduced(world)(x)
    recorder.stop()
    steps = parts.decode(recorder.finish("f", [result]))["steps"]
    assert [(s["op"].partition("::")[2], s["args"][-1], s["is_opaque"]) for s in steps] == [
        ("all_reduce", "group 0", True), ("wait_tensor", ("value", 1), True), ("broadcast", "group 0", True),
        ("wait_tensor", ("value", 2), True), ("add.Tensor", 1, False)]
    assert steps[1]["results"] == [("value", 1)] and recorder.groups == ["ranks 0"]


def test_communication_that_cannot_be_replayed_is_refused(parts, world):
    import torch.distributed as dist

    reasons = []
    for function in (_all_reduced(world), lambda x: dist.all_reduce(x), lambda x: dist.barrier()):
        recorder, x = parts.Recorder(), torch.ones(4)
        recorder.declare_input(x, "x")
        recorder.start()
        function(x)
        recorder.stop()
        assert recorder.refusal[0] == "communication", recorder.refusal
        reasons.append(recorder.refusal[1])
    assert f"no process group was called '{world}' before the call" in reasons[0]
    assert "c10d::allreduce_" in reasons[1] and "c10d::" in reasons[2]
