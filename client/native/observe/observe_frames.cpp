// SPDX-License-Identifier: Apache-2.0
// Which functions the observer follows into their frames, and what leads to their code.

#include "client/native/observe/observer.h"

#include <algorithm>
#include <array>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/effect_table.h"
#include "client/native/effects/escapes.h"
#include "client/native/places/containers.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/torch_ops.h"

namespace ingot::client {
namespace {

/// Variables that a function has from those around it: `visit(cell, name, index)`.
template <typename Visit>
void EachCell(PyObject* function, Visit visit) {
  PyObject* cells = PyFunction_GET_CLOSURE(function);
  if (cells == nullptr) return;
  const PythonRef names(PyObject_GetAttrString(PyFunction_GET_CODE(function), "co_freevars"));
  DropError();
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(cells) && i < PyTuple_GET_SIZE(names.get()); ++i)
    visit(PyTuple_GET_ITEM(cells, i), PyTuple_GET_ITEM(names.get(), i), i);
}

/// Code of PyTorch's that keeps books of its own: what it reads there steers no answer.
std::optional<InstructionListener::FrameMode> FrameModeOfTorch(std::string_view file, std::string_view function) {
  using FrameMode = InstructionListener::FrameMode;
  struct Entry {
    std::string_view file, function;
    FrameMode mode;
  };
  constexpr Entry kEntries[] = {
      // Operators come into torch.ops when they are first asked for; the graph names them.
      {"/torch/_ops.py", "_Ops.__getattr__", FrameMode::kMute},
      {"/torch/_ops.py", "_OpNamespace.__getattr__", FrameMode::kMute},
      {"/torch/_ops.py", "OpOverloadPacket.__getattr__", FrameMode::kMute},
      {"/torch/_ops.py", "HigherOrderOperator.", FrameMode::kSkip},
      // EnterOperator() says what these read.
      {"/torch/_ops.py", "OpOverload.__call__", FrameMode::kSkip},
      {"/torch/_ops.py", "TorchBindOpOverload.__call__", FrameMode::kSkip},
      {"/torch/_ops.py", "OpOverloadPacket.__call__", FrameMode::kSkip},
      // As that of tensors below.
      {"/torch/_ops.py", "OpOverload.__hash__", FrameMode::kMute},
      {"/torch/_ops.py", "OpOverloadPacket.__hash__", FrameMode::kMute},
      // The result of a collective, which the recorder waits for.
      {"/torch/distributed/_functional_collectives.py", "AsyncCollectiveTensor.", FrameMode::kMute},
      // Numbers modules for Dynamo.
      {"/torch/_dynamo/mutation_guard.py", "GenerationTracker.", FrameMode::kMute},
      // Sets and dicts find an object again by its address. Who asks for the number is met at the call.
      {"/torch/_tensor.py", "Tensor.__hash__", FrameMode::kMute},
      // Numbers classes, and makes one for the way back.
      {"/torch/autograd/function.py", "FunctionMeta.", FrameMode::kMute},
      // Looks a class up when it is first asked for.
      {"/torch/_opaque_base.py", "OpaqueBaseMeta.", FrameMode::kMute},
  };
  for (const Entry& entry : kEntries) {
    if (file.ends_with(entry.file) && function.starts_with(entry.function)) return entry.mode;
  }
  return std::nullopt;
}

/// What runs in the place of a function that torch.compile was given.
bool IsCompiledCall(PyCodeObject* code) {
  return ViewOf(code->co_name) == "compile_wrapper" &&
         ViewOf(code->co_filename).ends_with("/torch/_dynamo/eval_frame.py");
}

/// Functions that read clocks, files and stacks only to write a message, which happens on recorded
/// calls alone, and that give nothing back.
bool WritesMessages(std::string_view module, std::string_view function) {
  constexpr std::array<std::string_view, 2> kPackages = {"logging", "warnings"};
  constexpr std::array<std::string_view, 11> kFunctions = {"debug",         "info",        "warning",     "warn",
                                                           "error",         "exception",   "critical",    "log",
                                                           "warn_explicit", "showwarning", "_showwarnmsg"};
  return std::ranges::find(kPackages, module) != kPackages.end() &&
         std::ranges::find(kFunctions, function) != kFunctions.end();
}

}  // namespace

