# SPDX-License-Identifier: Apache-2.0
"""Statements that a random program is made of.

In braces stands what the generator fills in: a value by its kind (x any, f floating, n number, i integer, b bool, l int64, c complex),
y what broadcasts with the first value, w another value of its sizes, s the first value again, t something to write to,
D one of the first value's dims, N its size along the last D, S a number, Z a size, C a small count, T an element type, SL a subscript of the first value.
"""

import windows

UNARY = """neg abs relu floor ceil round trunc sign square gelu silu mish elu softplus hardtanh hardswish hardsigmoid leaky_relu relu6
log_sigmoid""".split()
FUNCTIONAL = set("gelu silu mish elu softplus hardtanh hardswish hardsigmoid leaky_relu relu6".split())
FLOAT_UNARY = "exp exp2 expm1 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf erfc".split()
LOGS = "log log2 log10 log1p".split()

_pointwise = [f"torch.nn.functional.{name}({{f}})" for name in sorted(FUNCTIONAL)] + \
    ["torch.nn.functional.logsigmoid({f})", "torch.nn.functional.gelu({f}, approximate='tanh')"] + \
    [f"torch.{name}({{n}})" for name in UNARY if name not in FUNCTIONAL and name != "log_sigmoid"] + \
    [f"torch.{name}({{n}})" for name in FLOAT_UNARY] + \
    [f"({{n}}.abs() + 0.5).{name}()" for name in [*LOGS, "rsqrt", "sqrt", "reciprocal"]] + """
torch.round({f}, decimals=1)
~{i}
~{b}
torch.isnan({f})
torch.isinf({f})
torch.isfinite({n})
torch.logical_not({x})
{x}.clone()
{x}.contiguous()
{x}.detach()
""".split("\n")

_casts = """
{x}.to({T})
{f}.to({T})
{i}.to({T})
{b}.to({T})
{f}.to(torch.int64)
{f}.to(torch.int32)
{x}.type_as({x})
{x}.to({x}.dtype)
{x}.bool()
{x}.float()
{x}.double()
{x}.long()
{f}.half()
{f}.bfloat16()
""".split("\n")

_binary = """
{x} + {y}
{n} - {y}
{x} * {y}
{n} / ({y}.abs() + 0.5)
{n} / {y}
{n} - {S}
{x} * {S}
{x} + {S}
{S} - {n}
{n} / {C}
{n} + {Z}
{n} * {Z}
torch.add({n}, {y}, alpha={S})
torch.sub({n}, {y}, alpha=2)
torch.rsub({n}, {y})
{i} // {C}
{n} // {C}
{i} % {C}
{n} % {C}
{C} % ({i}.abs() + 1)
{n} // ({y}.abs() + 1)
{n} % ({y}.abs() + 1)
torch.div({n}, {C}, rounding_mode='floor')
torch.div({n}, {C}, rounding_mode='trunc')
torch.div({n}, {y}.abs() + 1, rounding_mode='floor')
torch.div({n}, {y}.abs() + 1, rounding_mode='trunc')
torch.fmod({n}, {C})
torch.fmod({n}, {y}.abs() + 1)
{n} ** 2
{n} ** 3
({f}.abs() + 0.5) ** 0.5
({f}.abs() + 0.5) ** {y}
2 ** {n}
torch.atan2({f}, {y}.abs() + 0.5)
torch.minimum({n}, {y})
torch.maximum({n}, {y})
torch.max({n}, {y})
torch.min({n}, {y})
{n}.clamp(-1, 2)
{n}.clamp(min=0)
{n}.clamp(max=1.5)
{n}.clamp_min(1)
{n}.clamp_max(1)
torch.clamp({n}, {y}, {y})
torch.clamp({n}, min={y})
{x} == {y}
{x} != {y}
{n} < {y}
{n} <= {y}
{n} > {y}
{n} >= {y}
{x} == {S}
{n} < {S}
{n} >= {S}
{n} > {Z}
torch.logical_and({x}, {y})
torch.logical_or({x}, {y})
torch.logical_xor({x}, {y})
{i} & {y}
{i} | {y}
{i} ^ {y}
{b} & {y}
{b} | {y}
{b} ^ {y}
{i} & {C}
{i} | {C}
{i} ^ {C}
torch.where({b}, {y}, {y})
torch.where({b}, {S}, {y})
torch.where({b}, {y}, {S})
torch.where({b}, {S}, {S})
torch.where({n} > {S}, {y}, {S})
{x}.masked_fill({y} > 0, {S})
{x}.masked_fill({b}, {S})
{x}.masked_fill({b}, {x}.reshape(-1)[0])
torch.add({b}, {y}, alpha={O})
torch.addcmul({f}, {y}, {y})
torch.addcmul({n}, {y}, {y}, value=2)
torch.addcdiv({f}, {y}, {y}.abs() + 0.5)
torch.lerp({f}, {w}, 0.3)
torch.lerp({f}, {w}, {w})
""".split("\n")

