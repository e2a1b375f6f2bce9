# SPDX-License-Identifier: Apache-2.0
"""Operators whose kernel is a user's own C, C++ or LLVM IR."""

import pathlib
import shutil
import subprocess
import textwrap

import pytest
import torch

from conftest import ROOT

SCALE = '''
#include <ingot/kernel.h>

struct Work { const IngotTensor* x; IngotTensor* y; double by; };

static int64_t offset_of(const IngotTensor* t, int64_t i) {
  int64_t offset = 0;
  for (int d = t->rank - 1; d >= 0; --d) { offset += i % t->sizes[d] * t->strides[d]; i /= t->sizes[d]; }
  return offset;
}

static void part(void* state, int64_t begin, int64_t end) {
  const Work* w = static_cast<const Work*>(state);
  for (int64_t i = begin; i < end; ++i) {
    static_cast<float*>(w->y->data)[i] = static_cast<const float*>(w->x->data)[offset_of(w->x, i)] * (float)w->by;
  }
}

INGOT_KERNEL(NAME) {
  const IngotTensor* x = &call->arguments[0].tensor;
  if (x->dtype != INGOT_F32) return call->fail(call, "it takes f32");
  IngotTensor* y = call->make_result(call, x->dtype, x->rank, x->sizes);
  if (!y) return 1;
  int64_t count = 1;
  for (int d = 0; d < x->rank; ++d) count *= x->sizes[d];
  Work work = {x, y, call->arguments[1].real MORE};
  call->parallel_for(call, count, 64, part, &work);
  return 0;
}
'''


def scale_source(name: str, more: str) -> str:
    return SCALE.replace("NAME", name).replace("MORE", more)


needs_compiler = pytest.mark.skipif(not shutil.which("c++"), reason="no compiler")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@needs_compiler
def test_native_code_calls_a_kernel_of_c(ingot):
    ingot.register_kernel("ingot_kernels::scale(Tensor x, float by) -> Tensor", scale_source("scale", ""))
    scale, x = torch.ops.ingot_kernels.scale, torch.randn(300, 7)
    torch.testing.assert_close(scale(x.t(), 3.0), x.t() * 3)
    step = ingot.compile(lambda x: scale(x.exp().t(), 2.0) + 1, wait=True)
    with torch.no_grad():
        step(x)
        torch.testing.assert_close(step(x), x.exp().t() * 2 + 1)
    assert step.variants[-1]["aten_steps"] == 1
    with pytest.raises(RuntimeError, match="ingot_kernels::scale: it takes f32"):
        scale(x.double(), 1.0)
    ingot.register_kernel("ingot_kernels::scale", scale_source("scale", ""))
    with pytest.raises(ingot.Invalid, match="has a kernel already"):
        ingot.register_kernel("ingot_kernels::scale", scale_source("scale", "* 2"))


@needs_compiler
def test_several_results_and_arguments_that_are_missing(ingot):
    ingot.register_kernel("ingot_kernels::ends(Tensor x, Tensor? y, int at, bool last) -> (Tensor, Tensor)", '''
#include <ingot/kernel.h>
INGOT_KERNEL(ends) {
  const int64_t one = 1;
  const IngotArgument* a = call->arguments;
  float* first = (float*)call->make_result(call, INGOT_F32, 0, &one)->data;
  int64_t* second = (int64_t*)call->make_result(call, INGOT_I64, 1, &one)->data;
  *first = ((const float*)a[0].tensor.data)[a[2].integer];
  *second = (a[1].kind == INGOT_NONE ? 0 : 10) + (a[3].kind == INGOT_BOOLEAN && a[3].integer);
  return 0;
}''')
    x = torch.arange(4.0)
    for y, expected in ((None, 1), (x, 11)):
        first, second = torch.ops.ingot_kernels.ends(x, y, 2, True)
        assert first.item() == 2 and second.tolist() == [expected]


@pytest.mark.parametrize("source, error, why", [
    ("#include <ingot/kernel.h>\nINGOT_KERNEL(bad) { return missing; }\n", "Unsupported", "missing"),
    ("#include <ingot/kernel.h>\nINGOT_KERNEL(other) { return 0; }\n", "NotFound", "has no INGOT_KERNEL"),
    ("kernel.txt", "Invalid", "expected .c, .cc, .cpp, .ll"),
    ("kernel.cpp", "NotFound", "kernel.cpp"),
    ("kernel.so", "NotFound", "is no file"),
])
@needs_compiler
def test_what_is_no_kernel_is_refused(ingot, source, error, why):
    with pytest.raises(getattr(ingot, error), match=why):
        ingot.register_kernel("ingot_kernels::bad(Tensor x) -> Tensor", source)