InstructionListener::FrameMode Observer::Enter(const EnteredFrame& frame) {
  if (IsInMetaKernel()) return FrameMode::kMute;
  if (refused_) return FrameMode::kSkip;
  if (IsInOperator()) {
    // A kernel written in Python is a step of the graph and runs in every call; that it is the same
    // code is noted.
    auto* function = reinterpret_cast<PyObject*>(frame.function);
    const auto path =
        function == nullptr || log_.IsOutside(function)
            ? std::nullopt
            : CanonicalPath(function, ViewOf(frame.function->func_module), ViewOf(frame.function->func_qualname));
    if (path && !path->ends_with(':')) log_.NoteField(log_.AddRoot(function, *path), "code");
    return FrameMode::kMute;
  }
  if (reinterpret_cast<PyObject*>(frame.code) == import_code_.get()) Import(frame.first);
  auto it = modes_.find(frame.code);
  if (it == modes_.end()) {
    FrameMode mode = FrameMode::kObserve;
    const std::string_view file = ViewOf(frame.code->co_filename);
    if (reinterpret_cast<PyObject*>(frame.code) == import_code_.get()) {
      mode = FrameMode::kMute;
    } else if (file.starts_with(own_)) {
      mode = FrameMode::kSkip;
    } else if (const auto of_torch = FrameModeOfTorch(file, ViewOf(frame.code->co_qualname))) {
      mode = *of_torch;
    } else if (WritesMessages(ViewOf(NameOfGlobals(frame.globals)), ViewOf(frame.code->co_name))) {
      mode = FrameMode::kMute;
    }
    const bool is_of_tensor = file.ends_with("/torch/_tensor.py");
    if (is_of_tensor && ViewOf(frame.code->co_qualname) == "Tensor.__hash__")
      tensor_hash_ = PythonRef::Borrow(reinterpret_cast<PyObject*>(frame.code));
    if (const std::string_view name = is_of_tensor ? EscapeOf(ViewOf(frame.code->co_name)) : ""; !name.empty())
      Escape(frame.first, name, ViewOf(frame.code->co_name));
    if (file.ends_with("/torch/_ops.py") && ViewOf(frame.code->co_qualname) == "HigherOrderOperator.__call__")
      hooks_.escape({"higher-order", frame.first == nullptr ? "" : Py_TYPE(frame.first)->tp_name});
    held_.push_back(PythonRef::Borrow(reinterpret_cast<PyObject*>(frame.code)));
    it = modes_.emplace(frame.code, mode).first;
    // Code that torch.compile made computes behind the dispatcher's back.
    if (IsCompiledCall(frame.code)) {
      Refuse("compiled", "the function calls torch.compile");
      return FrameMode::kSkip;
    }
  }
  if (it->second == FrameMode::kSkip && frame.first != nullptr && IsOfTorchOps(Py_TYPE(frame.first)))
    EnterOperator(frame);
  const auto is_this = [&](const PythonRef& code) { return code.get() == reinterpret_cast<PyObject*>(frame.code); };
  if (std::ranges::any_of(interrupts_, is_this)) {
    Refuse("interrupted", std::string(ViewOf(frame.code->co_qualname)) + " handled a signal during the call");
    return FrameMode::kSkip;
  }
  const bool is_tensor_hash = reinterpret_cast<PyObject*>(frame.code) == tensor_hash_.get();
  if (is_tensor_hash && frame.first != nullptr) FindByAddress(frame.first);
  // Finalizers run when an object goes, whatever runs then, and nothing takes what they give: those of libraries
  // tidy up. A program's own would have to run when a native call ends what it never made.
  const bool is_finalizer = frame.first != nullptr && !log_.IsOutside(reinterpret_cast<PyObject*>(frame.function)) &&
                            (PyWeakref_CheckRef(frame.first) || ViewOf(frame.code->co_name) == "__del__");
  if (it->second == FrameMode::kObserve && is_finalizer) {
    if (IsOfLibrary(reinterpret_cast<PyObject*>(frame.function))) return FrameMode::kMute;
    Refuse("finalizer", std::string(ViewOf(frame.code->co_qualname)) + " ran when an object went");
    return FrameMode::kSkip;
  }
  if (it->second == FrameMode::kObserve) Explain(frame);
  return refused_ ? FrameMode::kSkip : it->second;
}

/// An operator is called, which calls the function that it stands for: the instructions that do so are not told.
void Observer::EnterOperator(const EnteredFrame& frame) {
  static PyObject* const op = PyUnicode_InternFromString("_op");
  static PyObject* const is_bound = PyUnicode_InternFromString("_has_torchbind_op_overload");
  EnterFunction(reinterpret_cast<PyObject*>(frame.function));
  LoadAttribute(frame.first, op);
  if (MakesOperators(Py_TYPE(frame.first))) LoadAttribute(frame.first, is_bound);
  const PlaceValue stands_for = LoadPlace(frame.first, AccessKind::kAttribute, op);
  if (stands_for.is_absent() || PyFunction_Check(stands_for.object.get())) return;
  // Where a kernel is Python code, PyTorch 2.15 looks for it by an object of its own.
  const bool is_native = EffectTable::IsNative(stands_for.object.get()) ||
                         EffectTable::NameOf(stands_for.object.get()) == "torch._C._PyObjectDispatchFunc";
  const bool is_operator = is_native && EffectTable::Shared().EffectOf(stands_for.object.get()) == Effect::kOperator;
  if (!is_operator) Refuse("call", EffectTable::NameOf(stands_for.object.get()) + ", for which an operator stands");
}