_views = """
{x}.reshape(-1)
{x}.view(-1)
{x}.reshape({N}, -1)
{x}.reshape(-1, {N})
{x}.flatten()
{x}.flatten({D})
{x}.flatten(0, 1)
{x}.reshape({x}.shape)
{x}.view({x}.shape[0], -1)
{x}.view(1, *{x}.shape)
{x}[..., : {x}.shape[-1] // 2 * 2].reshape(*{x}.shape[:-1], -1, 2)
{x}[..., : {x}.shape[-1] // 2 * 2].clone().view(-1, {x}.shape[-1] // 2, 2)
{x}.reshape(-1, 2)
{x}.unflatten(-1, ({x}.shape[-1] // 2, 2))
{x}.unflatten({D}, (1, -1))
{x}.unflatten({D}, (-1, 1))
{x}.view_as({w})
{x}.transpose(0, -1)
{x}.transpose({D}, {D})
{x}.swapaxes(0, 1)
{x}.swapdims(-1, 0)
{x}.t()
{x}.mT
{x}.T
{x}.permute(1, 0)
{x}.permute(2, 0, 1)
{x}.permute(1, 0, 2)
{x}.movedim(0, -1)
{x}.unsqueeze({D})
{x}.unsqueeze(-1)
{x}.squeeze()
{x}.squeeze({D})
{x}.squeeze((0, -1))
{x}.expand({C}, *{x}.shape)
{x}.expand({Z}, *{x}.shape)
{x}.expand({x}.shape)
{x}.expand(-1, {C})
{x}[:1].expand({Z}, -1)
{x}.expand_as({x})
torch.broadcast_to({x}, ({C}, *{x}.shape))
torch.broadcast_tensors({x} * 1, {y} + 1)[-1]
torch.meshgrid(torch.arange({Z}), torch.arange({N}), indexing='ij')[1]
{x}.select({D}, 0)
{x}.select({D}, -1)
{x}.narrow({D}, 0, {N} // 2)
{x}.narrow({D}, {N} // 2, {N} - {N} // 2)
{x}.narrow({D}, -1, 1)
{x}.unbind({D})[0]
{x}.unbind({D})[-1]
{x}.split({C}, {D})[0]
{x}.split({C}, {D})[-1]
{x}.split([{N} // 2, {N} - {N} // 2], {D})[1]
{x}.chunk({C}, {D})[-1]
{x}.chunk({N} // 2 + 1, {D})[0]
{x}.split({N} // 2 + 1, {D})[-1]
{x}.tensor_split({C}, {D})[-1]
{x}.tensor_split(({N} // 3, {N} - 1), {D})[1]
{x}.chunk(2, {D})[0]
{x}.split_with_sizes([1, {N} - 1], {D})[1]
""".split("\n") + ["{x}[{SL}]"] * 24

