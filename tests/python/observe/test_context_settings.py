# SPDX-License-Identifier: Apache-2.0
"""Settings of the process that PyTorch's operators ask for by themselves."""

import pathlib
import re

import pytest
import torch



def attends(x):
    q = x.reshape(1, 1, 4, 8)
    image = x.reshape(1, 2, 4, 4)
    return torch.nn.functional.scaled_dot_product_attention(q, q, q).sum() + (q @ q.mT).sum() + torch.nn.functional.conv2d(
        image, torch.ones(1, 2, 3, 3)).sum() + x


def _flags(backend, **flags):
    def change():
        was = {name: getattr(backend, name) for name in flags}
        for name, value in flags.items():
            setattr(backend, name, value)
        return lambda: [setattr(backend, name, value) for name, value in was.items()]

    return change


def _called(set_it, get_it, value):
    def change():
        was = get_it()
        set_it(value)
        return lambda: set_it(was)

    return change


def _no_attention():
    undone = [_called(getattr(torch.backends.cuda, f"enable_{name}_sdp"), getattr(torch.backends.cuda, f"{name}_sdp_enabled"), False)()
              for name in ("math", "flash")]
    return lambda: [undo() for undo in undone]


def _one_attention():
    context = torch.nn.attention.sdpa_kernel([torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION])
    context.__enter__()
    return lambda: context.__exit__(None, None, None)


def _mkldnn(**flags):
    def change():
        context = torch.backends.mkldnn.flags(**flags)  # Which may be set where other tests have frozen what they are by themselves.
        context.__enter__()
        return lambda: context.__exit__(None, None, None)

    return change


def _nnpack():
    was = torch.backends.nnpack.set_flags(False)
    return lambda: torch.backends.nnpack.set_flags(*was)


cuda = torch.backends.cuda
SETTINGS = {
    "no attention": _no_attention,
    "one attention": _one_attention,
    **{f"{name} attention": _called(getattr(cuda, f"enable_{name}_sdp"), getattr(cuda, f"{name}_sdp_enabled"), False)
       for name in ("math", "flash", "mem_efficient", "cudnn")},
    "reduced attention": _called(cuda.allow_fp16_bf16_reduction_math_sdp, cuda.fp16_bf16_reduction_math_sdp_allowed, True),
    "deterministic": _called(torch.use_deterministic_algorithms, torch.are_deterministic_algorithms_enabled, True),
    "matmul": _called(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision, "medium"),
    "default dtype": _called(torch.set_default_dtype, torch.get_default_dtype, torch.float64),
    "flush": _called(torch.set_flush_denormal, lambda: False, True),
    "mkldnn": _mkldnn(enabled=False),
    "mkldnn deterministic": _mkldnn(enabled=True, deterministic=True),
    "mkldnn conv": _flags(torch.backends.mkldnn.conv, fp32_precision="bf16"),
    "nnpack": _nnpack,
    "quantized": _flags(torch.backends.quantized, engine="qnnpack") if "qnnpack" in torch.backends.quantized.supported_engines else _nnpack,
    "sparse": lambda: (torch.sparse.check_sparse_tensor_invariants.enable(), torch.sparse.check_sparse_tensor_invariants.disable)[1],
}


# How operators of PyTorch's round, which ask for it themselves.
ROUNDING = {"cudnn attention", "mem_efficient attention", "reduced attention", "matmul", "mkldnn", "mkldnn deterministic", "mkldnn conv", "nnpack", "quantized", "sparse"}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_operators_is_part_of_a_call(ingot, name):
    def said(function, x):
        try:
            return function(x)
        except RuntimeError as error:
            return str(error)

    step, x = ingot.compile(attends, wait=True, config=ingot.Config(agree="off")), torch.linspace(0, 1, 32)
    with torch.no_grad():
        step(x)
        before = ingot.stats()["native_calls"] + 2
        for _ in range(2):
            step(x)
        assert ingot.stats()["native_calls"] == before
        undo = SETTINGS[name]()
        try:
            found, expected = said(step, x), said(attends, x)
            assert ingot.stats()["native_calls"] == before + (name in ROUNDING)
            assert torch.allclose(found, expected) if isinstance(expected, torch.Tensor) else found == expected
        finally:
            undo()
        assert torch.allclose(step(x), attends(x))
        assert ingot.stats()["native_calls"] == before + 1 + (name in ROUNDING)


def test_every_setting_of_the_context_is_in_or_has_a_reason():
    text = (pathlib.Path(torch.__path__[0]) / "include/ATen/Context.h").read_text()
    public = text[text.index("class TORCH_API Context {"):text.index(" private:")]
    setters = set(re.findall(r"\b(?:void|bool) (_?set\w+)\(", public))
    from ingot import _native

    known = {}
    for setter, name, value, without in _native.context_settings():
        assert (value is None) == bool(without) == (not name)
        known[setter] = without
    assert setters - known.keys() == set()
    # Beside the context, Python has these.
    assert known.keys() - setters == {"set_num_threads", "set_default_dtype"}
