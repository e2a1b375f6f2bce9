# SPDX-License-Identifier: Apache-2.0
"""Statements with windows: convolutions dense, in groups, by themselves and transposed, pools and pads, over images of 1, 2 and 3 dims.

What is filled in is as in statements.py; besides K a kernel's size, P a padding, Q a step, L a dilation, O True or False, A a pad that may
be negative. An image is a value of the right rank, or a smaller one with dims of 1 put where they make it one: images of one pixel too.
"""

CHANNELS_LAST = {2: "torch.channels_last", 3: "torch.channels_last_3d"}
LIFTED = {
    1: ("{f}", "{f}[:, None]", "{f}[:, :, None]", "{f}[None]", "{f}[..., None]", "{f}.unsqueeze(0)", "{f}.transpose(-1, -2)"),
    2: ("{f}", "{f}[:, :, None, None]", "{f}[None]", "{f}[None, None]", "{f}[:, :, None]", "{f}[None, :, None]", "{f}[..., None]",
        "{f}.unsqueeze(1).transpose(-1, -2)"),
    3: ("{f}", "{f}[:, :, None, None, None]", "{f}[None, None]", "{f}[:, None, None]", "{f}[None, :, None, :]"),
}


def _again(image: str) -> str:
    return image.replace("{f}", "{s}")


def _taps(image: str, out: str, channels: str, kernel: "list[str]") -> str:
    """Whole weights, of which no two neighbours are equal."""
    return f"(torch.arange({' * '.join([out, channels, *kernel])}) % 5 - 2).to({{s}}.dtype).reshape({', '.join([out, channels, *kernel])})"


def _convolutions(d: int, image: str) -> "list[str]":
    conv, channels = f"torch.nn.functional.conv{d}d", f"{_again(image)}.shape[-{d + 1}]"
    every = ", padding={P}, stride={Q}, dilation={L}"
    lines = [
        f"{conv}({image}, {_taps(image, '2', channels, ['3'] * d)}{every})",
        f"{conv}({image}, {_taps(image, '4', channels, ['2'] * d)}, torch.arange(4.).to({{s}}.dtype), padding={{P}})",
        f"{conv}({image}, {_taps(image, channels, '1', ['3'] * d)}{every}, groups={channels})",
        f"{conv}({image}, {_taps(image, channels, '1', ['2'] * d)}, padding=1, groups={channels})",
        f"{conv}({image}, {_taps(image, channels, '1', ['3'] * d)}, padding='same', groups={channels})",
        f"{conv}({image}, {_taps(image, '2 * ' + channels, '1', ['1'] * (d - 1) + ['4'])}, padding={(0,) * (d - 1) + (3,)}, groups={channels})",
        f"{conv}({image}, {_taps(image, channels, channels + ' // 2', ['1'] * (d - 1) + ['3'])}, padding={{P}}, groups=2)",
    ]
    transposed = f"torch.nn.functional.conv_transpose{d}d"
    lines += [f"{transposed}({image}, {_taps(image, channels, '2', ['3'] * d)}, padding={{P}}, stride={{Q}}, dilation={{L}})",
              f"{transposed}({image}, {_taps(image, channels, '1', ['2'] * d)}, stride=2, output_padding=1, groups={channels})"]
    return lines


def _pools(d: int, image: str) -> "list[str]":
    pools = [f"torch.nn.functional.avg_pool{d}d({image}, {{K}}, {{Q}}, {{P}}, ceil_mode={{O}}, count_include_pad={{O}})",
             f"torch.nn.functional.avg_pool{d}d({image}, 3, 1, 1)",
             f"torch.nn.functional.max_pool{d}d({image}, {{K}}, {{Q}}, {{P}}, {{L}}, ceil_mode={{O}})",
             f"torch.nn.functional.max_pool{d}d({image}, 3, 1, 1)",
             f"torch.nn.functional.adaptive_avg_pool{d}d({image}, {{C}})"]
    return pools + ([f"torch.nn.functional.avg_pool{d}d({image}, {{K}}, {{Q}}, {{P}}, divisor_override=3)"] if d > 1 else [])


def _pads(d: int, image: str) -> "list[str]":
    sides = ", ".join(["{A}"] * (2 * d))
    return [f"torch.nn.functional.pad({image}, ({sides}), value={{S}})"] + \
        [f"torch.nn.functional.pad({image}, ({sides}), mode='{mode}')" for mode in ("reflect", "replicate", "circular")]


def _of_images() -> "list[str]":
    lines = []
    for d, images in LIFTED.items():
        for image in images:
            lines += _convolutions(d, image) + _pools(d, image) + _pads(d, image)
            if d > 1:
                turned = f"{image}.contiguous(memory_format={CHANNELS_LAST[d]})"
                lines += [line.replace(image, turned, 1) for line in (*_convolutions(d, image)[:3], *_pools(d, image)[:4])]
    return lines


# Pads of whole numbers and truth values, and what windows are otherwise.
WINDOWS = _of_images() + """
torch.nn.functional.pad({i}, ({A}, {A}), value=7)
torch.nn.functional.pad({b}, ({A}, {A}), value=True)
torch.nn.functional.pad({i}, ({A}, {A}, {A}, {A}))
torch.nn.functional.pad({b}, ({A}, {A}, {A}, {A}))
torch.nn.functional.avg_pool1d({x}.sum(-1, keepdim=True).float(), 3, 1, 1)
torch.nn.functional.lp_pool1d({f}, 2, {K}, ceil_mode={O})
torch.nn.functional.max_pool2d({f}[None], {K}, {Q}, return_indices=True)[1]
torch.nn.functional.max_pool1d({f}, {K}, {Q}, {P}, {L}, return_indices=True)[1]
""".split("\n")[1:-1]