_reductions = """
{n}.sum()
{x}.sum({D})
{x}.sum({D}, keepdim=True)
{n}.sum((0, 1))
{n}.sum({D}, dtype=torch.float64)
{n}.prod({D})
{f}.mean()
{f}.mean({D})
{f}.mean({D}, keepdim=True)
{f}.mean((0, -1))
{f}.var({D})
{f}.var({D}, unbiased=False)
{f}.std({D}, correction=0)
{n}.amax({D})
{n}.amin({D}, keepdim=True)
{n}.amax((0, 1))
{f}.logsumexp({D})
torch.linalg.vector_norm({f}, 2, {D})
{f}.norm(dim={D}, keepdim=True)
torch.nn.functional.normalize({f}, dim={D})
{n}.cumprod({D})
{n}.max()
{n}.min()
{n}.max({D})[0]
{n}.min({D}, keepdim=True)[0]
{n}.max({D})[1]
{n}.argmax()
{n}.argmax({D})
{n}.argmin({D}, keepdim=True)
{x}.any()
{x}.any({D})
{x}.all()
{x}.all({D}, keepdim=True)
{f}.softmax({D})
{f}.softmax({D}, dtype=torch.float64)
{n}.softmax({D}, dtype={T})
{x}.sum({D}, dtype={T})
torch.searchsorted({f}.sort()[0], {w}, sorter={l})
{f}.log_softmax({D})
{n}.cumsum({D})
{n}.cumsum({D}) * {n}
{n}.cummax({D})[0]
{n}.cummin({D})[1]
torch.nn.functional.layer_norm({f}, {f}.shape[-1:])
torch.nn.functional.layer_norm({f}, {f}.shape[-1:], {w}, {w})
torch.nn.functional.rms_norm({f}, {f}.shape[-1:])
torch.nn.functional.group_norm({f}, 1)
torch.nn.functional.batch_norm({f}, {f}.mean(0), {f}.var(0) + 1)
torch.nn.functional.max_pool2d({f}, 2)
torch.nn.functional.avg_pool2d({f}, 2)
torch.nn.functional.avg_pool2d({f}[None], 2, 2, 1, ceil_mode=True)
torch.nn.functional.max_pool2d({f}[None], 3, 2, 1, ceil_mode=True)
torch.nn.functional.max_pool1d({f}, {C})
torch.nn.functional.avg_pool1d({f}, 3, 2, 1, ceil_mode=True)
torch.nn.functional.avg_pool1d({f}, {f}.shape[-1])
torch.nn.functional.adaptive_avg_pool1d({f}, {C})
torch.nn.functional.adaptive_max_pool1d({f}, 2)
{n}.unfold({D}, 2, 1)
{n}.unfold({D}, 2, 1).sort(-1)[0]
{n}.unfold({D}, 2, 1).diff()
torch.nn.functional.glu({f}.unfold({D}, 2, 1), -1)
{n}.unfold({D}, {C}, 2).sum(-1)
torch.nn.functional.unfold({f}[None], 2, padding=1)
torch.nn.functional.unfold({f}[None, None], (2, 1), stride=2)
torch.nn.functional.pixel_shuffle(torch.stack([{f}] * 4), 2)
torch.nn.functional.pixel_unshuffle({f}[None, : {f}.shape[0] // 2 * 2, : {f}.shape[-1] // 2 * 2], 2)
torch.nn.functional.instance_norm({f}[None])
torch.nn.functional.grid_sample({f}[None, None], torch.stack([{f}, {w}], -1)[None], align_corners=False)
torch.nn.functional.adaptive_avg_pool2d({f}, 1)
torch.nn.functional.interpolate({f}[None], scale_factor=1.5)
torch.nn.functional.interpolate({f}[None], scale_factor=0.5, mode='linear')
{n}.topk(1, {D})[0]
{n}.topk({C}, {D})[0]
{n}.argsort({D}, stable=True)
{n}.diff(dim={D})
torch.diff({n}, prepend={n}, dim={D})
torch.view_as_complex(torch.stack([{f}, {w}], -1)).abs()
torch.polar({f}.abs(), {w}).real
torch.fft.rfft({f}).abs()
torch.fft.irfft(torch.fft.rfft({f}, dim={D}), n={N}, dim={D})
torch.fft.fft({f}, dim={D}).imag
torch.fft.fftshift({f})
torch.view_as_real(torch.fft.rfft2({f}))
{n}.sort({D})[0]
{n}.sort({D}, stable=True, descending=True)[1]
torch.sort({n}, stable=True, dim={D})[1]
""".split("\n")

