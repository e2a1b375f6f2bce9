// SPDX-License-Identifier: Apache-2.0
#include "client/native/observe/observer.h"

#include <algorithm>
#include <span>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/user_line.h"
#include "client/native/places/containers.h"
#include "client/native/places/dataclass_fields.h"
#include "client/native/places/field_content.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Values of which Python keeps one: equal ones are the same object.
bool IsOnlyOne(PyObject* value) {
  constexpr long kSmallestKept = -5, kLargestKept = 256;
  int overflow = 0;
  if (PyLong_CheckExact(value)) {
    const long number = PyLong_AsLongAndOverflow(value, &overflow);
    return overflow == 0 && number >= kSmallestKept && number <= kLargestKept;
  }
  const bool may_be_many = PyFloat_CheckExact(value) || PyComplex_CheckExact(value) || PyUnicode_CheckExact(value) ||
                           PyBytes_CheckExact(value) || PyRange_Check(value) || PySlice_Check(value) ||
                           std::string_view(Py_TYPE(value)->tp_name) == "torch.device";
  return !may_be_many;
}

PythonRef ImportCode() {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "_frozen_importlib");
  const PythonRef function(module ? PyObject_GetAttrString(module, "_find_and_load") : nullptr);
  PythonRef code(function ? PyObject_GetAttrString(function.get(), "__code__") : nullptr);
  DropError();
  return code;
}

}  // namespace

Observer::Observer(std::string own) : own_(std::move(own)), trace_(*this), import_code_(ImportCode()) {}

Status Observer::Start(PyObject* target, uint64_t instructions_max) {
  instructions_max_ = instructions_max;
  log_.Begin();
  while (PyObject* const wrapped = CompiledTarget(target)) target = wrapped;
  PyObject* const function = PyMethod_Check(target) ? PyMethod_GET_FUNCTION(target) : target;
  if (PyFunction_Check(function)) {
    EnterFunction(function);
  } else if (PyMethod_Check(target)) {
    Refuse("call", std::string("a method of a ") + Py_TYPE(function)->tp_name);
  } else {
    LookUpSpecial(target, "__call__");
  }
  NoteOperators();
  handled_before_ = PythonRef(PyErr_GetHandledException());
  TRY(trace_.Start());
  made_.Start();
  if (!refused_) pauses_collections_ = PyGC_Disable() != 0;
  return {};
}

/// The rest of a refused call, and who asks there whether garbage is collected, find what the program has set.
void Observer::CollectAgain() {
  if (std::exchange(pauses_collections_, false)) PyGC_Enable();
}

/// What `+` and its like do to tensors: instructions find it in their classes, and so may a patch.
void Observer::NoteOperators() {
  for (PyTypeObject* type : TensorTypes()) {
    if (const auto number = TypeNumber(type)) log_.NoteField(*number, "special");
  }
}

void Observer::Stop() {
  CollectAgain();
  const bool has_run = trace_.running();
  trace_.Stop();
  made_.Stop();
  static PyObject* const context = PyUnicode_InternFromString("context");
  for (const auto& [number, before] : borrowed_contexts_) {
    if (refused_) break;
    const PlaceValue now = LoadPlace(log_.At(number), AccessKind::kField, context);
    if (now.content != before) Refuse("side-effect", log_.PathOf(number) + " (a context variable) was changed");
  }
  borrowed_contexts_.clear();
  for (const auto& [lock, taken] : locks_) {
    if (taken == 0) continue;
    Refuse("side-effect",
           taken > 0 ? "a lock is still held when the run ends" : "a lock is given back that the run has not taken");
    break;
  }
  locks_.clear();
  for (const PythonRef& name : imports_to_come_) {
    // Whether it is found the next time is written in files, paths and finders.
    if (ModuleNamed(name.get()) == nullptr)
      Refuse("import", std::string(ViewOf(name.get())) + " could not be imported");
  }
  DropError();
  imports_to_come_.clear();
  if (has_run && !refused_) log_.CheckChanges();
  EndFollowing();
  // Functions that the run has made may hold its tensors: nothing but the log outlives the run.
  for (auto* set : {&entered_, &fresh_}) set->clear();
  loaded_.clear();
  looked_up_.clear();
  modes_.clear();
  globals_.clear();
  cells_.clear();
  aliased_ = PythonRef();
  handled_before_ = PythonRef();
  held_.clear();
}

void Observer::Refuse(std::string name, std::string detail) {
  if (refused_) return;
  refused_ = Refused{std::move(name), WithUserLine(std::move(detail))};
  CollectAgain();
  trace_.Mute();
  made_.Stop();
  hooks_.refuse(*refused_);
}

