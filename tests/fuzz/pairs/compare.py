# SPDX-License-Identifier: Apache-2.0
"""Holds the native code of a program against eager: at every size, on real, whole and special numbers."""

import pathlib
import sys
import typing

import torch

import programs

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "tensors"))
import check as tensor_check
import errors


class Outcome(typing.NamedTuple):
    compared: int = 0   # native calls that were held against eager
    fused: bool = False   # whether some variant is one kernel
    unsteady: int = 0   # native calls that had nothing to compare
    missed: str = ""   # why a call was not served natively
    wrong: str = ""


def tensors(value: typing.Any) -> "list[torch.Tensor]":
    return [part for part in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(part, torch.Tensor)]


def _difference(got: "list[torch.Tensor]", want: "list[torch.Tensor]", bounds: "list[float]", either_zero: bool) -> str:
    if len(got) != len(want):
        return f"{len(got)} tensors, eager has {len(want)}"
    for i, (a, b, bound) in enumerate(zip(got, want, bounds)):
        what = tensor_check.tensor_difference(a, b, bound, either_zero)
        if what is not None:
            return f"tensor {i} of {len(want)}: {what}"
    return ""


def check(ingot: typing.Any, program: programs.Program, dynamic: "bool | None") -> Outcome:
    function = program.function()
    step = ingot.compile(function, wait=True, dynamic=dynamic)
    compared = unsteady = 0
    missed = ""
    for n in program.shapes:
        for call, kind in enumerate(("real", "whole", "special")):
            arguments = program.inputs(n, 10 * n + call, kind)
            copies = [argument.clone() for argument in arguments]
            watched = errors.Errors()
            try:
                with watched:
                    want = tensors(function(*copies))
            except errors.Unsteady:
                unsteady += 1
                continue
            except programs.REFUSALS:
                continue
            before = ingot.stats()["native_calls"]
            try:
                got = tensors(step(*arguments))
            except Exception as error:  # what a user would see
                return Outcome(compared, False, unsteady, missed, f"n={n} {kind}: raised {type(error).__name__}: {error}")
            if ingot.stats()["native_calls"] == before:
                if call:
                    missed = missed or str(step.report())
                continue
            compared += 1
            either_zero = watched.chooses_zero or any(call.rule.op.removeprefix("aten.") in errors.ADDS for call in program.calls)
            what = _difference([*arguments, *got], [*copies, *want], [watched.of(t).bound() for t in (*copies, *want)], either_zero)
            if what:
                return Outcome(compared, _fused(step), unsteady, missed, f"n={n} {kind}: {what}\n{step.as_text('graph')}")
    return Outcome(compared, _fused(step), unsteady, missed)


def _fused(step: typing.Any) -> bool:
    return any(variant["native_steps"] == 1 and variant["aten_steps"] == 0 for variant in step.variants)