_gathers = """
{x}[{l}]
{x}[{l}]
{x}[{l}]
{x}[:, {l}]
{x}[{l}, {l}]
{x}[..., {l}]
{x}[{l}[:, None], {l}]
{x}[torch.arange({N}).flip(0)]
{x}.index_select({D}, {l})
{x}.index_select(0, torch.arange({Z}) // 2)
{x}.gather({D}, {l})
{x}.gather(0, {l}.expand_as({x}) % {x}.shape[0])
{x}.gather(-1, {n}.argmax(-1, keepdim=True))
torch.nn.functional.embedding({l}, {f})
torch.nn.functional.embedding({l}.abs(), {f})
{x}.index_copy({D}, {l}, {w})
{x}.index_add({D}, {l}, {w})
{x}.index_fill({D}, {l}, {S})
{x}.index_put(({l},), {x}[{l}])
{x}.index_put(({l},), {y}, accumulate=True)
{x}.scatter({D}, {l}, {S})
{x}.scatter(0, torch.arange({x}.shape[0])[:, None].expand_as({x}).flip(0), {w})
{x}.scatter_add({D}, {l}, {w})
{x}.scatter({D}, {l}[:, None].abs() % 2, {S})
{x}.scatter_add(0, torch.zeros(1, {x}.shape[-1], dtype=torch.long), {w})
torch.nn.functional.one_hot({l}.abs() % 7, 7)
torch.nn.functional.one_hot({l}.abs() % {Z}, {Z})
{x}.masked_scatter({b}, {w})
""".split("\n")

_moves = """
torch.cat([{x}, {w}], {D})
torch.cat([{x}, {x}], {D})
torch.cat([{x}, {y}], 0)
torch.cat([{x}[:1], {w}, {w}[1:]])
torch.stack([{x}, {w}], {D})
torch.stack([{x}, {w}], -1)
{x}.repeat({C}, 1)
{x}.repeat({C}, *{x}.shape)
{x}.repeat_interleave({C}, {D})
{x}.roll({C}, {D})
{x}.roll(-1, 0)
{x}.roll({Z})
{x}.flip({D})
{x}.flip((0, -1))
torch.nn.functional.pad({x}, (1, 2))
torch.nn.functional.pad({x}, (0, {C}, 1, 0), value={S})
torch.nn.functional.pad({x}, (-1, 1))
torch.nn.functional.pad({x}, (0, -1))
torch.nn.functional.pad({x}, (0, {N} // 2))
torch.nn.functional.pad({x}, ({Z} - 2, 1 - {N}))
torch.nn.functional.pad({f}[None], (1, {f}.shape[-1] // 2), mode='reflect')
torch.nn.functional.pad({f}[None], ({C}, {Z}), mode='replicate')
torch.nn.functional.pad({f}[None], (1, {f}.shape[-1] // 2), mode='circular')
torch.tril({x})
torch.triu({x}, 1)
torch.tril({x}, -1)
torch.slice_scatter({x}, {w}[1:], 0, 1)
torch.slice_scatter({x}, {w}[:, :1], 1, -1)
torch.select_scatter({x}, {w}[0], 0, -1)
""".split("\n")