/// Python's frames stand above: an exception of C++ must not pass through them.
template <typename Step>
void Observer::Guard(Step step) {
  try {
    try {
      step();
    } catch (const std::exception& e) {
      DropError();
      Refuse("internal", std::string("the observer failed: ") + e.what());
    }
  } catch (const std::exception&) {
    DropError();  // Nobody could be told; it is refused.
  }
}

InstructionListener::FrameMode Observer::OnEnter(const EnteredFrame& frame) {
  FrameMode mode = FrameMode::kSkip;
  Guard([&] { mode = Enter(frame); });
  return mode;
}

int Observer::OnInstruction(const Instruction& instruction) {
  int tag = kNone;
  Guard([&] { tag = See(instruction); });
  return tag;
}

/// What was noted before it happened has not.
void Observer::OnRaise() {
  Guard([&] { Refuse("side-effect", "a change that raised an exception"); });
}

PyObject* Observer::OnResult(int tag, PyObject* result) {
  PyObject* other = nullptr;
  Guard([&] {
    SeeResult(tag & kTagMask, result);
    if (tag > kTagMask) other = FollowResult(static_cast<size_t>(tag >> kTagBits) - 1, result);
  });
  return other;
}

/// A tensor of a class of its own computes as that says.
void Observer::CheckClass(PyObject* tensor) {
  if (IsPlainTensor(tensor)) return;
  PyTypeObject* type = Py_TYPE(tensor);
  const std::string_view module = ModuleOf(type);
  // The recorder waits for the result of a collective.
  if (module == "torch.distributed._functional_collectives") return;
  const bool is_lazy = module == "torch.nn.parameter" && QualnameOf(type).starts_with("Uninitialized");
  hooks_.escape({is_lazy ? "uninitialized" : "subclass", std::string(module) + "." + std::string(QualnameOf(type))});
}

/// The recorder refuses; the observation goes on, for what can be made of the run without it.
void Observer::Escape(PyObject* tensor, std::string_view name, std::string_view method) {
  if (tensor != nullptr && IsTensor(tensor)) CheckClass(tensor);
  hooks_.escape({std::string(name), WithUserLine("Tensor." + std::string(method))});
}

void Observer::ReleaseLog() {
  if (!log_.reads().empty()) {
    log_.Settle();
    read_before_refusal_ = DependencyRecord::Of(log_).rows();
    for (const ObservedLog::Moved& one : log_.moved()) {
      std::erase_if(read_before_refusal_, [&one](const DependencyRow& row) { return row.where == one.path; });
    }
  }
  for (const PythonRef& name : imports_to_come_) {
    if (ModuleNamed(name.get()) == nullptr) missed_before_refusal_.emplace_back(ViewOf(name.get()));
  }
  DropError();
  log_.Release();
}

int Observer::See(const Instruction& in) {
  aliased_ = PythonRef();
  result_use_ = ResultUse::kNo;
  writes_before_ = log_.writes().size();
  const size_t pending = refused_ ? 0 : Follow(in);
  const int tag = refused_ ? kNone : Observe(in);
  passed_on_.clear();
  if (!refused_ && !log_.problem().empty()) Refuse(log_.problem_kind(), log_.problem());
  // What the instruction lets go must go.
  if (refused_) ReleaseLog();
  return (aliased_ ? static_cast<int>(kAliased) : tag) | static_cast<int>(pending << kTagBits);
}

/// Objects reached by two paths are in the record as one; those that are not one matter where somebody asks. Of
/// values a record says what they are and not which of several equal ones.
void Observer::Identity(PyObject* one, PyObject* other) {
  if (IsAtom(one) && IsAtom(other)) {
    const bool is_told = IsOnlyOne(one) || IsOnlyOne(other) || DigestOfValue(one) != DigestOfValue(other);
    if (!is_told)
      Refuse("value-identity",
             std::string("equal values (") + Py_TYPE(one)->tp_name + ") are held against each other by `is`");
    return;
  }
  if (PyCode_Check(one) && PyCode_Check(other)) return Refuse("value-identity", "code is held against other code");
  // One of them may be a constant of the code, which another place holds or not as compilers keep one of equal ones.
  const auto is_constant = [&](PyObject* value) {
    return (PyTuple_CheckExact(value) || PyFrozenSet_CheckExact(value)) && !IsMade(value);
  };
  if (is_constant(one) && is_constant(other))
    return Refuse("value-identity", std::string(Py_TYPE(one)->tp_name) + " is held against another by `is`");
  if (IsAtom(one) || IsAtom(other)) return;
  if (one == other) {
    // Where both were found at places, the record says that they are one; of a container that is told by its content,
    // no place is in the record.
    if (log_.IsArgument(one) && !IsTensor(one) && (IsToldByContent(one) || !log_.Find(one)))
      RefuseArgument("argument-identity", one, "an argument is held against what may be another object");
    return;
  }
  const auto a = log_.Find(one), b = log_.Find(other);
  if (a && b) return log_.NoteApart(*a, *b);
  // Which tensors a call passes twice, its structure says.
  if ((a && log_.IsArgument(other)) || (b && log_.IsArgument(one)))
    Refuse("argument-identity", "an argument is held against what the function finds by itself");
  const bool is_argument = (log_.IsArgument(one) && !IsTensor(one)) || (log_.IsArgument(other) && !IsTensor(other));
  if (is_argument) Refuse("argument-identity", "arguments are held against each other");
}

