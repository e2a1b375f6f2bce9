# SPDX-License-Identifier: Apache-2.0
"""ONNX models whose answer was once wrong, and their kinds: what the operators' texts say at their edges. Random models: test_onnx_random.py."""

import subprocess
import sys

import pytest
import torch
from onnx_writer import Model, block, varint
from test_onnx import compiled, refusal, run
from torch.nn import functional as F

import ingot

INF, NAN = float("inf"), float("nan")
OUTSIDE = "out of (bounds|range)|outside the indexed dimension"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def answer(tmp_path, op, inputs, constants=(), opset=18, outputs=1, left_out=(), **attributes):
    """The results of one node; None among the inputs: not given."""
    model, names, given = Model(opset), [], []
    for i, value in enumerate(inputs):
        if value is None:
            names.append("")
        elif i in constants:
            names.append(model.constant(f"c{i}", value))
        else:
            names.append(model.input(f"x{i}", *value.shape, dtype=value.dtype))
            given.append(value)
    made = model.node(op, *names, outputs=outputs, left_out=left_out, **attributes)
    model.output(*([made] if outputs == 1 else [m for m in made if m]))
    results = list(compiled(model, tmp_path)[1](*given).values())
    return results[0] if len(results) == 1 else results


def same(found, wanted):
    torch.testing.assert_close(found, torch.as_tensor(wanted, dtype=found.dtype), equal_nan=True)


# -- attention --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ("causal", "bool", "float"))
def test_bounded_scores_leak_no_masked_key(tmp_path, kind):
    q, k, v = torch.randn(1, 2, 4, 3), torch.randn(1, 2, 4, 3), torch.randn(1, 2, 4, 5)
    sees = torch.ones(4, 4, dtype=torch.bool).tril() if kind == "causal" else torch.rand(4, 4) > 0.4
    sees[1] = kind == "causal" and sees[1]  # a row that sees nothing gives zeros
    bias = torch.zeros(4, 4).masked_fill(~sees, -INF)
    mask = {"causal": None, "bool": sees, "float": bias}[kind]
    scores = q @ k.mT / 3**0.5
    bounded = 2 * torch.tanh(scores / 2)
    weights = torch.softmax(bounded + bias, -1).nan_to_num(0.0)
    steps = [scores, bounded, bounded + bias, weights]
    for mode, step in enumerate(steps):
        y, shown = answer(tmp_path, "Attention", [q, k, v] + [mask] * (mask is not None), (), 23, 4, (1, 2), softcap=2.0, is_causal=int(kind == "causal"),
                          qk_matmul_output_mode=mode)
        same(y, weights @ v)
        same(shown, step)


def test_rows_that_see_nothing_are_zeros(tmp_path):
    x = torch.randn(1, 1, 4, 2)
    nothing = torch.zeros(4, 4, dtype=torch.bool)
    y, weights = answer(tmp_path, "Attention", [x, x.clone(), x.clone(), nothing], (), 23, 4, (1, 2), qk_matmul_output_mode=3)
    assert not y.any() and not weights.any()