_contractions = """
{f} @ {w}.mT
{f} @ {f}
{f} @ {f}.t()
torch.matmul({f}, {w}.t())
torch.mm({f}, {f}.t())
torch.bmm({f}, {w}.mT)
torch.mv({f}, {f})
torch.dot({f}, {w})
torch.outer({f}, {f})
torch.addmm({f}, {f}, {f})
torch.nn.functional.linear({f}, {w})
torch.nn.functional.linear({f}, {f}, {f})
torch.einsum('ij,kj->ik', {f}, {w})
torch.einsum('ij,ij->j', {f}, {w})
torch.einsum('ij,kl->ikl', {f}, {f})
torch.einsum('...i,...i', {f}, {w})
torch.einsum('i...->...i', {f})
torch.einsum('ab,cb,b->ca', {f}, {w}, {f})
torch.nn.functional.scaled_dot_product_attention({f}.expand(1, 3, *{f}.shape), {w}[None, None], {w}[None, None])
torch.nn.functional.conv1d({f}[:, None], torch.ones(2, 1, 3), padding='same')
torch.nn.functional.conv2d({f}[None, None], torch.ones(2, 1, 2, 1), padding='valid', stride=2)
torch.nn.functional.conv_transpose1d({f}[:, None], torch.ones(1, 2, 3), stride=2, padding=1)
torch.nn.functional.conv_transpose2d({f}[None, None], torch.ones(1, 2, 2, 2), stride=(2, 1), output_padding=(1, 0))
torch.nn.functional.conv_transpose2d({f}[None, None], torch.ones(1, 3, 4, 2), stride=2, padding=(1, 0))
torch.nn.functional.conv_transpose1d({f}[:, None], torch.ones(1, 4, 3), padding=1)
torch.nn.functional.conv2d({f}[None, None].expand(1, 8, -1, -1), torch.ones(8, 4, 1, 1), groups=2)
torch.baddbmm({f}, {f}, {f})
torch.nn.functional.scaled_dot_product_attention({f}, {w}, {w})
torch.nn.functional.scaled_dot_product_attention({f}[None], {w}[None], {w}[None], is_causal=True)
""".split("\n")

_creations = """
torch.arange({Z})
torch.arange({N})
torch.arange(1, {Z} + 2)
torch.arange(0, 2 * {Z}, 2)
torch.arange({Z}, dtype={T})
torch.arange({Z}, -1, -1)
torch.full(({Z}, {Z}), {S})
torch.zeros({Z}, {N})
torch.ones({x}.shape, dtype={T})
torch.full_like({x}, {S})
torch.zeros_like({x})
torch.ones_like({x}, dtype={T})
{x}.new_full(({Z},), {S})
{x}.new_zeros({x}.shape)
{x}.new_ones(({Z}, 2))
torch.tensor({S})
torch.scalar_tensor({S}, dtype={T})
torch.eye({Z})
torch.eye({N}, {Z})
torch.linspace(-1, 1, {N})
torch.linspace(0, {Z}, {Z})
torch.nn.functional.affine_grid(torch.ones(1, 2, 3), (1, 1, {Z}, {N}), align_corners=True)
""".split("\n")

_several = """
{x}.chunk(2, {D})
{x}.chunk(3, {D})
{x}.split({C}, {D})
{x}.tensor_split(2, {D})
{x}.unbind({D})
{x}.split([1, {N} - 1], {D})
{x}.split([{N} // 2, {N} - {N} // 2], {D})
{n}.max({D})
{n}.min({D}, keepdim=True)
{n}.sort({D}, stable=True)
{x}[1:], {x}[:-1]
{x}[..., : {x}.shape[-1] // 2], {x}[..., {x}.shape[-1] // 2:]
{x}, {x}[{SL}]
torch.broadcast_tensors({x} * 1, {y} + 1)
torch.meshgrid({x}.flatten()[:{C}], torch.arange({N}), indexing='xy')
""".split("\n")

