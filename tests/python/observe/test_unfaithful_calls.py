# SPDX-License-Identifier: Apache-2.0
"""Calls that a graph would answer otherwise than eager does are eager; what a program may ask of a tensor argument tells calls apart."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode


def _tensors(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _assert_alike(found, wanted):
    assert [leaf for leaf in torch.utils._pytree.tree_leaves(found) if not isinstance(leaf, torch.Tensor)] == [
        leaf for leaf in torch.utils._pytree.tree_leaves(wanted) if not isinstance(leaf, torch.Tensor)]
    for a, b in zip(_tensors(found), _tensors(wanted), strict=True):
        assert a.requires_grad == b.requires_grad and type(a) is type(b)
        torch.testing.assert_close(a.detach(), b.detach(), equal_nan=True)


def _check(ingot, function, *calls):
    step = ingot.compile(function, wait=True)
    for call in calls:
        for _ in range(3):
            args, again = call(), call()
            torch.manual_seed(0)
            wanted = function(*args)
            torch.manual_seed(0)
            found = step(*again)
            _assert_alike(found, wanted)
            _assert_alike(again, args)
    return step


def _foreach(name, *arguments):
    def run(*tensors):
        getattr(torch, name)(*[[tensors[i] for i in a] if isinstance(a, tuple) else a for a in arguments])
        return tensors[0]
    return run


def _changed(change):
    def run(x):
        change(x)
        return x
    return run


EAGER = {
    "an offset into memory from before": ("storage-offset", lambda x: x.as_strided((2,), (1,), 1) * 2,
                                          lambda: (torch.arange(4.),), lambda: (torch.arange(6.)[2:],)),
    "one element of memory from before": ("storage-offset", lambda x: x.as_strided((1,), (1,)), lambda: (torch.ones(2, 2),)),
    "one tensor twice in a list that is written": ("overlapping-writes", _foreach("_foreach_add_", (0, 0), 1), lambda: (torch.ones(3),)),
    "a list that is written, out of step with the one that is read": (
        "overlapping-writes", _foreach("_foreach_add_", (0, 1), (1, 0)), lambda: (torch.ones(3), torch.ones(3))),
    "numbers drawn into every second place": ("random-layout", _changed(lambda x: x[::2].normal_()), lambda: (torch.zeros(40),)),
    "numbers drawn into a transposed tensor": ("random-layout", _changed(lambda x: x.t().bernoulli_(0.5)), lambda: (torch.zeros(2, 2),)),
    "a sum into integers": ("result-type", lambda x, y: torch.sum(x, 0, out=y),
                            lambda: (torch.tensor([.5, .5, 1.5, 300]), torch.tensor(0, dtype=torch.int32))),
    "a cumulative sum into integers": ("result-type", lambda x, y: torch.cumsum(x, 0, out=y),
                                       lambda: (torch.tensor([.5, .5, 1.5]), torch.zeros(3, dtype=torch.int32))),
    "a result that is made to require a gradient": ("gradient", lambda x: x.clone().requires_grad_(), lambda: (torch.ones(3),)),
    "a new tensor that requires a gradient": ("gradient", lambda x: torch.zeros(2, requires_grad=True), lambda: (torch.ones(3),)),
    "an argument that is made to require a gradient": ("gradient", _changed(lambda x: x.requires_grad_()), lambda: (torch.ones(3),)),
    "an argument with attributes that is asked for them": (
        "argument-attribute", lambda x: x * getattr(x, "scale", 1), lambda: (_with(torch.ones(3), scale=2),), lambda: (_with(torch.ones(3), scale=5),)),
}


def _with(tensor, **attributes):
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


@pytest.mark.parametrize("name", EAGER)
def test_is_eager(ingot, name):
    why, function, *calls = EAGER[name]
    before = ingot.stats()["native_calls"]
    step = _check(ingot, function, *calls)
    assert ingot.stats()["native_calls"] == before
    assert why in step.why_miss()


def _parameter():
    return (torch.nn.Parameter(torch.ones(3), requires_grad=False),)


TOLD_APART = {
    "a Parameter from a tensor": (lambda x: x * 2 if isinstance(x, torch.nn.Parameter) else x * 3, _parameter, lambda: (torch.ones(3),)),
    "a tensor from a Parameter": (lambda x: x * 2 if type(x) is torch.nn.Parameter else x * 3, lambda: (torch.ones(3),), _parameter),
    "a Buffer from a tensor": (lambda x: x * 2 if isinstance(x, torch.nn.Buffer) else x * 3, lambda: (torch.ones(3),),
                               lambda: (torch.nn.Buffer(torch.ones(3)),)),
    "one with an attribute from one without": (lambda x: x * getattr(x, "scale", 1), lambda: (torch.ones(3),),
                                               lambda: (_with(torch.ones(3), scale=2),)),
}


@pytest.mark.parametrize("name", TOLD_APART)
def test_is_told_apart(ingot, name):
    before = ingot.stats()["native_calls"]
    _check(ingot, *TOLD_APART[name])
    assert ingot.stats()["native_calls"] > before


def _made(*sizes):
    """Requires grad, and an operator has made it."""
    with torch.enable_grad():
        return torch.ones(*sizes, requires_grad=True) * 1


ASKED = {
    "an offset": (lambda x: x * (1 + torch.ops.aten.sym_storage_offset(x)), lambda: (torch.ones(3),), lambda: (torch.ones(5)[2:],)),
    "an offset of a view": (lambda x: x * torch.ops.aten.sym_storage_offset(x[1:]), lambda: (torch.ones(3),), lambda: (torch.ones(5)[2:],)),
    "an offset without an operator": (lambda x: x * (1 + torch.ops.aten.storage_offset(x)), lambda: (torch.ones(3),), lambda: (torch.ones(5)[2:],)),
    "a list of sizes": (lambda x: (x * 2, torch.ops.aten.size(x)), lambda: (torch.ones(3),), lambda: (torch.ones(4),), lambda: (torch.ones(5),)),
    "a size": (lambda x: x * torch.ops.aten.sym_size.int(x, 0), lambda: (torch.ones(3),), lambda: (torch.ones(4),), lambda: (torch.ones(5),)),
    "a leaf": (lambda x: x * (2 if torch.ops.aten.is_leaf(x) else 3), lambda: (torch.ones(3, requires_grad=True),), lambda: (_made(3),)),
    "strides of nothing": (lambda x: (x * 2, x.stride()), lambda: (torch.ones(3, 4),), lambda: (torch.ones(0, 4),), lambda: (torch.ones(4, 0).t(),),
                           lambda: (torch.ones(0, 4),)),
    "a stride of nothing": (lambda x: (x * 2, x.stride(0) * 2), lambda: (torch.ones(0, 4),), lambda: (torch.ones(4, 0).t(),), lambda: (torch.ones(5, 4),)),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_no_guard_holds_is_not_answered(ingot, name):
    with torch.no_grad():
        _check(ingot, *ASKED[name])


@pytest.mark.parametrize("dynamic", [True, False])
def test_strides_that_are_read_are_native_where_there_are_elements(ingot, dynamic):
    function = lambda x: (x * x.stride(0), x.stride())  # noqa: E731
    step = ingot.compile(function, wait=True, dynamic=dynamic)
    native = ingot.stats()["native_calls"]
    for n in (4, 5, 6, 0, 7, 6):
        for make in (lambda: torch.ones(3, n), lambda: torch.ones(n, 3).t()):
            for _ in range(2):
                found, wanted = step(make()), function(make())
                assert torch.equal(found[0], wanted[0]) and found[1] == wanted[1]
    assert ingot.stats()["native_calls"] > native + 4


def test_ordinary_writes_of_lists_are_native(ingot):
    step = _check(ingot, _foreach("_foreach_add_", (0, 1), 1), lambda: (torch.ones(3), torch.ones(4)))
    assert step.variants


def test_calls_within_a_level_of_forward_mode_are_eager(ingot):
    """Tangents may lie in arguments, in weights and in whatever else a call reads."""
    weight, x = torch.full((3,), 2.0), torch.ones(3)
    step = ingot.compile(lambda x: torch.sin(x) * weight, wait=True)
    with torch.no_grad():
        for _ in range(2):
            step(x)
    native = ingot.stats()["native_calls"]
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(step(forward_ad.make_dual(x, x))).tangent
    torch.testing.assert_close(tangent, torch.cos(x) * 2)
    assert ingot.stats()["native_calls"] == native and "forward-mode" in step.why_miss()
    with torch.no_grad():
        torch.testing.assert_close(step(x), torch.sin(x) * 2)
    assert ingot.stats()["native_calls"] == native + 1


@pytest.mark.parametrize("key", ["CPU", "AutogradCPU", "CompositeImplicitAutograd"])
@pytest.mark.parametrize("name, step", [("silu", torch.nn.functional.silu), ("addmm", lambda x: torch.nn.functional.linear(x, x[:4], x[0, :4]))])
@pytest.mark.parametrize("is_late", [True, False], ids=["late", "early"])
def test_operators_of_pytorch_with_kernels_of_the_program_are_eager(ingot, name, step, key, is_late):
    """Whatever Python code calls: another operator may run it."""
    def own(x, *others, **kwargs):
        return x * 100

    compiled, x = ingot.compile(step, wait=True), torch.arange(20.).reshape(5, 4)
    wanted = step(x)
    with torch.no_grad():
        for _ in range(2 * is_late):
            torch.testing.assert_close(compiled(x), wanted)
        native = ingot.stats()["native_calls"]
        library = torch.library.Library("aten", "IMPL")
        try:
            library.impl(name, own, key)
            for _ in range(2):
                assert torch.equal(compiled(x), step(x))
            assert ingot.stats()["native_calls"] == native and "overridden-operator" in compiled.why_miss()
        finally:
            library._destroy()
        for _ in range(2):
            torch.testing.assert_close(compiled(x), wanted)
        assert ingot.stats()["native_calls"] > native


@torch.no_grad()
def test_operators_with_kernels_of_transforms_are_native(ingot):
    # PyTorch registers those itself, as soon as something is transformed.
    assert torch.equal(torch.func.vmap(lambda x: x * 2)(torch.ones(3)), torch.full((3,), 2.0))
    assert any(name.endswith("/FuncTorchBatched") for name in torch.library._impls)
    step, x = ingot.compile(lambda x: torch.sin(x) * 3, wait=True), torch.ones(3)
    step(x)
    native = ingot.stats()["native_calls"]
    torch.testing.assert_close(step(x), torch.sin(x) * 3)
    assert ingot.stats()["native_calls"] == native + 1


def test_operators_with_kernels_for_other_devices_are_native(ingot):
    step = ingot.compile(lambda x: torch.sin(x) * 2, wait=True)
    library = torch.library.Library("aten", "IMPL")
    try:
        for key in ("CUDA", "AutogradCUDA", "XPU"):
            library.impl("sin", lambda x: x * 100, key)
        for _ in range(3):
            step(torch.ones(3))
    finally:
        library._destroy()
    assert ingot.stats()["native_calls"] > 0


@pytest.mark.parametrize("copy", [lambda x: x.contiguous(), lambda x: x.reshape(-1), lambda x: x.flatten()])
def test_copies_in_another_layout_do_not_share_memory(ingot, copy):
    def step(x):
        x += 1
        return copy(x), copy(x)

    compiled, native = ingot.compile(step, wait=True), ingot.stats()["native_calls"]
    for _ in range(3):
        one, other = compiled(torch.zeros(4, 12)[:, 3:9])
        one.add_(1)
        assert torch.all(one == 2) and torch.all(other == 1)
    assert ingot.stats()["native_calls"] > native


def test_memory_that_deterministic_algorithms_fill_is_filled(ingot):
    def step(x):
        return torch.empty(3), x + 1

    compiled = ingot.compile(step, wait=True)
    for _ in range(2):
        compiled(torch.zeros(2))
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(2):
            assert torch.isnan(compiled(torch.zeros(2))[0]).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_operator_that_reads_a_file_is_eager(ingot, tmp_path):
    file = tmp_path / "numbers.bin"

    def read(x):
        return x + torch.ops.aten.from_file.default(str(file), False, 4, dtype=torch.float32)

    file.write_bytes(bytes(16))
    step = ingot.compile(read, wait=True)
    for _ in range(3):
        assert step(torch.ones(4)).tolist() == [1.0] * 4
    file.write_bytes(b"\0\0\x80\x3f" * 4)
    assert step(torch.ones(4)).tolist() == [2.0] * 4 and "aten::from_file" in step.why_miss()


def _seen_by_vmap(call, x):
    return torch.func.vmap(lambda y: call(x) + y, randomness="different")(torch.zeros(4, 3))


def _seen_by_grad(call, x):
    return torch.func.grad(lambda y: (call(x) * y).sum())(torch.ones(3))


def _within(context):
    def run(call, x):
        with context():
            return call(x)
    return run


class _Doubled(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out * 2 if func is torch.ops.aten.mm.default else out


class _AutocastCuda:
    def __enter__(self):
        torch.set_autocast_enabled("cuda", True)

    def __exit__(self, *ignored):
        torch.set_autocast_enabled("cuda", False)


LAYERS = {
    "vmap": _seen_by_vmap, "grad": _seen_by_grad, "functionalize": lambda call, x: torch.func.functionalize(call)(x),
    "autocast of a CUDA device": _within(_AutocastCuda), "autocast": _within(lambda: torch.autocast("cpu", torch.bfloat16)),
    "no torch functions of subclasses": _within(torch._C.DisableTorchFunctionSubclass), "no torch functions": _within(torch._C.DisableTorchFunction),
    "a dispatch mode": _within(_Doubled), "no autograd": _within(torch._C._AutoDispatchBelowAutograd),
    "a default device": _within(lambda: torch.device("cpu")),
}
ON_THEM = {
    "random": lambda x: torch.rand_like(x) + x, "a product": lambda x: (x[None] @ torch.ones(3, 3))[0], "a sort": lambda x: x.sort(stable=True)[0],
    "whether autocast is on": lambda x: x * (2 if torch.is_autocast_enabled("cuda") else 3),
    "whether any autocast is on": lambda x: x * (2 if torch._C._is_any_autocast_enabled() else 3),
    "whether transforms are on": lambda x: x * (2 if torch._C._are_functorch_transforms_active() else 3),
    "whether torch functions are on": lambda x: x * (2 if torch._C._is_torch_function_enabled() else 3),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", ON_THEM)
def test_layers_between_a_call_and_its_kernels_make_it_eager(ingot, name, layer):
    """Whatever they are: what the call's shape does not hold of a thread, its operators do not see."""
    function, x = ON_THEM[name], torch.tensor([3.0, 1.0, 2.0])
    step = ingot.compile(function, wait=True, config=ingot.Config(agree="off"))
    for _ in range(3):
        torch.manual_seed(3)
        found = step(x)
        torch.manual_seed(3)
        assert torch.equal(found, function(x))
    native = ingot.stats()["native_calls"]
    assert native > 0
    for _ in range(2):
        torch.manual_seed(3)
        found = LAYERS[layer](step, x)
        torch.manual_seed(3)
        torch.testing.assert_close(found, LAYERS[layer](function, x), rtol=0, atol=0)
    assert ingot.stats()["native_calls"] == native
    assert torch.equal(step(x) * 0, x * 0) and ingot.stats()["native_calls"] == native + 1


def test_a_write_within_a_transform_is_eagers(ingot):
    memory, x = torch.zeros(3), torch.ones(3)
    step = ingot.compile(lambda x: memory.add_(x) * 2, wait=True, config=ingot.Config(agree="off"))
    for _ in range(3):
        step(x)
    with pytest.raises(RuntimeError, match="mutat"):
        torch.func.grad(lambda y: (step(x) * y).sum())(torch.ones(3))
    assert memory[0] == 3


def test_loaded_files_refuse_layers(ingot, tmp_path):
    step, x = ingot.compile(lambda x: (x[None] @ torch.ones(3, 3))[0], wait=True), torch.ones(3)
    for _ in range(2):
        step(x)
    step.export(tmp_path / "f.ingot")
    loaded = ingot.load(tmp_path / "f.ingot")
    for layer, why in {"a dispatch mode": "dispatch-mode", "vmap": "dispatch-keys", "autocast of a CUDA device": "autocast", "no torch functions": "function-mode"}.items():
        with pytest.raises(ingot.Unsupported, match=why):
            LAYERS[layer](loaded, x)
    torch.testing.assert_close(loaded(x), torch.full((3,), 3.0))