def test_heads_whose_width_is_open(tmp_path):
    model = Model(23)
    names = [model.input(f"x{i}", 1, "tokens", "width") for i in range(3)]
    model.output(model.node("Attention", *names, q_num_heads=2, kv_num_heads=2))
    loaded = compiled(model, tmp_path)[1]
    for tokens, width in ((4, 8), (5, 4), (2, 10)):
        q, k, v = (torch.randn(1, tokens, width) for _ in range(3))
        heads = [x.view(1, tokens, 2, width // 2).transpose(1, 2) for x in (q, k, v)]
        (found,) = loaded(q, k, v).values()
        same(found, F.scaled_dot_product_attention(*heads).transpose(1, 2).reshape(1, tokens, width))


# -- sums, extremes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", (0, 1))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.int64))
def test_exclusive_sums_are_no_differences(tmp_path, dtype, reverse):
    x = torch.tensor([[1, 1e10, 3, 2], [5, 6, 7, 8]]).to(dtype)
    if dtype.is_floating_point:
        x[1, 2] = INF
    turned = x.flip(1) if reverse else x
    wanted = torch.cat([torch.zeros(2, 1, dtype=dtype), turned[:, :-1]], 1).cumsum(1)
    same(answer(tmp_path, "CumSum", [x, torch.tensor(1)], (1,), exclusive=1, reverse=reverse), wanted.flip(1) if reverse else wanted)


@pytest.mark.parametrize("op, of", (("ReduceL1", torch.abs), ("ReduceL2", torch.abs), ("ReduceSumSquare", torch.square), ("ReduceLogSum", torch.log),
                                    ("ReduceSum", torch.clone), ("ReduceLogSumExp", torch.clone), ("ReduceMax", torch.clone)))
@pytest.mark.parametrize("axes", (None, torch.zeros(0, dtype=torch.int64)), ids=("none", "empty"))
def test_reductions_of_no_dim_do_the_rest_of_their_work(tmp_path, op, of, axes):
    x = torch.tensor([[-1.5, 2], [0.5, 3]]) if op != "ReduceLogSum" else torch.rand(2, 2) + 0.1
    same(answer(tmp_path, op, [x, axes] if axes is not None else [x], (1,), noop_with_empty_axes=1), of(x))


@pytest.mark.parametrize("op, of_floats, of_integers", (("ReduceMax", -INF, -(2**31)), ("ReduceMin", INF, 2**31 - 1)))
def test_extremes_of_nothing(tmp_path, op, of_floats, of_integers):
    same(answer(tmp_path, op, [torch.zeros(2, 0), torch.tensor([1])], (1,), 20, keepdims=0), [of_floats] * 2)
    same(answer(tmp_path, op, [torch.zeros(0, 2, dtype=torch.int32), torch.tensor([0])], (1,), 20), [[of_integers] * 2])


def test_roots_of_integers_are_not_rounded_on_the_way(tmp_path):
    x = torch.tensor([[94906265, 1]])  # its square needs 53 bits
    assert answer(tmp_path, "ReduceL2", [x, torch.tensor([1])], (1,)).tolist() == [[94906265]]


# -- integers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", (2**63 - 1, 2**53 + 1, -(2**63)))
def test_integers_are_not_read_as_floats(tmp_path, number):
    assert answer(tmp_path, "Pad", [torch.tensor([5]), torch.tensor([1, 0]), torch.tensor(number)], (1, 2)).tolist() == [number, 5]
    model = Model()
    model.input("x", 2, dtype=torch.int64)
    model.input("n", 1, dtype=torch.int64)
    model.output(model.node("Max", "x", "n"), "n")
    _, loaded = compiled(model, tmp_path, "--value", f"n={number}")
    assert list(loaded(torch.tensor([0, -5])).values())[1].tolist() == [number]


def test_numbers_that_an_input_does_not_hold(tmp_path):
    model = Model()
    model.input("x", 2, dtype=torch.int32)
    model.input("n", 1, dtype=torch.int32)
    model.output(model.node("Add", "x", "n"))
    for value in ("2147483648", "2.5", "1e300"):
        assert "takes numbers of type int32" in refusal(model, tmp_path, "--value", f"n={value}")
    _, loaded = compiled(model, tmp_path, "--value", "n=2.0")
    assert list(loaded(torch.tensor([1, 2], dtype=torch.int32)).values())[0].tolist() == [3, 4]


def test_powers_of_integers(tmp_path):
    base = torch.tensor([1001, 16777217, -3])
    assert answer(tmp_path, "Pow", [base, torch.tensor([3.0, 1.0, 3.0])]).tolist() == [1003003001, 16777217, -27]
    # An odd power is odd, though f32 has no such integer.
    same(answer(tmp_path, "Pow", [torch.tensor([-1.0]), torch.tensor([2**24 + 1])]), [-1.0])


def test_signs_of_nan(tmp_path):
    same(answer(tmp_path, "Sign", [torch.tensor([NAN, 2, -0.5, 0, -INF])]), [NAN, 1, -1, 0, -1])
    same(answer(tmp_path, "Sign", [torch.tensor([3, -2, 0])]), [1, -1, 0])


DIVISION = """
import sys, torch, ingot
for dtype in (torch.int32, torch.int64):
    a = torch.tensor([8, torch.iinfo(dtype).min, -9]).to(dtype)
    name = str(dtype).removeprefix("torch.")
    divide = ingot.load(sys.argv[1].replace("TYPE", name))
    assert divide(a, torch.tensor([-1, 2, -2]).to(dtype))["Div_1_0"].tolist() == [-8, torch.iinfo(dtype).min // 2, 4]
    try:
        divide(a, torch.tensor([3, -1, 3]).to(dtype))
        raise AssertionError("answered")
    except ingot.errors.Error as error:
        assert "smallest integer divided by -1" in str(error), error
print("alive")
"""


def test_the_smallest_integer_by_minus_one_is_an_error(tmp_path):
    """The processor has a trap for it, which would end whoever serves."""
    for dtype in (torch.int32, torch.int64):
        model = Model()
        model.output(model.node("Div", model.input("a", "n", dtype=dtype), model.input("b", "n", dtype=dtype)))
        done = run(model.save(tmp_path / "model.onnx"), "-o", tmp_path / f"{str(dtype).removeprefix('torch.')}.ingot")
        assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, "-c", DIVISION, str(tmp_path / "TYPE.ingot")], capture_output=True, text=True)
    assert done.stdout == "alive\n", (done.returncode, done.stderr)