_writes = """
{t}.add_({y})
{t}.sub_({y})
{t}.mul_({y})
{t}.div_({y}.abs() + 1)
{t}.add_({S})
{t}.mul_({S})
{t}.copy_({y})
{t}.fill_({S})
{t}.zero_()
{t}.neg_()
{t}.abs_()
{t}.relu_()
{t}.clamp_(-1, 1)
{t}.masked_fill_({b}, {S})
{t}.masked_fill_({y} > 0, {S})
{t}.index_copy_(0, {l}, {w})
{t}.index_add_(0, {l}, {w})
{t}.index_fill_(0, {l}, {S})
{t}.scatter_({D}, {l}, {S})
{t}.t().add_({y})
{t}.view(-1)[1:].mul_(2)
{t}.transpose(0, 1).copy_({y})
torch.nn.functional.relu({t}, inplace=True)
torch.add({t}, {y}, out={t})
torch.where({b}, {t}, {y}, out={t})
""".split("\n") + """{t}[{SL}] = {S}
{t}[{SL}] = {y}
{t}[{SL}] = {t}[{SL}]
{t}[{SL}] += {S}
{t}[{SL}] += {y}
{t}[{SL}] *= {S}
{t}[{SL}].add_({S})
{t}[{SL}].copy_({y})
{t}[{SL}].zero_()
{t}[{l}] = {S}
{t}[{l}] += {S}
{t}[{b}] = {S}
{t}[:, {l}] = {S}
{t}[{SL}] += {s}[{SL}]
{t}[{SL}].mul_({s}[{SL}])
{t}[1:].add_({s}[:-1])
{t}[..., 1::2].copy_({s}[..., ::2])
{t}.add_({s}.transpose(0, -1))
{t}.unfold(0, 2, 1)[0].add_({S})
{t}[:1].expand({Z}, *{s}.shape[1:])[0].add_({S})
{t} += {y}
{t} *= {S}""".split("\n") * 2

_layouts = """
{x}.contiguous(memory_format=torch.channels_last)
{x}.to(memory_format=torch.channels_last) * {y}
{x}.clone(memory_format=torch.preserve_format)
{x}.transpose(-1, -2).contiguous().transpose(-1, -2)
{x}.permute(1, 2, 0).contiguous().permute(2, 0, 1)
{x}[:, :, None, None].contiguous(memory_format=torch.channels_last)
{f}[None].contiguous(memory_format=torch.channels_last) + 1
torch.empty_like({x}).copy_({x})
torch.zeros_like({x}.transpose(0, -1)) + {x}.transpose(0, -1)
{x}.as_strided(({N}, 2), (1, 1))
{x}.diagonal()
{x}.diagonal(1).clone()
{x}.unfold({D}, 2, 1).contiguous()
{x}.expand({C}, *{x}.shape).contiguous()
torch.cat([{x}, {x}]).unfold(0, 2, {x}.shape[0] // 3 + 1)
torch.cat([{x}, {x}], {D}).unfold({D}, 2, {x}.shape[-1] // 4 + 1)
{x}.unfold({D}, 2, {x}.shape[0] // 3 + 1)
{x}[{x}.shape[0] // 2 :].transpose(0, -1)
{x}[..., : {x}.shape[-1] // 2 + 1].transpose(0, -1)
{x}[..., 1:].transpose(0, -1)
{x}.view({x}.shape[0], -1).t()
torch.stack([{x}, {x}]).view(2, -1).t()
torch.cat([{x}, {x}]).unflatten(0, (2, -1)).transpose(0, -1)
torch.nn.functional.conv1d({f}[:, None], torch.ones(3, 1, 2)).transpose(1, 2)
""".split("\n")

_complex = """
torch.complex({f}, {w})
torch.complex({f}, torch.zeros_like({s}))
torch.view_as_complex(torch.stack([{f}, {w}], -1))
{c} * {c}
{c} + {y}
{c} - {c}
{c} / ({f}.abs() + 1)
{c}.conj()
{c}.conj_physical()
{c}.conj() * {c}
{c}.real
{c}.imag
{c}.real + {c}.imag
{c}.abs()
torch.view_as_real({c})
torch.view_as_real({c} * {S})
{c}.transpose(0, -1)
{c}.reshape(-1)
{c}[{SL}]
{c}[{l}]
{c}.sum({D})
{c} @ {c}.mT
{c}.mH
torch.cat([{c}, {w}], {D})
torch.where({b}, {c}, {c})
torch.fft.fft({c}, dim={D}).real
{c}.to(torch.complex128)
{c} == {w}
torch.polar({f}.abs(), {w})
""".split("\n")