@needs_compiler
@pytest.mark.parametrize("schema, why", [
    ("ingot_kernels::writes(Tensor(a!) x) -> Tensor", "changes an argument"),
    ("ingot_kernels::lists(Tensor[] x) -> Tensor", "found 'x'"),
    ("ingot_kernels::number(Tensor x) -> int", "another result"),
    ("ingot_kernels::nothing(Tensor x) -> ()", "gives nothing"),
    ("no_operator", "no operator"),
    ("ingot_kernels::odd(Tenser x) -> Tensor", "no schema"),
])
def test_other_operators_are_refused(ingot, schema, why):
    with pytest.raises(ingot.Invalid, match=why):
        ingot.register_kernel(schema, "#include <ingot/kernel.h>\nINGOT_KERNEL(f) { return 0; }\n", symbol="f")


@needs_compiler
def test_failures_of_a_kernel_are_errors_of_the_call(ingot):
    for name, body, why in (("few", "return 0;", "has made 0 results of 1"), ("code", "return 7;", "its kernel returned 7"),
                            ("many", "const int64_t n = 1; for (int i = 0; i < 2; ++i) call->make_result(call, INGOT_F32, 1, &n); return 0;", "more results"),
                            ("type", "call->make_result(call, 99, 0, 0); return 1;", "no element type 99"),
                            ("rank", "call->make_result(call, INGOT_F32, -1, 0); return 1;", "of -1 dims")):
        ingot.register_kernel(f"ingot_kernels::{name}(Tensor x) -> Tensor", f"#include <ingot/kernel.h>\nINGOT_KERNEL({name}) {{ {body} }}\n")
        with pytest.raises(RuntimeError, match=why):
            getattr(torch.ops.ingot_kernels, name)(torch.ones(2))
    with pytest.raises(RuntimeError, match="no tensor of"):
        torch.ops.ingot_kernels.code(torch.ones(2).to(torch.float8_e4m3fnuz))


@pytest.mark.skipif(not shutil.which("clang") and not shutil.which("clang-22"), reason="no clang")
def test_a_kernel_of_llvm_ir(ingot, folder):
    clang = shutil.which("clang") or shutil.which("clang-22")
    source, text = folder / "twice.cpp", folder / "twice.ll"
    source.write_text(scale_source("twice", "* 2"))
    include = pathlib.Path(ingot.__file__).parent / "include"
    subprocess.run([clang, "-xc++", "-std=c++17", "-O1", "-fPIC", "-S", "-emit-llvm", f"-I{include}", str(source), "-o", str(text)], check=True)
    ingot.register_kernel("ingot_kernels::twice(Tensor x, float by) -> Tensor", text)
    torch.testing.assert_close(torch.ops.ingot_kernels.twice(torch.ones(3), 4.0), torch.full((3,), 8.0))


RUN = textwrap.dedent('''
    import json, os, torch, ingot
    ingot.register_kernel("ingot_kernels::scale(Tensor x, float by) -> Tensor", os.environ["SOURCE"])
    step, x = ingot.compile(lambda x: torch.ops.ingot_kernels.scale(x.exp(), 2.0), wait=True), torch.zeros(4)
    with torch.no_grad():
        answers = [step(x)[0].item() for _ in range(2)]
    print(json.dumps(dict(answers=answers, why=step.why_miss(), **ingot.stats())))
''')


@needs_compiler
def test_what_is_stored_serves_only_whoever_has_the_same_object(store, folder):
    run = lambda more: store.python(RUN, SOURCE=scale_source("scale", more), XDG_CACHE_HOME=str(folder / "cache"))  # noqa: E731
    first, again, other = run(""), run(""), run("* 3")
    assert first["answers"] == again["answers"] == [2, 2] and other["answers"] == [6, 6]
    assert (first["captures"], again["captures"], other["captures"]) == (1, 0, 1) and again["native_calls"] == 2
    assert "ingot_kernels::scale" in other["why"], other["why"]


@needs_compiler
def test_code_that_others_may_write_is_not_loaded(ingot, folder):
    kernels = folder / "cache" / "ingot" / "kernels"
    kernels.mkdir(parents=True)
    kernels.chmod(0o777)
    with pytest.raises(ingot.Unavailable, match="can be written by others"):
        ingot.build_kernel(scale_source("scale", ""))


@needs_compiler
def test_the_example_of_the_documentation_runs(store):
    text = (ROOT / "docs" / "kernels.md").read_text()
    code = text.split("```python\n")[1].split("\n```")[0]
    found = store.python(code + "\nimport json\nprint(json.dumps([ingot.stats()['native_calls'], step(torch.tensor([-3.0, 2.0])).tolist()]))")
    assert found[0] == 1 and found[1] == pytest.approx([-0.4, 6.0])