def test_constants_that_have_no_quotient_are_refused(tmp_path):
    model = Model()
    least = model.constant("a", torch.tensor([-(2**63)]))
    model.output(model.node("Add", model.input("x", 1, dtype=torch.int64), model.node("Div", least, model.constant("b", torch.tensor([-1])))))
    assert "smallest integer divided by -1" in refusal(model, tmp_path)


# -- movements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start, end, step, wanted", ((-9, -(2**63) + 1, -1, [0]), (-9, -8, -1, [0]), (-9, -9, -2, [0]), (9, -9, -2, [3, 1]), (-1, 0, -1, [3, 2, 1]),
                                                      (-9, 9, 2, [0, 2]), (2**31 - 1, -(2**31), -1, [3, 2, 1, 0])))
@pytest.mark.parametrize("size", (4, "n"), ids=("fixed", "open"))
def test_slices_from_before_the_first(tmp_path, start, end, step, wanted, size):
    """Backwards, a start is clamped to the first element, an end to before it."""
    model = Model()
    model.input("x", size)
    model.output(model.node("Slice", "x", *(model.ints(v) for v in (start, end, 0, step))))
    _, loaded = compiled(model, tmp_path)
    assert list(loaded(torch.arange(4.0)).values())[0].tolist() == wanted


# -- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", (1, 2))
@pytest.mark.parametrize("opset", (13, 22))
def test_a_row_of_zeros_stays_one(tmp_path, p, opset):
    x = torch.tensor([[0.0, 0, 0], [3, 0, -4], [NAN, 0, 1]])
    same(answer(tmp_path, "LpNormalization", [x], opset=opset, p=p), torch.stack([x[0], x[1] / x[1].norm(p), torch.full((3,), NAN)]))


# -- memory -----------------------------------------------------------------------------------------------------------


def constant_outputs():
    """Outputs that are constants, made early and late, and twice."""
    model = Model()
    model.input("x", 2, 3)
    shape = model.node("Shape", "x")
    least, truth = model.node("Min", shape, model.ints(1)), model.node("Greater", shape, model.ints(2))
    made = model.node("Constant", value=torch.tensor([5.0, 6]))
    folded = model.node("Add", model.constant("k", torch.tensor([1.0, 2])), model.constant("l", torch.tensor([1.0, 2])))
    again, view = model.node("Identity", least), model.node("Transpose", model.constant("w", torch.randn(2, 2)), perm=[1, 0])
    same_view, of_x = model.node("Identity", view), model.node("Reshape", "x", model.ints(3, 2))
    branch = [Model(), Model()]
    for part, name in zip(branch, ("Neg", "Abs")):
        part.output(part.node(name, least))
    chosen = model.node("If", model.node("Constant", value=torch.tensor(True)), then_branch=branch[0], else_branch=branch[1])
    model.output(shape, least, truth, made, folded, again, view, same_view, of_x, chosen, "k")
    return model


def test_no_output_shares_memory(tmp_path):
    """With the file, with what was given, or with another: what a caller writes into a result is nobody else's."""
    _, loaded = compiled(constant_outputs(), tmp_path)
    x = torch.randn(2, 3)
    kept, first = x.clone(), loaded(x)
    wanted = [t.clone() for t in first.values()]
    for i, (name, result) in enumerate(first.items()):
        others = [t.clone() for t in first.values()]
        result.fill_(7)
        for j, (other, before) in enumerate(zip(first.values(), others)):
            assert j == i or torch.equal(other, before), (name, j)
    assert torch.equal(x, kept)
    for result, value in zip(loaded(x).values(), wanted):
        assert torch.equal(result, value)


def test_constant_outputs_of_open_sizes(tmp_path):
    """Constant in each run, but not the same at all sizes."""
    model = Model()
    model.input("x", "a", "b")
    model.output(model.node("Min", model.node("Shape", "x"), model.ints(1)), model.node("Sub", model.node("Size", "x"), model.node("Size", "x")))
    _, loaded = compiled(model, tmp_path)
    for sizes in ((2, 3), (1, 5), (8, 11)):
        assert [v.tolist() for v in loaded(torch.zeros(sizes)).values()] == [[1, 1], 0]


