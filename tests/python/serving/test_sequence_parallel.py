# SPDX-License-Identifier: Apache-2.0
"""Config.sequence_parallel over real processes: rows behind sums over ranks are shared among those, who agree on each call."""

import pytest

from test_ranks import HEAD, run, total

NAMES = '"all_reduce", "all_to_all_single", "all_gather_into_tensor", "own_rows"'
LAYERS = HEAD + '''
rank, world = case.join()
pair, other = dist.new_group(list(range(world))), dist.new_group(list(range(world)))
whole, part = case.Layers(None), case.Layers(pair, rank, world)
step = ingot.compile(part, wait=True, dynamic=False, sequence_parallel={option})
x = case.inputs({sizes})
expected, eager = whole(x), part(x)
answers = [step(x) for _ in range(4)]
case.leave(same=all(torch.allclose(a, expected, atol=1e-4) for a in answers), near=float((answers[-1] - eager).abs().max()),
           artifacts=[v["artifact"] for v in step.variants], steps=case.steps_of(step, ''' + NAMES + '''), strides=answers[-1].stride() == eager.stride())
'''


@pytest.mark.parametrize("sizes, world", [("1, 128, 256", 2), ("4, 64, 256", 2), ("1, 192, 256", 4)], ids=["rows of one batch", "whole batches", "four ranks"])
def test_rows_are_shared_behind_sums(store, tmp_path, sizes, world):
    code = LAYERS.format(option="pair", sizes=sizes)
    cold = run(store, tmp_path, code, world)
    assert all(r["same"] and r["strides"] and r["near"] < 1e-4 and r["native_calls"] == 3 for r in cold), cold
    # Each of four sums comes in blocks, and blocks are gathered as often: for three products and the result. The rows of x alone are cut out.
    assert all(r["steps"] == [0, 4, 4, 1] for r in cold), cold
    # Who a rank is, its code does not know.
    assert len({r["artifacts"][0] for r in cold}) == 1 and store.json("stats")["compiles"] == 1
    warm = run(store, tmp_path, code, world)
    assert all(r["same"] and r["native_calls"] == 3 and r["captures"] == 0 for r in warm), warm


@pytest.mark.parametrize("option, sizes", [("False", "1, 128, 256"), ("other", "1, 128, 256"), ("pair", "1, 129, 256"), ("pair", "3, 64, 256"), ("pair", "1, 32, 256")],
                         ids=["not asked for", "another group", "rows left over", "batches left over", "few rows"])
def test_sums_stay_whole(store, tmp_path, option, sizes):
    results = run(store, tmp_path, LAYERS.format(option=option, sizes=sizes))
    assert all(r["same"] and r["native_calls"] == 3 and r["steps"] == [4, 0, 0, 0] for r in results), results


def test_the_option_is_in_the_key(store, tmp_path):
    for option in ("False", "pair", "other"):
        results = run(store, tmp_path, LAYERS.format(option=option, sizes="1, 128, 256"))
        assert total(results, "captures") == 2 and total(results, "entry_hits") == 0, results
    assert len(store.json("list")["entries"]) == 6


ALONE = HEAD + '''
rank, world = case.join()
whole, part = case.Layers(None), case.Layers(dist.group.WORLD, rank, world)
step = ingot.compile(part, wait=True, dynamic=False, sequence_parallel=True)
x = case.inputs(1, 128, 256)
same = []
for call in range(10):
    with torch.set_grad_enabled(rank == 1 and 4 <= call < 7):  # Native code has no gradients.
        same.append(torch.allclose(step(x), whole(x), atol=1e-4))
case.leave(same=all(same), dissent=ingot.stats().get("dissenting_calls", 0))
'''


def test_what_one_rank_cannot_serve_none_serves(store, tmp_path):
    one, other = run(store, tmp_path, ALONE)
    assert one["same"] and other["same"], (one, other)
    assert (one["native_calls"], other["native_calls"], one["dissent"], other["dissent"]) == (6, 6, 3, 0), (one, other)
    assert total([one, other], "failures") == 0


NESTED = HEAD + '''
rank, world = case.join()
part = case.Layers(dist.group.WORLD, rank, world, layers=1)
inner = ingot.compile(part, wait=True, dynamic=False, sequence_parallel=True)
outer = ingot.compile(lambda x: inner(x) * 2, wait=rank == 0, dynamic=False)
x = case.inputs(1, 128, 256)
expected = part(x) * 2
same = [torch.allclose(outer(x), expected, atol=1e-4) for _ in range(4)]
again = [torch.allclose(inner(x) * 2, expected, atol=1e-4) for _ in range(3)]
case.leave(same=all(same + again), dissent=ingot.stats().get("dissenting_calls", 0))
'''


def test_the_outermost_call_speaks_for_its_rank(store, tmp_path):
    results = run(store, tmp_path, NESTED)
    assert all(r["same"] and r["dissent"] == 0 for r in results), results


WRONG = HEAD + '''
said = []
def refused(**options):
    try:
        ingot.compile(lambda x: torch.relu(x), **options)
    except ingot.Invalid as e:
        return str(e)
    return "nothing"
early = refused(sequence_parallel=True)
rank, world = case.join()
alone = [dist.new_group([0]), dist.new_group([1])]
gone = dist.new_group([0, 1])
dist.destroy_process_group(gone)
case.leave(early=early, kind=refused(sequence_parallel="tp"), number=refused(sequence_parallel=2), not_in=refused(sequence_parallel=alone[1 - rank]),
           gone=refused(sequence_parallel=gone), export=refused(sequence_parallel=True, capture="export"), of_one=refused(sequence_parallel=alone[rank]))
'''


def test_options_that_mean_nothing_are_refused(store, tmp_path):
    for said in run(store, tmp_path, WRONG):
        assert "call init_process_group before" in said["early"]
        assert "sequence_parallel is str: expected" in said["kind"] and "sequence_parallel is int: expected" in said["number"]
        assert "not in, or that is destroyed" in said["not_in"] and "not in, or that is destroyed" in said["gone"]
        assert "capture='export'" in said["export"] and said["of_one"] == "nothing"