/// A function that runs was read from outside or made by the run; one that C code calls by itself
/// is found in the class of its first argument, or by its own name.
void Observer::Explain(const EnteredFrame& frame) {
  auto* function = reinterpret_cast<PyObject*>(frame.function);
  if (function == nullptr || entered_.contains(function) || fresh_.contains(function)) return;
  if (!log_.IsOutside(function) && frame.first != nullptr) {
    PyTypeObject* type =
        PyType_Check(frame.first) ? reinterpret_cast<PyTypeObject*>(frame.first) : Py_TYPE(frame.first);
    for (PyTypeObject* one : {Py_TYPE(frame.first), type}) {
      PyObject* found = LookUpInClass(one, frame.code->co_name);
      if (found != nullptr) LookUp(one, frame.code->co_name, frame.first);
      if (found != nullptr && found != function) Bind(found, nullptr);
    }
    // Under another name than its own: `__eq__ = _equal`.
    for (Py_ssize_t i = 0; !log_.IsOutside(function) && type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro);
         ++i) {
      PyObject* dict = DictOf(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
      Py_ssize_t at = 0;
      PyObject *key, *value;
      while (dict != nullptr && PyDict_Next(dict, &at, &key, &value)) {
        if (value != function) continue;
        LookUp(type, key, frame.first);
        break;
      }
    }
  }
  if (!log_.IsOutside(function)) {
    NoteByName(function, ViewOf(frame.function->func_module), ViewOf(frame.function->func_qualname));
  }
  if (refused_) return;
  if (!log_.IsOutside(function)) {
    return Refuse("unexplained-code", std::string(ViewOf(frame.function->func_qualname)) +
                                          " was called by native code, and no name leads to it");
  }
  EnterFunction(function);
}

/// Native code calls a function that its own name leads to: every place on the way there counts, as it does where
/// Python code looks the name up.
void Observer::NoteByName(PyObject* function, std::string_view module, std::string_view qualname) {
  const auto path = CanonicalPath(function, module, qualname);
  if (!path || path->ends_with(':')) return;
  const PythonRef name(PyUnicode_FromStringAndSize(module.data(), static_cast<Py_ssize_t>(module.size())));
  PyObject* holder = ModuleNamed(name.get());
  for (size_t at = 0; holder != nullptr && at < qualname.size();) {
    const size_t end = std::min(qualname.find('.', at), qualname.size());
    const PythonRef part(PyUnicode_InternFromString(std::string(qualname.substr(at, end - at)).c_str()));
    const auto number = PyModule_Check(holder) ? ModuleNumber(holder)
                        : PyType_Check(holder) ? TypeNumber(reinterpret_cast<PyTypeObject*>(holder))
                                               : log_.Find(holder);
    if (!number) return;
    log_.NoteRead(*number, AccessKind::kAttribute, part.get());
    holder = LoadPlace(holder, AccessKind::kAttribute, part.get()).object.get();  // Which keeps it.
    at = end + 1;
  }
  if (holder == nullptr || holder == function) return;
  if (const auto wrapper = log_.Find(holder)) log_.NoteField(*wrapper, "wrapped");
}

void Observer::EnterFunction(PyObject* function) {
  if (log_.IsOutside(function) && entered_.insert(function).second) NoteFunction(function);
}

void Observer::NoteFunction(PyObject* function) {
  const auto number = log_.Find(function);
  if (!number) return;
  log_.NoteField(*number, "code");
  if (HasOwnBuiltins(function)) log_.NoteField(*number, "builtins");
  for (const char* field : {"defaults", "kwdefaults"}) {
    PyObject* held = field[0] == 'd' ? PyFunction_GET_DEFAULTS(function) : PyFunction_GET_KW_DEFAULTS(function);
    if (held == nullptr) continue;
    log_.NoteField(*number, field);
    if (const auto inner = log_.Find(held)) log_.NoteWhole(*inner);
  }
  EachCell(function, [&](PyObject* cell, PyObject* name, Py_ssize_t index) {
    // The code, which the log holds, keeps the name alive.
    const CellOf own{*number, name, index};
    const auto [it, fresh] = cells_.emplace(cell, own);
    if (fresh || it->second.function == *number) return;
    // That two functions share it is read as well.
    NoteCell(it->second);
    NoteCell(own);
  });
}

void Observer::NoteCell(const CellOf& cell) {
  log_.NoteField(cell.function, "closure");
  const PythonRef index(PyLong_FromSsize_t(cell.index));
  if (const auto number = log_.Find(PyFunction_GET_CLOSURE(log_.At(cell.function))))
    log_.NoteRead(*number, AccessKind::kItem, index.get());
}

/// `super()` finds its class in a variable of the function that calls it.
void Observer::LoadClassCell() {
  if (frame_function_ == nullptr) return;
  EachCell(reinterpret_cast<PyObject*>(frame_function_), [this](PyObject* cell, PyObject* name, Py_ssize_t) {
    if (ViewOf(name) == "__class__") LoadCell(cell);
  });
}

}  // namespace ingot::client
