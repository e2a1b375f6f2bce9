# SPDX-License-Identifier: Apache-2.0
"""Several ranks of one job: real processes over gloo, each with its own entry, artifacts shared."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).resolve().parent
HEAD = f'''
import sys
sys.path[:0] = [{str(HERE)!r}, {str(HERE)!r}.rpartition("/")[0]]
import ranks_case as case
import torch, torch.distributed as dist, ingot
import torch.distributed._functional_collectives as funcol
torch.set_grad_enabled(False)
'''

SPLIT = HEAD + '''
rank, world = case.join(extra_groups={extra})
tensor_parallel = {group}
whole, part = case.{model}(None), case.{model}(tensor_parallel, rank, world)
step = ingot.compile(part, wait=True, tp_rank=rank)
groups = case.group_count()
x = case.inputs({sizes})
expected = whole(x)
answers = [step(x) for _ in range(3)]
case.leave(same=all(torch.allclose(a, expected, atol=1e-5) for a in answers), name=getattr(tensor_parallel, "group_name", ""),
           artifacts=[v["artifact"] for v in step.variants], made=case.group_count() - groups,
           native=step.variants[0]["native_steps"] if step.variants else 0, report=step.report(), why=step.why_miss(), soundness=step.soundness())
'''


def run(store, tmp_path, code: str, world: int = 2, **env: str):
    """One result a rank; all start at once."""
    meeting = tmp_path / f"meeting{len(list(tmp_path.iterdir()))}"
    started = [store.start(code, CASE_RANK=str(rank), CASE_WORLD=str(world), CASE_FILE=str(meeting), OMP_NUM_THREADS="1", **env)
               for rank in range(world)]
    return [store.finish(process) for process in started]


def total(results, name: str) -> int:
    return sum(result.get(name, 0) for result in results)


GROUP = "dist.new_group(list(range(world)))"
MESH = 'dist.device_mesh.init_device_mesh("cpu", (1, world), mesh_dim_names=("dp", "tp"))["tp"]'


@pytest.mark.parametrize("model, sizes, group", [("MLP", "4, 16", GROUP), ("Attention", "2, 6, 32", MESH)], ids=["mlp", "attention"])
def test_a_split_block_is_compiled_once_and_found_again(store, tmp_path, model, sizes, group):
    cold = run(store, tmp_path, SPLIT.format(extra=0, model=model, sizes=sizes, group=group))
    assert all(r["same"] and r["native_calls"] == 2 and r["native"] > 0 for r in cold), cold
    assert (total(cold, "captures"), total(cold, "compiles"), store.json("stats")["compiles"]) == (2, 1, 1)
    assert total(cold, "joins") + total(cold, "graph_hits") == 1
    assert not any("assumed" in r["soundness"] for r in cold), cold[0]["soundness"]
    assert cold[0]["artifacts"] == cold[1]["artifacts"] and len(cold[0]["artifacts"]) == 1
    warm = run(store, tmp_path, SPLIT.format(extra=2, model=model, sizes=sizes, group=group))
    assert all(r["same"] and r["native_calls"] == 3 and r["entry_hits"] == 1 for r in warm), warm
    assert (total(warm, "captures"), total(warm, "compiles")) == (0, 0)
    if group == GROUP:
        assert {r["name"] for r in warm} != {r["name"] for r in cold}
    assert [r["artifacts"] for r in warm] == [r["artifacts"] for r in cold]
    assert total(cold + warm, "made") == 0
    entries = store.json("list")["entries"]
    assert sorted(e["rank"] for e in entries) == [f"world_size=2 global_rank={r} tp_rank={r}" for r in (0, 1)]


def test_one_rank_may_serve_natively_while_another_records(store, tmp_path):
    code = SPLIT.format(extra=0, model="MLP", sizes="4, 16", group=GROUP)
    run(store, tmp_path, code)
    store.cli("evict", next(e["key"] for e in store.json("list")["entries"] if "global_rank=1" in e["rank"]))
    # Verification, which answers a call twice, would take part in a collective twice.
    native, recorded = run(store, tmp_path, code, INGOT_VERIFY="sample:1")
    assert (native["verified"], native["verify_skipped"]) == (0, 3), native
    assert native["same"] and recorded["same"]
    assert (native["captures"], native["native_calls"]) == (0, 3) and native["entry_hits"] == 1
    assert (recorded["captures"], recorded["native_calls"], recorded["graph_hits"]) == (1, 2, 1), recorded


KINDS = HEAD + '''
rank, world = case.join()
pair, alone = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][rank]
ops = torch.ops._c10d_functional
x = case.inputs(4, 8, seed=10 + rank)
name = pair.group_name

def each(x):
    total = funcol.all_reduce(x * 2, "sum", pair)
    parts = funcol.all_gather_tensor(x + 1, 0, pair)
    sums = funcol.reduce_scatter_tensor(torch.cat([x, x * 3]), "sum", 0, pair)
    turned = funcol.all_to_all_single(torch.exp(x), [2, 2], [2, 2], pair)
    said = funcol.broadcast(x - 5, 1, pair)
    return torch.relu(total), parts.t(), sums * 2, turned + said, total.shape

def overlapped(x):
    h = torch.sigmoid(x)
    gathered = ops.all_gather_into_tensor(h, 2, name)
    summed = ops.all_reduce(h, "max", name)
    for _ in range(3):  # What becomes of h must not reach the memory the others still read.
        h = torch.tanh(h + 1) * h
    return ops.wait_tensor(gathered) + 1, torch.exp(ops.wait_tensor(summed)), h

def handed_on(x):
    return funcol.all_reduce(x, "sum", pair), [x + 1]

def coalesced(x):
    a, b = funcol.all_reduce_coalesced([x, x * 2], "sum", pair)
    return a + b

def of_group(x, group):
    return funcol.all_reduce(x, "sum", group) * 2

def guarded(x):
    y = torch.relu(x)
    return funcol.all_reduce(y if bool((y >= 0).all()) else x, "sum", pair) + 1

def size_of_group(x):
    return funcol.all_reduce(x / dist.get_world_size(pair), "sum", pair) + pair.size()

def check(function, *args, calls=3):
    step = ingot.compile(function, wait=True)
    before = ingot.stats()["native_calls"]
    for _ in range(calls):
        expected, found = function(*args), step(*args)
        case.compare(expected, found)
    return ingot.stats()["native_calls"] - before, step

served = {f.__name__: check(f, x)[0] for f in (each, overlapped, handed_on, coalesced, guarded, size_of_group)}
later = ingot.compile(lambda y: torch.tanh(y[0]) + y[1][0], wait=True)
first = ingot.compile(handed_on, wait=True)
for _ in range(3):
    case.compare(torch.tanh(handed_on(x)[0]) + x + 1, later(first(x)))
finished = first(x)[0].wait()
step = check(of_group, x, pair)[1]
for _ in range(2):
    for group in (alone, pair):
        case.compare(of_group(x, group), step(x, group))
named = check(of_group, x, name)[1]
case.compare(of_group(x, alone.group_name), named(x, alone.group_name))
try:
    step.export("never.ingot")
    exported = ""
except ingot.Unsupported as e:
    exported = str(e)
case.leave(exported=exported, served=served, later=later.variants != [], finished=bool(torch.equal(finished, handed_on(x)[0].wait())),
           of_group=[v["groups"] for v in step.variants])
'''


def test_every_functional_collective_runs_as_steps(store, tmp_path):
    results = run(store, tmp_path, KINDS)
    assert all(set(r["served"].values()) == {2} for r in results), results
    assert all(r["later"] and r["finished"] and set(r["of_group"]) == {1} for r in results), results
    assert total(results, "failures") == 0
    assert all("ProcessGroup" in r["exported"] and "only Python could check" in r["exported"] for r in results), results


REFUSED = HEAD + '''
rank, world = case.join()
ops = torch.ops._c10d_functional
x = case.inputs(4, 8, seed=10 + rank)

def in_place(x):
    y = x * 2
    dist.all_reduce(y)
    return y

def point_to_point(x):
    y = torch.empty_like(x)
    dist.send(x, 1) if rank == 0 else dist.recv(y, 0)
    return x + y if rank else x * 2

def dropped(x):
    funcol.all_reduce(x, "sum", dist.group.WORLD)
    return x + 1

def unfinished(x):
    return ops.all_reduce(x, "sum", "0")

def parted(x):
    y = funcol.all_reduce(x, "sum", dist.group.WORLD) + 1
    return y * 2 if bool(y.sum() > rank * 1e9) else y

reasons = {}
for function in (in_place, point_to_point, dropped, unfinished, parted):
    step = ingot.compile(function, wait=True)
    for _ in range(3):
        expected, found = function(x), step(x)
        if function is not unfinished:
            case.compare(expected, found)
        else:
            case.compare(ops.wait_tensor(expected), ops.wait_tensor(found))
    reasons[function.__name__] = step.report()
case.leave(reasons=reasons)
'''


def test_what_cannot_be_replayed_is_refused_by_name(store, tmp_path):
    results = run(store, tmp_path, REFUSED)
    said = {"in_place": "c10d::allreduce_: cannot be replayed", "point_to_point": "c10d::", "dropped": "nothing waits for",
            "unfinished": "nothing waits for", "parted": "could part the ranks"}
    for result in results:
        assert result["native_calls"] == 0
        for name, text in said.items():
            assert text in result["reasons"][name], result["reasons"][name]


READING = HEAD + '''
rank, world = case.join()

def shifted(x):
    return torch.relu(x) + dist.get_rank()

step = ingot.compile(shifted, wait=True)
x = case.inputs(4, 8)
answers = [step(x) for _ in range(3)]
case.leave(same=all(torch.allclose(a, torch.relu(x) + rank) for a in answers), artifacts=[v["artifact"] for v in step.variants])
'''


def test_a_graph_that_reads_the_rank_is_told_apart(store, tmp_path):
    cold = run(store, tmp_path, READING)
    assert all(r["same"] for r in cold) and total(cold, "compiles") == 2, cold
    assert cold[0]["artifacts"] != cold[1]["artifacts"]
    warm = run(store, tmp_path, READING)
    assert all(r["same"] and r["native_calls"] == 3 for r in warm), warm
    assert [r["artifacts"] for r in warm] == [r["artifacts"] for r in cold] and total(warm, "captures") == 0
    first, second = sorted(store.json("list")["entries"], key=lambda entry: entry["rank"])
    answer = store.json("ranks", first["key"])
    assert [r["rank"] for r in answer["ranks"]] == ["world_size=2 global_rank=0", "world_size=2 global_rank=1"]
    assert [r["same_graphs"] for r in answer["ranks"]] == [True, False]
    assert answer["ranks"][0]["artifacts"] == cold[0]["artifacts"] and answer["ranks"][1]["artifacts"] == cold[1]["artifacts"]
    assert "node %1" in answer["ranks"][1]["graph_difference"] and "aten.add" in answer["ranks"][1]["graph_difference"]
    assert answer["ranks"][1]["key_difference"] == ""
    assert answer["ranks"][1]["graph_difference"] in store.cli("ranks", first["key"])


PIPELINE = HEAD + '''
rank, world = case.join()

class Front(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2

class Back(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x + 1, -1)

stage = ingot.compile([Front(), Back()][rank], wait=True, pp_rank=rank)
same = []
for seed in range(4):
    x = case.inputs(4, 8, seed=seed)
    if rank == 0:
        dist.send(stage(x), 1)
        same.append(True)
    else:
        received = torch.empty(4, 8)
        dist.recv(received, 0)
        same.append(torch.allclose(stage(received), Back()(Front()(x)), atol=1e-6))
case.leave(same=same)
'''


def test_stages_of_a_pipeline(store, tmp_path):
    for captures, native in (2, 6), (0, 8):
        results = run(store, tmp_path, PIPELINE)
        assert all(all(r["same"]) for r in results), results
        assert (total(results, "captures"), total(results, "native_calls")) == (captures, native), results
    assert sorted(e["rank"] for e in store.json("list")["entries"]) == [f"world_size=2 global_rank={r} pp_rank={r}" for r in (0, 1)]


SIZES = HEAD + '''
rank, world = case.join()
pair = dist.new_group([0, 1])
part, whole = case.MLP(pair, rank, world), case.MLP(None)
step = ingot.compile(part, wait=True)
same = []
for rows in (4, 6, 8, 4, 6, 8):
    x = case.inputs(rows, 16)
    same.append(torch.allclose(step(x), whole(x), atol=1e-5))
case.leave(same=same, kinds=[v["kind"] for v in step.variants])
'''


def test_one_template_serves_all_sizes_on_all_ranks(store, tmp_path):
    results = run(store, tmp_path, SIZES)
    assert all(all(r["same"]) and r["kinds"] == ["template"] and r["native_calls"] == 3 for r in results), results
    assert store.json("stats")["compiles"] == 2  # the first size, and the template


CHANGED = HEAD + '''
rank, world = case.join()
x = case.inputs(4, 8, seed=10 + rank)

def summed(x, group):
    return funcol.all_reduce(torch.relu(x), "sum", group) + 1

step = ingot.compile(summed, wait=True)
pair = dist.new_group([0, 1])
for _ in range(2):
    case.compare(summed(x, pair), step(x, pair))
served = ingot.stats()["native_calls"]
program = step._engine
held = next(iter(program._entries.values())).variants[0]
dist.destroy_process_group(pair)
gone = held.program.groups_hold()
try:
    from ingot.trace import paths
    held.bind(paths.Roots(summed, [pair]))
    why = "bound"
except ingot.NotFound as e:
    why = str(e)
again = dist.new_group([0, 1])
for _ in range(2):
    case.compare(summed(x, again), step(x, again))
case.leave(served=served, gone=gone, why=why, after=ingot.stats()["native_calls"] - served, captured=ingot.stats()["captures"])
'''


def test_a_group_that_is_gone_is_named_and_its_successor_found(store, tmp_path):
    for result in run(store, tmp_path, CHANGED):
        assert result["served"] == 1 and result["gone"] is False, result
        assert "process group [ranks 0,1 number 2] does not exist" in result["why"] and "[ranks 0,1]" in result["why"]
        assert result["after"] == 2 and result["captured"] == 1, result


STATE = HEAD + '''
rank, world = case.join()
pair, alone = dist.new_group([0, 1]), [dist.new_group([0]), dist.new_group([1])][rank]

class State:
    group = None

state = State()
state.group = {group}

def summed(x):
    return torch.relu(funcol.all_reduce(x, "sum", state.group))

step = ingot.compile(summed, wait=True)
x = case.inputs(4, 8, seed=10 + rank)
for state.group in ({group}, {group}, {other}, {other}, {group}):
    case.compare(summed(x), step(x))
case.leave(why=step.why_miss(), soundness=step.soundness())
'''


def test_a_group_inside_a_global_object_is_a_dependency(store, tmp_path):
    cold = run(store, tmp_path, STATE.format(group="pair", other="pair"))
    assert total(cold, "captures") == 2 and total(cold, "native_calls") == 8, cold
    assert all("process group ranks 0,1 number 2" in r["soundness"] for r in cold), cold
    changed = run(store, tmp_path, STATE.format(group="alone", other="pair"))
    assert total(changed, "compiles") == 0 and total(changed, "dependency_misses") >= 2, changed


NAMED = HEAD + '''
rank, world = case.join()
group = {group}

class Named(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        return torch.relu(funcol.all_reduce(x, "sum", self.name))

part = Named(group.group_name)
step = ingot.compile(part, wait=True)
x = case.inputs(4, 8, seed=10 + rank)
for _ in range(2):
    case.compare(part(x), step(x))
case.leave(name=part.name)
'''


def test_a_name_that_means_another_group_misses(store, tmp_path):
    pair = run(store, tmp_path, NAMED.format(group="dist.new_group([0, 1])"))
    assert total(pair, "captures") == 2 and total(pair, "native_calls") == 2
    # Rank 0 has the name of before, which is now that of a group of its own: to sum over both would never end.
    alone = run(store, tmp_path, NAMED.format(group="[dist.new_group([0]), dist.new_group([1])][rank]"))
    assert alone[0]["name"] == pair[0]["name"]
    assert total(alone, "captures") == 2 and total(alone, "entry_hits") == 0 and total(alone, "native_calls") == 2, alone
    # One graph for groups of whatever ranks.
    assert store.json("stats")["compiles"] == 1


IDENTITIES = HEAD + '''
from ingot.trace import groups
before = groups.live()
rank, world = case.join()
made = [dist.new_group([0]), dist.new_group([0, 1], group_desc="pairs"), dist.new_group([0, 1]), dist.new_group([0, 1])]
found = groups.live()
of_names = [found.get(getattr(group, "group_name", "")) for group in (dist.group.WORLD, *made)]
dist.destroy_process_group(made[2])
case.leave(before=before, found=list(found.values()), of_names=of_names, after=list(groups.live().values()),
           back=groups.names_of(["ranks 0,1 pairs"]) == [made[1].group_name],
           who=[groups.ranks_of_process(d) for d in ({}, {"tp_rank": 1, "pp_rank": None}, {"global_rank": 7})])
'''


def test_identities_say_what_a_group_is(store, tmp_path):
    results = run(store, tmp_path, IDENTITIES)
    pairs = ["ranks 0,1 pairs", "ranks 0,1 number 2", "ranks 0,1 number 3"]
    assert results[0]["found"] == results[0]["of_names"] == ["ranks 0,1", "ranks 0", *pairs]
    assert results[1]["found"] == ["ranks 0,1", *pairs] and results[1]["of_names"] == ["ranks 0,1", None, *pairs]
    assert results[1]["after"] == ["ranks 0,1", *pairs[:2]]
    for rank, result in enumerate(results):
        assert result["before"] == {} and result["back"]
        base = [["world_size", "2"], ["global_rank", str(rank)]]
        assert result["who"] == [base, base + [["tp_rank", "1"]],
                                 [["world_size", "2"], ["process_rank", str(rank)], ["global_rank", "7"]]]
