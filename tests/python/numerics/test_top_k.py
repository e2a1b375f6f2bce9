# SPDX-License-Identifier: Apache-2.0
"""topk of few out of many: values, positions and their order are eager's, whoever computes them."""

import pytest
import torch

NAN, INF = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def rows(kind, sizes, dtype):
    torch.manual_seed(len(kind))
    x = torch.randn(sizes)
    if kind == "equal":
        x = x.round()
    if kind == "one value":
        x.zero_()
    if kind == "special":
        specials = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1e-45])
        x = torch.where(torch.rand(sizes) < 0.02, specials[torch.randint(6, sizes)], x)
    if kind == "rising":
        x = torch.arange(x.numel(), dtype=torch.float32).reshape(sizes)
    return x.to(dtype)


def check(ingot, function, *args, rtol=0):
    step = ingot.compile(function, wait=True)
    want = function(*args)
    step(*args)
    before = ingot.stats()["native_calls"]
    got = step(*args)
    assert ingot.stats()["native_calls"] == before + 1, step.report()
    for mine, eager in zip(got, want, strict=True):
        torch.testing.assert_close(mine, eager, rtol=rtol, atol=0, equal_nan=True)
        assert mine.dtype == eager.dtype and mine.stride() == eager.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("kind", ["plain", "equal", "one value", "special", "rising"])
def test_topk_is_eagers(ingot, dtype, kind):
    if dtype == torch.int64 and kind == "special":
        pytest.skip("integers have no special values")
    x = rows(kind, (5, 3300), dtype)
    for k, largest in ((1, True), (50, True), (51, False), (52, True), (3300, True)):
        check(ingot, lambda x, k=k, largest=largest: torch.topk(x, k, largest=largest), x)


def test_topk_of_other_layouts_is_eagers(ingot):
    x = rows("equal", (4, 2000), torch.float32)
    check(ingot, lambda x: x.topk(3), x[0])
    check(ingot, lambda x: x.topk(3, -1), x.t().contiguous().t())
    check(ingot, lambda x: x.topk(3, 0), x.t().contiguous())
    check(ingot, lambda x: x.topk(3, 1, sorted=False), x)
    check(ingot, lambda x: x.reshape(2, 2, 2000).topk(30), x)
    check(ingot, lambda x: x[:, :0].topk(0), x)


def test_what_is_sampled_from_is_eagers(ingot):
    """The last step of a generation: the best k stay, and of these the smallest share of p."""

    def function(scores):
        least = scores.topk(40)[0][..., -1, None]
        scores = scores.masked_fill(scores < least, -INF)
        ordered, order = scores.sort(descending=False)
        share = ordered.softmax(-1).cumsum(-1)
        remove = share <= 0.1
        remove[..., -1:] = 0
        scores = scores.masked_fill(remove.scatter(1, order, remove), -INF)
        return scores, scores.softmax(-1), scores.argmax(-1)

    check(ingot, function, torch.randn(2, 5000, generator=torch.Generator().manual_seed(3)), rtol=1e-6)
