# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models as protobuf has them on the wire, written without protobuf and without the onnx package."""

import struct

import torch

TYPES = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7, torch.bool: 9, torch.float16: 10, torch.float64: 11,
         torch.float8_e4m3fn: 17, torch.float8_e5m2: 19}


def number(value: int) -> bytes:
    value &= 2**64 - 1
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def varint(field: int, value: int) -> bytes:
    return number(field << 3) + number(value)


def block(field: int, content: "bytes | str") -> bytes:
    content = content.encode() if isinstance(content, str) else content
    return number(field << 3 | 2) + number(len(content)) + content


def tensor(name: str, value: torch.Tensor, external: "dict[str, str] | None" = None) -> bytes:
    head = b"".join(varint(1, size) for size in value.shape) + varint(2, TYPES[value.dtype]) + block(8, name)
    if external is None:
        narrow = value.dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
        return head + block(9, (value.view(torch.uint8) if narrow else value).contiguous().numpy().tobytes())
    return head + varint(14, 1) + b"".join(block(13, block(1, key) + block(2, text)) for key, text in external.items())


def attribute(name: str, value) -> bytes:
    if isinstance(value, bool) or isinstance(value, int):
        return block(1, name) + varint(3, int(value)) + varint(20, 2)
    if isinstance(value, float):
        return block(1, name) + number(2 << 3 | 5) + struct.pack("<f", value) + varint(20, 1)
    if isinstance(value, str):
        return block(1, name) + block(4, value) + varint(20, 3)
    if isinstance(value, Model):
        return block(1, name) + block(6, value.graph) + varint(20, 5)
    if isinstance(value, torch.Tensor):
        return block(1, name) + block(5, tensor("", value)) + varint(20, 4)
    return block(1, name) + b"".join(varint(8, item) for item in value) + varint(20, 7)


class Model:
    """Collects the parts of one model; sizes of inputs are numbers, names, or None."""

    def __init__(self, opset: int = 17) -> None:
        self.opset, self.graph, self.count, self.rest = opset, b"", 0, b""

    def input(self, name: str, *sizes: "int | str | None", dtype: torch.dtype = torch.float32) -> str:
        dims = b"".join(block(1, varint(1, s) if isinstance(s, int) else block(2, s) if s else b"") for s in sizes)
        self.graph += block(11, block(1, name) + block(2, block(1, varint(1, TYPES[dtype]) + block(2, dims))))
        return name

    def constant(self, name: str, value: torch.Tensor, external: "dict[str, str] | None" = None) -> str:
        self.graph += block(5, tensor(name, value, external))
        return name

    def nibbles(self, name: str, value: torch.Tensor) -> str:
        """Elements of 4 bits: those of int8 are signed."""
        flat = value.flatten().to(torch.int64) & 15
        flat = torch.cat([flat, flat.new_zeros(flat.numel() % 2)])
        packed = (flat[::2] | flat[1::2] << 4).to(torch.uint8)
        head = b"".join(varint(1, size) for size in value.shape) + varint(2, 22 if value.dtype == torch.int8 else 21) + block(8, name)
        self.graph += block(5, head + block(9, packed.numpy().tobytes()))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(f"ints_{len(self.graph)}", torch.tensor(values, dtype=torch.int64))

    def node(self, op: str, *inputs: str, outputs: int = 1, left_out: "tuple[int, ...]" = (), domain: str = "", **attributes):
        """The name of its output, or names of several, some of which may be left out."""
        self.count += 1
        names = ["" if i in left_out else f"{op}_{self.count}_{i}" for i in range(outputs)]
        text = b"".join(block(1, name) for name in inputs) + b"".join(block(2, name) for name in names)
        text += block(3, f"{op}_{self.count}") + block(4, op) + (block(7, domain) if domain else b"")
        text += b"".join(block(5, attribute(key, value)) for key, value in attributes.items())
        self.graph += block(1, text)
        return names[0] if outputs == 1 else names

    def function(self, domain: str, name: str) -> None:
        """One of the model's own, which gives what it takes."""
        self.rest += block(25, block(1, name) + block(4, "a") + block(5, "a") + block(10, domain))

    def output(self, *names: str) -> None:
        for name in names:
            self.graph += block(12, block(1, name))

    def save(self, path) -> str:
        path.write_bytes(varint(1, 8) + block(2, "test") + block(7, self.graph) + block(8, varint(2, self.opset)) + self.rest)
        return str(path)