_more_writes = """
{t}.diagonal().add_({S})
{t}.select({D}, -1).copy_({y})
{t}.narrow({D}, 0, 1).mul_({S})
{t}.unbind({D})[0].add_({y})
{t}.split(1, {D})[-1].zero_()
{t}.chunk(2, {D})[0].copy_({t}.chunk(2, {D})[1])
{t}.squeeze({D}).add_({S})
{t}[None].expand({C}, *{s}.shape)[0].mul_({S})
{t}.view(-1)[::2].copy_({t}.view(-1)[1::2])
{t}.view(-1).flip(0).copy_({y})
{t}.view({s}.shape[0], -1).t().mul_({S})
{t}.unflatten(-1, (-1, 1))[..., 0].copy_({y})
{t}.view(torch.int32).bitwise_and_(-2)
{t}.copy_({t}.roll(1, {D}))
{t}.copy_(torch.cummax({s}, {D})[0])
{t}.sub_({t}.mean({D}, keepdim=True))
{t}.div_({s}.sum({D}, keepdim=True).abs() + 1)
{t}.copy_(torch.nn.functional.avg_pool1d({s}, 3, 1, 1))
{t}[:, 1:].add_({s}[:, :-1])
{t}[1:].copy_({s}[:-1].clone())
{t}.masked_fill_({s} > {s}.mean(), {S})
{c}.real.mul_({S})
torch.view_as_real({c}).add_({S})
""".split("\n")


_foreign_writes = """
torch.ops.fuzz.scale_({t}, {S})
torch.ops.fuzz.scale_({t}[{SL}], {S})
torch.ops.fuzz.scale_({t}, {S}).add_({S})
torch.ops.fuzz.scale_({t}.transpose(0, -1), 2)
torch.ops.fuzz.scale_({t}.view(-1)[::2], {S})
torch.ops.fuzz.scale_({t}[:, {l}], {S})
torch.ops.fuzz.add_into({t}, {w}, {y})
torch.ops.fuzz.add_into({t}, {t}, {y})
torch.ops.fuzz.add_into({t}[1:], {t}[:-1], {s}[:-1])
torch.ops.fuzz.add_into({t}[..., 1::2], {s}[..., 1::2], {s}[..., 1::2])
torch.ops.fuzz.shift({t}, {w})
torch.ops.fuzz.shift({t}, {t})
torch.ops.fuzz.shift({t}[1:], {t}[:-1])
torch.ops.fuzz.shift({t}[0], {t}.select({D}, -1))
torch.ops.fuzz.fill({t}.unbind({D}), {S} * {s}[0])
torch.ops.fuzz.fill([{t}, {w}], {y})
torch.ops.fuzz.fill([{t}[1:], {t}[:-1]], {s}[1:])
torch.ops.fuzz.both({t}, {y}).neg_()
torch.ops.fuzz.maybe({x}, {t})
""".split("\n")

_foreign = """
torch.ops.fuzz.scale_({x} * 1, {S})
torch.ops.fuzz.scale_({x}.clone().view(-1), {S})
torch.ops.fuzz.both({t}, {y})
torch.ops.fuzz.both(torch.empty_like({x}), {w})
torch.ops.fuzz.both({x} + 0, {y}) + {x}
torch.ops.fuzz.maybe({x}, None)
torch.ops.fuzz.maybe({x}, {t})
""".split("\n")


def _kept(lines: "list[str]") -> "list[str]":
    return [line for line in lines if line]


# What is chosen, how often, and the statements to choose from.
KINDS = [(kind, weight, _kept(lines)) for kind, weight, lines in (
    ("value", 12, _pointwise), ("value", 5, _casts), ("value", 22, _binary), ("value", 24, _views), ("value", 12, _reductions), ("value", 10, _gathers),
    ("value", 8, _moves), ("value", 5, _contractions), ("value", 6, _creations), ("several", 5, _several), ("write", 16, _writes),
    ("value", 30, windows.WINDOWS), ("value", 5, _layouts), ("value", 5, _complex), ("write", 8, _more_writes),
    ("write", 6, _foreign_writes), ("value", 3, _foreign))]
