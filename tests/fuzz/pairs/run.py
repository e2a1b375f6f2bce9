# SPDX-License-Identifier: Apache-2.0
"""A process that makes and checks one program after the other."""

import json
import logging
import os
import sys
import traceback
import typing
import warnings


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # What a program prints is no answer.
    warnings.filterwarnings("ignore")
    logging.getLogger("ingot").setLevel(logging.ERROR)

    import torch

    import ingot

    import compare
    import walk

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    walked = walk.Walk()
    for line in sys.stdin:
        answers.write(json.dumps(answer(ingot, compare, walked, json.loads(line)["place"])) + "\n")
        answers.flush()


def answer(ingot: typing.Any, compare: typing.Any, walked: typing.Any, place: int) -> "dict[str, typing.Any]":
    try:
        program = walked.program(place)
    except Exception:
        return {"text": str(place), "wrong": "harness: " + traceback.format_exc()}
    if program is None:
        return {}
    found = {"text": program.text(), "rules": [str(call.rule) for call in program.calls]}
    try:
        return {**found, **compare.check(ingot, program, None if place % 2 else False)._asdict()}
    except Exception:
        return {**found, "wrong": "harness: " + traceback.format_exc()}


if __name__ == "__main__":
    main()