def test_parts_that_are_empty_at_some_sizes(tmp_path):
    model = Model()
    x = model.input("x", "n", 4)
    half = model.node("Div", model.node("Slice", model.node("Shape", x), model.ints(0), model.ints(1)), model.ints(2))
    rest = model.node("Sub", model.node("Slice", model.node("Shape", x), model.ints(0), model.ints(1)), half)
    model.output(*model.node("Split", x, model.node("Concat", half, rest, axis=0), outputs=2, axis=0))
    _, loaded = compiled(model, tmp_path)
    for n in (1, 2, 5, 13):
        x = torch.randn(n, 4)
        for found, wanted in zip(loaded(x).values(), (x[: n // 2], x[n // 2:])):
            assert torch.equal(found, wanted)


def branching(yes, no):
    model, graphs = Model(), (Model(), Model())
    model.input("x", 1)
    for graph, k in zip(graphs, (yes, no)):
        graph.output(graph.node("Div", "x", graph.constant("k", k)))
    above = model.node("Greater", model.node("ReduceSum", "x", keepdims=0), model.constant("zero", torch.tensor(0.0)))
    model.output(model.node("If", above, then_branch=graphs[0], else_branch=graphs[1]))
    return model


@pytest.mark.parametrize("yes, no", ((0.0, -0.0), (2.0, 2.0), (2.0, 4.0), (NAN, NAN)))
def test_constants_of_one_name_are_told_apart_by_bits(tmp_path, yes, no):
    _, loaded = compiled(branching(torch.tensor([yes]), torch.tensor([no])), tmp_path)
    for x, k in ((1.0, yes), (-1.0, no)):
        same(list(loaded(torch.tensor([x])).values())[0], torch.tensor([x]) / torch.tensor([k]))


# -- resizing ---------------------------------------------------------------------------------------------------------


def resized(tmp_path, x, scales=None, sizes=None, **attributes):
    given = [x, None, torch.tensor(scales)] if scales else [x, None, None, torch.tensor(sizes)]
    return answer(tmp_path, "Resize", given, (2, 3), **attributes)


def test_a_dim_whose_size_stays_is_resized(tmp_path):
    x = (torch.arange(1.0, 5) ** 2).reshape(1, 1, 2, 2)
    half = torch.tensor([7.153846, 10.192308, 13.230769, 13.230769])
    same(resized(tmp_path, x, [1.0, 1.0, 1.3, 2.0], mode="linear", coordinate_transformation_mode="asymmetric")[0, 0, 1], half)
    same(resized(tmp_path, torch.tensor([[1.0, 10]]), [1.0, 1.3], mode="linear"), [[1, 6.8846154]])


@pytest.mark.parametrize("factor", (0.7, 0.9, 1.4, 2.3, 0.35, 0.29, 1 / 3, 5 / 6, 1.25, 2.0))
@pytest.mark.parametrize("mode, attributes", (("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
                                              ("bilinear", {"coordinate_transformation_mode": "half_pixel"}),
                                              ("bilinear", {"coordinate_transformation_mode": "align_corners"})), ids=("nearest", "linear", "corners"))
@pytest.mark.parametrize("size", (None, "n"), ids=("fixed", "open"))
def test_factors_are_those_of_pytorch(tmp_path, factor, mode, attributes, size):
    """As its exporters write torch.nn.functional.interpolate: sizes are rounded down from the factor that was written, which an f32 only is near to."""
    if size and factor * 4 % 1:
        pytest.skip("sizes that no integers say are fixed")
    model = Model()
    model.input("x", 1, 2, size or 10, size or 10)
    model.output(model.node("Resize", "x", "", model.constant("scales", torch.tensor([1.0, 1.0, factor, factor])), mode=mode.removeprefix("bi"), **attributes))
    _, loaded = compiled(model, tmp_path)
    for n in (10, 6, 20, 100) if size else (10,):
        x = torch.randn(1, 2, n, n)
        corners = {} if mode == "nearest" else {"align_corners": "align" in attributes["coordinate_transformation_mode"]}
        same(list(loaded(x).values())[0], F.interpolate(x, scale_factor=factor, mode=mode, **corners))


# -- transposed convolutions ------------------------------------------------------------------------------------------


def test_zeros_that_a_transposed_convolution_lacks_come_to_both_sides(tmp_path):
    x, w = torch.tensor([[[1.0, 2]]]), torch.ones(1, 1, 1)
    same(answer(tmp_path, "ConvTranspose", [x, w], opset=13, strides=[3], auto_pad="SAME_UPPER"), [[[0.0, 1, 0, 0, 2, 0]]])


# -- levels -----------------------------------------------------------------------------------------------------------


def test_divisions_are_as_precise_as_a_node_says(tmp_path):
    x, scale = torch.tensor([2049.0 * 0.099976, 12.503]), torch.tensor(0.099976, dtype=torch.float16)
    found = answer(tmp_path, "QuantizeLinear", [x, scale], (1,), 23, precision=1, output_dtype=5)
    assert found.tolist() == (x / scale.float()).round().tolist()


@pytest.mark.parametrize("scale", (torch.float16, torch.float32))
def test_levels_of_16_bits_are_not_those_of_their_scale(tmp_path, scale):
    """float16 holds neither every level nor 32767, which would become -32768."""
    one, zero = torch.tensor(1.0).to(scale), torch.tensor(3001, dtype=torch.int16)
    x = torch.tensor([100.0, -100.0, 33024.0, -36096.0, 0.5, 1.5]).to(scale)
    found = answer(tmp_path, "QuantizeLinear", [x, one, zero], (1, 2), 21)
    assert found.tolist() == [3101, 2901, 32767, -32768, 3001, 3003]
    levels = torch.tensor([3001, 3000, 2999, 32767, -32768], dtype=torch.int16)
    found = answer(tmp_path, "DequantizeLinear", [levels, torch.tensor(0.5).to(scale), torch.tensor(3000, dtype=torch.int16)], (1, 2), 21)
    same(found, ((levels.int() - 3000) * 0.5).to(scale))
    sums = torch.tensor([100_000, -3], dtype=torch.int32)  # what a product of levels is, with a bias
    same(answer(tmp_path, "DequantizeLinear", [sums, torch.tensor(0.125).to(scale)], (1,), 21), (sums * 0.125).to(scale))


def test_what_ends_as_no_number_is_refused_by_name(tmp_path):
    model = Model()
    model.input("a", 2, 2, dtype=torch.int32)
    model.output(model.node("Gemm", "a", "a", alpha=0.5))
    assert "integers times 0.5" in refusal(model, tmp_path)


# -- integers that are followed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", (8, "n"), ids=("fixed", "open"))
def test_integers_of_32_bits_wrap_around(tmp_path, size):
    model = Model()
    model.input("x", size)
    narrow = model.node("Cast", model.node("Shape", "x"), to=6)
    product = model.node("Mul", narrow, model.constant("k", torch.tensor([1 << 29], dtype=torch.int32)))
    model.output(product, model.node("Greater", product, model.constant("five", torch.tensor([5], dtype=torch.int32))))
    _, loaded = compiled(model, tmp_path)
    for n in (8,) if size == 8 else (5, 8, 11):
        wrapped = (n << 29) - ((n << 29) + 2**31 >> 32 << 32)
        assert [v.tolist() for v in loaded(torch.zeros(n)).values()] == [[wrapped], [wrapped > 5]]


def test_remainders_have_the_sign_of_the_divisor(tmp_path):
    model = Model()
    model.input("x", "n")
    shape = model.node("Shape", "x")
    model.output(model.node("Mod", shape, model.ints(-3)), model.node("Mod", model.node("Neg", shape), model.ints(3)))
    _, loaded = compiled(model, tmp_path)
    for n in (4, 7, 9):
        assert [v.tolist() for v in loaded(torch.zeros(n)).values()] == [[n % -3], [-n % 3]]


# -- what a file says otherwise than the operators here ----------------------------------------------------------------


@pytest.mark.parametrize("op, since", (("OneHot", 9), ("OneHot", 10), ("ConvTranspose", 10)))
def test_older_texts_that_mean_something_else_are_refused(tmp_path, op, since):
    model = Model(since)
    if op == "OneHot":  # an index below 0 was none
        model.input("x", 3, dtype=torch.int64)
        model.output(model.node(op, "x", model.ints(4), model.constant("v", torch.tensor([0.0, 1.0]))))
    else:  # the odd one of a padding came to the other side
        model.input("x", 1, 1, 4)
        model.output(model.node(op, "x", model.constant("w", torch.ones(1, 1, 3)), output_shape=[8], strides=[2]))
    assert "opset" in refusal(model, tmp_path)


@pytest.mark.parametrize("domain, op", (("com.microsoft", "Gelu"), ("", "Relu")))
def test_functions_that_are_called_as_operators_are_refused(tmp_path, domain, op):
    model = Model()
    model.input("x", 3)
    model.output(model.node(op, "x", domain=domain))
    compiled(model, tmp_path)
    (tmp_path / "model.ingot").unlink()
    model.function(domain, op)
    assert "a function of the model itself" in refusal(model, tmp_path)


@pytest.mark.parametrize("sizes", ((3, 2, 4), (1, 2, 4), (2, 1, 4), (2, 2, 3), ("n", 2, 4)), ids=str)
def test_states_of_other_sizes_are_refused(tmp_path, sizes):
    """PyTorch's layers read beyond a state that is smaller."""
    model = Model()
    model.input("x", 5, 2, 3)
    model.input("h", *sizes)
    model.input("c", 2, 2, 4)
    weights = [model.constant("w", torch.randn(2, 16, 3)), model.constant("r", torch.randn(2, 16, 4))]
    model.output(model.node("LSTM", "x", *weights, "", "", "h", "c", hidden_size=4, direction="bidirectional"))
    said = refusal(model, tmp_path)
    assert ("a state of other sizes" in said or "is open in the model, but fixed by its nodes" in said) and "internal" not in said, said


def test_a_bound_that_is_a_list_of_one_gives_no_dim(tmp_path):
    found = answer(tmp_path, "Clip", [torch.tensor(3.0), torch.tensor([0.0]), torch.tensor([1.0])], (1, 2))
    assert found.shape == () and found == 1


# -- positions that are data ------------------------------------------------------------------------------------------


def serves(model, folder):
    return compiled(model, folder)[1]


@pytest.mark.parametrize("reduction", ("none", "add", "mul", "max", "min"))
def test_each_position_is_held_against_its_own_dim(tmp_path, reduction):
    """Two positions make one number of a row, and one that is too large may be a row of the next."""
    model = Model(18)
    model.input("x", "rows", 4)
    model.input("at", "n", 2, dtype=torch.int64)
    model.input("new", "n")
    model.output(model.node("ScatterND", "x", "at", "new", reduction=reduction))
    loaded = serves(model, tmp_path)
    x, new = torch.arange(12.0).view(3, 4) - 5, torch.tensor([7.0, -2.0])
    how = {"none": lambda a, b: b, "add": torch.add, "mul": torch.mul, "max": torch.maximum, "min": torch.minimum}[reduction]
    want = x.clone()
    want[1, 2], want[2, 0] = how(x[1, 2], new[0]), how(x[2, 0], new[1])
    for at in ([[1, 2], [2, 0]], [[-2, -2], [-1, -4]]):
        same(loaded(x, torch.tensor(at), new)["ScatterND_1_0"], want)
    for at in ([0, 5], [0, 4], [-4, 4], [1, -5], [3, -4], [-4, 0], [0, 2**40]):
        for bad in ([at, [0, 0]], [[0, 0], at]):
            with pytest.raises(ingot.Invalid, match=OUTSIDE):
                loaded(x, torch.tensor(bad), new)


@pytest.mark.parametrize("op, bad", (("Gather", 4), ("Gather", -5), ("GatherElements", 4), ("GatherElements", -5), ("GatherND", 4), ("GatherND", -5),
                                     ("ScatterElements", 4), ("ScatterElements", -5), ("ScatterElements max", 4), ("ScatterElements max", -5)))
def test_positions_of_one_dim(tmp_path, op, bad):
    op, *reduction = op.split()
    model = Model(18)
    model.input("x", 4, dtype=torch.float32)
    model.input("at", "n", *([1] if op == "GatherND" else []), dtype=torch.int64)
    more = [model.input("new", "n")] if "Scatter" in op else []
    model.output(model.node(op, "x", "at", *more, **({"reduction": reduction[0]} if reduction else {})))
    loaded = serves(model, tmp_path)
    for at, fine in (([0, 3, -4], True), ([0, bad, 1], False)):
        at = torch.tensor(at).view(3, -1) if op == "GatherND" else torch.tensor(at)
        if fine:
            loaded(torch.randn(4), at, *[torch.randn(3)] * len(more))
            continue
        with pytest.raises(ingot.Invalid, match=OUTSIDE):
            loaded(torch.randn(4), at, *[torch.randn(3)] * len(more))


@pytest.mark.parametrize("op, sizes", (("ScatterND", (1, 4)), ("ScatterND", (1,)), ("ScatterElements", (2, 4))))
def test_updates_do_not_spread(tmp_path, op, sizes):
    model = Model(18)
    model.input("x", 3, 4)
    model.input("at", 2, 1, dtype=torch.int64)
    model.input("new", *sizes)
    model.output(model.node(op, "x", "at", "new"))
    assert f"({op}, opset 18): " in (why := refusal(model, tmp_path)) and "updates" in why


@pytest.mark.parametrize("op", ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"))
@pytest.mark.parametrize("ignored", (None, -100, 1))
def test_no_label_is_ignored_that_is_not_named(tmp_path, op, ignored):
    model = Model(13)
    model.input("x", 3, 3)
    model.input("label", 3, dtype=torch.int64)
    model.output(model.node(op, "x", "label", reduction="none", **({} if ignored is None else {"ignore_index": ignored})))
    loaded = serves(model, tmp_path)
    x = torch.randn(3, 3)
    logs = x if op.startswith("N") else x.log_softmax(1)
    same(loaded(x, torch.tensor([0, 1, 2]))[f"{op}_1_0"], F.nll_loss(logs, torch.tensor([0, 1, 2]), reduction="none", ignore_index=-100 if ignored is None else ignored))
    for label in (-100, -1, 3):
        if label == ignored:
            loaded(x, torch.tensor([0, label, 2]))
            continue
        with pytest.raises(ingot.Invalid, match=OUTSIDE):
            loaded(x, torch.tensor([0, label, 2]))


def test_lengths_below_zero_are_none(tmp_path):
    model = Model(17)
    for name in "qkv":
        model.input(name, "batch", "tokens", 8)
    model.input("lengths", "batch", dtype=torch.int32)
    model.output(model.node("MultiHeadAttention", "q", "k", "v", "", "lengths", domain="com.microsoft", num_heads=2))
    loaded = serves(model, tmp_path)
    q, k, v = (torch.randn(2, 3, 8) for _ in range(3))
    whole = loaded(q, k, v, torch.tensor([3, 2], dtype=torch.int32))["MultiHeadAttention_1_0"]
    same(loaded(q, k, v, torch.tensor([9, 2], dtype=torch.int32))["MultiHeadAttention_1_0"], whole)  # More than there are is all of them.
    with pytest.raises(ingot.Invalid, match=OUTSIDE):
        loaded(q, k, v, torch.tensor([3, -1], dtype=torch.int32))


# -- what a text takes where PyTorch's operator takes more ------------------------------------------------------------


def refused(tmp_path, op, inputs, words, opset=18, outputs=1, constants=(), domain="", **attributes):
    model, names = Model(opset), []
    for i, value in enumerate(inputs):
        names.append(model.constant(f"c{i}", value) if i in constants else model.input(f"x{i}", *value.shape, dtype=value.dtype))
    made = model.node(op, *names, outputs=outputs, domain=domain, **attributes)
    model.output(*([made] if outputs == 1 else made))
    why = refusal(model, tmp_path)
    assert f"({op}" in why and words in why, why


def integers(*values):
    return torch.tensor(values)


def test_fewer_than_none_are_not_the_largest(tmp_path):
    refused(tmp_path, "TopK", [torch.randn(3, 4), integers(-1)], "the -1 largest of 4", outputs=2, constants=(1,))


@pytest.mark.parametrize("sizes", ((3, 1), (3, 2), (1, 1, 2)))
def test_what_is_added_to_a_product_has_no_other_rows(tmp_path, sizes):
    refused(tmp_path, "Gemm", [torch.randn(1, 4), torch.randn(4, 2), torch.randn(sizes)], "do not spread over [1, 2]")


@pytest.mark.parametrize("op, opset", (("LayerNormalization", 17), ("RMSNormalization", 23)))
def test_scales_of_a_norm_make_no_rows(tmp_path, op, opset):
    refused(tmp_path, op, [torch.randn(1, 4), torch.randn(3, 4)], "scale of sizes [3, 4]", opset=opset)


@pytest.mark.parametrize("values", ([0.0, 1.0, 2.0], [1.0], [[0.0, 1.0]]))
def test_classes_are_on_or_off(tmp_path, values):
    refused(tmp_path, "OneHot", [integers(0, 1), torch.tensor(3), torch.tensor(values)], "instead of two", constants=(1,))


@pytest.mark.parametrize("mode, pads, fine", (("constant", (0, -4, 0, 0), True), ("constant", (0, -3, 0, -2), False), ("reflect", (0, -5, 0, 5), False),
                                              ("edge", (-3, 0, 1, 0), False), ("wrap", (0, 0, 0, -4), False), ("edge", (-2, 0, 1, 0), True)))
def test_pads_that_cut_more_than_there_is(tmp_path, mode, pads, fine):
    x = torch.randn(3, 4)
    if fine:
        found = answer(tmp_path, "Pad", [x, integers(*pads)], constants=(1,), opset=19, mode=mode)
        same(found, x[:, :0] if mode == "constant" else x[[2, 2]])
    else:
        refused(tmp_path, "Pad", [x, integers(*pads)], "cut more than the", constants=(1,), opset=19, mode=mode)


@pytest.mark.parametrize("op, sizes", (("BiasGelu", (3, 4)), ("BiasGelu", (1,)), ("FastGelu", (1, 4)), ("BiasSplitGelu", (1,))))
def test_a_bias_is_a_row(tmp_path, op, sizes):
    refused(tmp_path, op, [torch.randn(1, 4), torch.randn(sizes)], "a bias of sizes", domain="com.microsoft")


def test_what_is_skipped_makes_no_rows(tmp_path):
    refused(tmp_path, "SkipLayerNormalization", [torch.randn(1, 3, 4), torch.randn(2, 3, 4), torch.randn(4)], "skip of sizes [2, 3, 4]", domain="com.microsoft")


@pytest.mark.parametrize("sizes", ((1, 3), (2, 1, 3), (2, 4), (2, 3, 4)))
def test_masks_are_of_all_rows_and_keys(tmp_path, sizes):
    model = Model(17)
    for name in "qkv":
        model.input(name, 2, 3, 8)
    model.input("mask", *sizes, dtype=torch.int32)
    model.output(model.node("MultiHeadAttention", "q", "k", "v", "", "mask", domain="com.microsoft", num_heads=2))
    assert "a mask of sizes [" in (why := refusal(model, tmp_path)) and "MultiHeadAttention" in why


@pytest.mark.parametrize("op, inputs", (("Add", (torch.float32, torch.int64)), ("Concat", (torch.float32, torch.float32, torch.int64)), ("Clip", (torch.float32, torch.float64)),
                                        ("MatMul", (torch.float32, torch.float64)), ("Equal", (torch.int32, torch.int64))))
def test_operands_are_of_one_type(tmp_path, op, inputs):
    attributes = {"axis": 0} if op == "Concat" else {}
    refused(tmp_path, op, [torch.ones(3, 3, dtype=dtype) for dtype in inputs], f"inputs 0 and {len(inputs) - 1} are", **attributes)


def test_a_graph_within_hides_no_name_of_another(tmp_path):
    """Runtimes take either: the format has such a name once."""
    model = Model(18)
    model.input("x", 2)
    model.input("choice", dtype=torch.bool)
    model.constant("c", torch.tensor([3.0, 3.0]))
    yes, no = Model(), Model()
    yes.constant("c", torch.tensor([11.0, 11.0]))
    yes.output(yes.node("Mul", "x", "c"))
    no.output(no.node("Neg", "x"))
    model.output(model.node("Add", "c", model.node("If", "choice", then_branch=yes, else_branch=no)))
    assert "initializer 'c'" in (why := refusal(model, tmp_path)) and "around it" in why


@pytest.mark.parametrize("version, fine", ((1, True), (2, False), (-1, False)))
def test_versions_of_com_microsoft(tmp_path, version, fine):
    model = Model(17)
    model.input("x", 2, 4)
    model.output(model.node("QuickGelu", "x", domain="com.microsoft"))
    model.rest += block(8, block(1, "com.microsoft") + varint(2, version))
    if fine:
        serves(model, tmp_path)
    else:
        assert f"opset {version} of com.microsoft; 1 is known" in refusal(model, tmp_path)


@pytest.mark.parametrize("op, slope", (("HardSigmoid", 0.2), ("LeakyRelu", 0.01)))
def test_attributes_that_a_model_leaves_out_are_of_single_precision(tmp_path, op, slope):
    """As those that it has: elements of double precision tell them apart."""
    x, alpha = torch.tensor([-1.0, -0.75, 0.5], dtype=torch.float64), torch.tensor(slope).double()
    wanted = (alpha * x + 0.5).clamp(0, 1) if op == "HardSigmoid" else torch.where(x < 0, alpha * x, x)
    torch.testing.assert_close(answer(tmp_path, op, (x,)), wanted, rtol=1e-12, atol=0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(wanted, (slope * x + 0.5).clamp(0, 1) if op == "HardSigmoid" else torch.where(x < 0, slope * x, x), rtol=1e-12, atol=0)