/// Whether the run has made it, or part of it.
bool Observer::IsMade(PyObject* value) {
  if (made_.Contain(value)) return true;
  for (Py_ssize_t i = 0; PyTuple_CheckExact(value) && i < PyTuple_GET_SIZE(value); ++i) {
    PyObject* one = PyTuple_GET_ITEM(value, i);
    if (!IsAtom(one) && IsMade(one)) return true;
  }
  return false;
}

/// What operators say that is no tensor: of those behind `torch.ops` many are no operators to the dispatcher, so that
/// a recorder sees nothing of them. Methods of tensors have a table of their own.
void Observer::SeeAnswer(PyObject* result) {
  const auto is_tensor = [](PyObject* one) { return one == Py_None || IsTensor(one); };
  bool is_of_tensors = is_tensor(result);
  if (PyTuple_Check(result) || PyList_CheckExact(result)) {
    is_of_tensors = std::ranges::all_of(ItemsOf(result), is_tensor);
  }
  std::string_view name = std::string_view(asked_).substr(0, asked_.find('.'));  // "aten::sym_size.int"
  if (const size_t space = name.find("::"); space != name.npos) name.remove_prefix(space + 2);
  if (name.starts_with("sym_")) name.remove_prefix(4);
  if (!is_of_tensors && !IsToldByGuards(name)) Refuse("call", "torch.ops." + asked_ + ", which gives no tensor");
}

void Observer::SeeResult(int tag, PyObject* result) {
  if (result == nullptr || refused_) return;
  if (tag == kOperatorAnswer) return SeeAnswer(result);
  if (tag == kAnswered && !answers_.empty()) {
    const AwaitedAnswer answer = std::move(answers_.back());
    answers_.pop_back();
    if (log_.writes().size() > answer.writes) return Refuse("call", "a cached function that changes something");
    if (KeptAnswer(log_.At(answer.function), answer.arguments.get()) != result)
      return Refuse("call", "a cached function that does not keep its answer where it is found again");
    log_.NoteAnswer(answer.function, answer.arguments.get(), result);
    SpecializeOnContent(result);  // Later calls find it as it is, whatever becomes of what it was computed of.
  }
  if (tag == kAliased && aliased_ && IsTensor(result)) hooks_.alias(aliased_.get(), result);
  if (tag == kImported && PyModule_Check(result)) ModuleNumber(result);
  if (tag == kMadeClass && classes_in_making_ > 0) --classes_in_making_;
  if (tag == kMadeClass && PyType_Check(result)) NoteNamed(result);
  if (tag == kMade || tag == kMadeClass) {
    fresh_.insert(result);
    held_.push_back(PythonRef::Borrow(result));
  }
  const bool is_plain = IsAtom(result) || PyType_Check(result) || PyFunction_Check(result) || PyModule_Check(result);
  const bool is_known =
      tag == kSetting && (log_.IsOutside(result) || Py_REFCNT(result) == 1 || context_values_.contains(result));
  // The call leads to it, as a place does, where it is none of this run's.
  const bool is_led_to = tag == kAnswered && (IsTensor(result) || PyTuple_CheckExact(result)) && log_.IsOutside(result);
  if (is_led_to && IsMade(result))
    return Refuse("fresh-answer", std::string("a cached function made a ") + Py_TYPE(result)->tp_name);
  if ((tag == kSetting || tag == kAnswered) && !is_plain && !is_known && !is_led_to) {
    Refuse("unexplained-result", std::string("a call gave a ") + Py_TYPE(result)->tp_name + " that existed before");
  }
}

/// Descriptors in the body of a class statement are told their names.
void Observer::NoteNamed(PyObject* made) {
  static PyObject* const set_name = PyUnicode_InternFromString("__set_name__");
  PyObject* dict = DictOf(reinterpret_cast<PyTypeObject*>(made));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (dict != nullptr && PyDict_Next(dict, &at, &key, &value)) {
    if (IsImmutable(Py_TYPE(value)) || PyType_Check(value)) continue;
    LookUp(Py_TYPE(value), set_name, value);
    NoteType(value);
  }
}

}  // namespace ingot::client
