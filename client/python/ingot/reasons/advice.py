# SPDX-License-Identifier: Apache-2.0
"""What each refusal means and what its reader can do about it, in words; the names and the order are those of docs/troubleshooting.md.

A warning says in one line what was met, in which line of the program, and what to write instead.
"""

import re
import typing

from ingot import _native


class Advice(typing.NamedTuple):
    """Of one refusal."""

    means: str
    """Said where nothing more exact is known."""
    instead: str
    """What to do: an imperative, or that there is nothing to do."""


_NOTHING = "nothing is to be done"
_PLAIN_PYTHON = "decide by plain Python, or use torch.compile(model, backend='ingot')"
_OUTSIDE = "do it outside of the function"
_REACHABLE = "reach it by an attribute, a global or an argument"
_KNOWN_BEFORE = "read what is needed before the call and pass it as numbers or text"
_CONVERT = "stay with torch operators, or convert outside of the function"

ADVICE = {
    # The call and its arguments
    "requires-grad": Advice("gradients are on, and an argument or a weight requires them", "call it under torch.no_grad() or torch.inference_mode()"),
    "device": Advice("a tensor is not on the CPU", "only CPU tensors are served"),
    "autocast": Advice("autocast is on", "cast the model instead, e.g. model.to(torch.bfloat16)"),
    "function-mode": Advice("a torch function mode is active, or torch functions are off",
                            "leave it (torch.device, set_default_device, DisableTorchFunction) before the call"),
    "dispatch-mode": Advice("a torch dispatch mode is active", "leave it before the call"),
    "dispatch-keys": Advice("a transform of another function or a guard of the dispatcher is active", "leave it (vmap, grad, functionalize) before the call"),
    "overridden-operator": Advice("torch.library has other kernels for operators of PyTorch, which native code would not run",
                                  "make it an operator of your own, or destroy the Library"),
    "forward-mode": Advice("a level of forward-mode differentiation is active", "leave it before the call"),
    "subclass": Advice("a tensor is of a class of its own", "pass its plain tensor; where torchao has quantised weights, ingot.adopt_(model) makes plain ones of them"),
    "layout": Advice("a tensor is not dense and strided", "convert it before the call, e.g. x.to_dense()"),
    "sparse": Advice("a tensor is sparse", "convert it before the call, x.to_dense()"),
    "mkldnn": Advice("a tensor is in oneDNN's layout", "convert it before the call, x.to_dense()"),
    "nested-tensor": Advice("a tensor is nested", "pad it before the call"),
    "lazy-conjugate": Advice("a tensor is conjugated or negated lazily, or zero without memory", "call x.resolve_conj(), x.resolve_neg() or x.clone() before"),
    "conjugate": Advice("a tensor is conjugated or negated lazily", "call x.resolve_conj() or x.resolve_neg() before"),
    "quantized": Advice("a tensor is of a quantised element type", "dequantize it, or leave that part out of the function"),
    "dtype": Advice("a tensor is of an element type that is not supported", "convert it, or leave that part out of the function"),
    "nesting": Advice("arguments are nested more than 32 levels deep, or keys more than 24", "flatten them"),
    "aliased-input": Advice("an argument is also a tensor that the function reaches by itself", "pass a copy, or read it in one way"),
    "changed-argument": Advice("each call stores something in an argument that the function reaches by itself as well", "pass a copy"),
    "argument-identity": Advice("the function asks whether an argument is one object with another", "compare values"),
    "argument-attribute": Advice("the function reads an attribute of a tensor argument", "pass the value as an argument of its own"),
    "bound-anew": Advice("what the function reads is another object in every call", "keep the object and change what lies in it"),
    "slower": Advice("the function itself is faster than its native code", "nothing is to be done: it is measured again from time to time"),
    "shapes": Advice("there are more argument structures than shapes_max", "pass numbers that vary as tensors, or raise ingot.Config.shapes_max"),
    # Operators
    "schema-alias": Advice("an operator writes an argument and gives memory back that its schema says to be other",
                           "say in the schema what it gives back, Tensor(a!) -> Tensor(a!), or give a copy"),
    "communication": Advice("a collective cannot be replayed", "use torch.distributed._functional_collectives, and groups made before the call"),
    "custom-op-decides": Advice("a value decides what Python does behind a custom operator", "read the value before the operator"),
    "custom-op-handled": Advice("what a custom operator raises would be handled inside the function", "handle it around the call of the compiled function"),
    "custom-op-modes": Advice("a custom operator runs in several modes of autograd, or in another than the results are made in",
                              "set one mode for the whole function, or around its call"),
    "generator": Advice("an operator is given a torch.Generator", "use the default generator"),
    "argument": Advice("an operator takes or gives a value that a graph does not have", "leave the operator out of the function"),
    "higher-order": Advice("an operator calls Python", _PLAIN_PYTHON),
    "functorch": Advice("a transform of torch.func is active", "compile it with capture='export'"),
    "compiled": Advice("the function calls code that torch.compile made", "compile the outer function with Ingot alone, or the whole with backend='ingot'"),
    "symbolic": Advice("a tensor has symbolic sizes", "call it outside of tracing"),
    "metadata-change": Advice("sizes or memory of a tensor change in place", "make a new tensor"),
    "hidden-alias": Advice("a tensor shares memory with a result, and no operator made it", "make the view with an operator"),
    "storage-offset": Advice("as_strided has an offset into memory from before", "use a slice, narrow or select"),
    "overlapping-writes": Advice("an operator writes tensors that share memory", "write them one by one"),
    "random-layout": Advice("random numbers are drawn into a tensor that is not contiguous", "draw into a contiguous one"),
    "deterministic-fill": Advice("torch.empty is filled under deterministic algorithms", "use torch.zeros, or torch.utils.deterministic.fill_uninitialized_memory = False"),
    "result-type": Advice("out= of another element type decides how a sum computes", "say dtype="),
    "constant-size": Advice("a tensor is made of more than 16 MiB of Python data", "make it once, outside, as a buffer"),
    # Memory that leaves the graph
    "escape-numpy": Advice("a tensor becomes a numpy array", _CONVERT),
    "escape-tolist": Advice("a tensor of more than 64 elements becomes a list", _CONVERT),
    "escape-data-ptr": Advice("the address of a tensor is taken", "make it a custom operator (torch.library)"),
    "escape-dlpack": Advice("the memory of a tensor is handed on", "make it a custom operator (torch.library)"),
    "escape-storage": Advice("the storage of a tensor is taken", _OUTSIDE),
    "escape-memory": Advice("a tensor is made of an array or buffer", "pass the tensor as an argument"),
    "escape-pickle": Advice("a tensor is pickled", "use clone()"),
    "escape-copy": Advice("a tensor is copied by copy.deepcopy", "use clone()"),
    "escape-repr": Advice("a tensor is printed or formatted", "leave it out, or compile with capture='export'"),
    "escape-version": Advice("the version of a tensor is read", "leave it out"),
    "escape-autograd": Advice("autograd is used", "do it outside: Ingot does not train"),
    # Python that depends on more than its inputs
    "call": Advice("something is called whose answer may be another at the next call",
                   "move it out of the function, or say ingot.mark_pure of it if it depends on its arguments alone"),
    "fresh-answer": Advice("a function with functools.lru_cache made a tensor that later calls find", _NOTHING + ": calls that find it are native"),
    "side-effect": Advice("something from before the call is changed", "return the value instead of storing it"),
    "volatile": Advice("every call changes what it reads", "keep it in a tensor, or outside of the function"),
    "result": Advice("the result holds what another call could not build", "return tensors, numbers, tuples, lists, dicts or dataclasses, made new"),
    "finalizer": Advice("a __del__ or the callback of a weak reference runs", "remove it, or keep the object outside of the function"),
    "interrupted": Advice("a handler of a signal ran during the call", _NOTHING),
    "import": Advice("an import fails", "import at the top of the module"),
    "exception": Advice("the function, or an operator in it, raised", "test before instead of catching, unless it was meant to raise"),
    "instruction": Advice("an instruction that Ingot does not know", "move await, except* or interactive code out of the function"),
    "instructions": Advice("more Python instructions than instructions_max", "raise ingot.Config.instructions_max, or compile the parts"),
    "too-large": Advice("a value of more than 100,000 parts is handed to native code", "pass less of it"),
    "class-dict": Advice("the __dict__ of a class is read", "name the attribute"),
    "tensor-attribute": Advice("an attribute of a tensor that is not one of its properties", "keep it elsewhere"),
    "foreign-attribute": Advice("an attribute of an object whose content cannot be compared", _KNOWN_BEFORE),
    "foreign-descriptor": Advice("a descriptor made in C", _KNOWN_BEFORE),
    "foreign-type": Advice("an object whose content cannot be compared", _KNOWN_BEFORE),
    "outside-iterator": Advice("an iterator from before the call is moved on", "make it inside of the function, or pass a list"),
    "value-identity": Advice("equal values are held against each other by `is`", "compare with =="),
    "unexplained-object": Advice("an object to which no read led", _REACHABLE),
    "unexplained-global": Advice("a global of code that belongs to no module", _REACHABLE),
    "unexplained-module": Advice("a module to which its name does not lead", _REACHABLE),
    "unexplained-class": Advice("a class to which its name does not lead", _REACHABLE),
    "unexplained-code": Advice("code of no module", _REACHABLE),
    "unexplained-result": Advice("a result to which no read led", _REACHABLE),
    "unbound-tensor": Advice("a tensor to which no path leads", "make it a parameter, a buffer or an attribute"),
    "uninitialized": Advice("a lazy module has no weights yet", "call the module once before"),
    # The process
    "traced": Advice("a debugger, profiler or coverage tool traces the thread", "run without it: then it is compiled"),
    "nested": Advice("a recording is running on this thread already", _NOTHING + ": the inner call belongs to the outer"),
    "busy-key": Advice("another library in the process uses the dispatch key that records", "remove that library"),
    "recorder": Advice("the recording cannot be finished", "see docs/troubleshooting.md"),
    "export": Advice("neither a recording nor torch.export could take the call", "see both reasons"),
    "execution": Advice("native code refused to run", "report it if it repeats"),
    "identity": Advice("the record of a call contradicts itself", "report it"),
    "internal": Advice("a fault of Ingot's", "report it, with the traceback in the log"),
    "on_miss": Advice("there is no variant for the call", "declare the size, or on_miss='compile'"),
    "retired": Advice("calls of this structure run eagerly for good", "see f.report()"),
}
_LINE = re.compile(r"\S+:\d+\)")
_SPELLED = ((r"\btorch\._VariableFunctions\.", "torch."), (r"\btorch\._C\._nn\.", "torch.nn.functional."), (r"\b_random\.Random\.", "random."), (r"\bbuiltins\.", ""),
            (r"\b_?io\.open\b", "open"), (r"\btorch\._C\.", "torch."), (r"\baten::(\w+)(\.\w+)?", r"torch.\1"), (r"(\S+)!len\b", r"the length of \1"))
"""What things are called where they are made, and what programs call them."""


def instead(name: str) -> str:
    """What the user can do about a refusal."""
    return ADVICE[name].instead if name in ADVICE else "see docs/troubleshooting.md"


def sentence(name: str, detail: str) -> str:
    """What was met, in which line of the program, what to do, and the name under which docs/troubleshooting.md has it; one line."""
    met = detail if detail and detail != name else ADVICE[name].means if name in ADVICE else name
    for made, called in _SPELLED:
        met = re.sub(made, called, met)
    met = " ".join(met.split())
    line = "" if _LINE.search(met) else _native.user_line()
    return f"{met}{f' ({line})' if line else ''}; {instead(name)} [{name}]"
