// SPDX-License-Identifier: Apache-2.0
#include "client/native/call_site.h"

#include <ATen/core/grad_mode.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <cstring>
#include <memory>
#include <new>
#include <unordered_set>

#include "client/native/arguments.h"
#include "client/native/variant_table.h"
#include "client/native/without_gil.h"

namespace ingot::client {

CallCounters& Counters() {
  static CallCounters counters;
  return counters;
}

namespace {

struct Compiled {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  PyObject* target;  ///< what the user wrapped
  PyObject* owner;   ///< the Python engine behind it
  PyObject* weakrefs;
  VariantTable variants;
  std::unordered_set<std::string> refused;  ///< shapes that run eagerly for good
  uint64_t verify_every;  ///< 0: never
  uint64_t served;

  bool VerifiesNext() const { return verify_every != 0 && (served + 1) % verify_every == 0; }
};

constexpr size_t kSymbolsMax = 64;
/// Bound variants of one shape; more come only from ever new object arguments, the oldest go.
constexpr size_t kBoundMax = 64;

/// Buffers of one running call; calls nest (a compiled function inside another's eager run).
struct Frame {
  Arguments arguments;
  RunInputs inputs;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> held;  ///< the inputs, while the GIL is released
  std::string why;
  bool busy = false;
};

class FrameLease {
 public:
  FrameLease() {
    static thread_local Frame frame;
    if (frame.busy) {
      own_ = std::make_unique<Frame>();
      frame_ = own_.get();
    } else {
      frame_ = &frame;
    }
    frame_->busy = true;
  }
  ~FrameLease() {
    frame_->outputs.clear();
    frame_->held.clear();
    frame_->inputs.Clear();
    frame_->busy = false;
  }
  Frame* operator->() { return frame_; }

 private:
  Frame* frame_;
  std::unique_ptr<Frame> own_;
};

PyObject* CallTarget(Compiled* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return PyObject_Vectorcall(self->target, args, nargsf, kwnames);
}

/// Hands the call to Python: `owner._miss(shape, reason, args, kwargs)`.
PyObject* CallMiss(Compiled* self, const Arguments& arguments, const std::string& reason,
                   PyObject* const* args, size_t count, PyObject* kwnames) {
  PyObject* positional = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  PyObject* keywords = PyDict_New();
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[count + i]);
  }
  PyObject* shape = PyBytes_FromStringAndSize(arguments.shape.data(),
                                              static_cast<Py_ssize_t>(arguments.shape.size()));
  PyObject* result = PyObject_CallMethod(self->owner, "_miss", "(OsOO)", shape, reason.c_str(),
                                         positional, keywords);
  Py_DECREF(shape);
  Py_DECREF(keywords);
  Py_DECREF(positional);
  return result;
}

RunOutcome RunVariant(BoundVariant& variant, Frame& frame, bool check_values) {
  const at::Tensor* const* inputs = frame.inputs.tensors.data();
  const size_t count = frame.inputs.tensors.size();
  if (!variant.heavy()) return variant.program().Run(inputs, count, frame.outputs, frame.why, check_values);
  // Another thread may take a tensor out of an argument's container meanwhile.
  frame.held.assign(count, at::Tensor());
  for (size_t i = 0; i < count; ++i) {
    frame.held[i] = *inputs[i];
    frame.inputs.tensors[i] = &frame.held[i];
  }
  const WithoutGil released;
  return variant.program().Run(inputs, count, frame.outputs, frame.why, check_values);
}

/// Answers a call natively and eagerly: `owner._verify(program, args, kwargs)`.
PyObject* CallVerify(Compiled* self, const std::shared_ptr<Program>& program, PyObject* const* args,
                     size_t count, PyObject* kwnames) {
  namespace py = pybind11;
  py::tuple positional(count);
  for (size_t i = 0; i < count; ++i) positional[i] = py::reinterpret_borrow<py::object>(args[i]);
  py::dict keywords;
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    keywords[py::handle(PyTuple_GET_ITEM(kwnames, i))] = py::handle(args[count + i]);
  }
  return PyObject_CallMethod(self->owner, "_verify", "(OOO)", py::cast(program).ptr(),
                             positional.ptr(), keywords.ptr());
}

/// Tries the variants of this shape. Null without a Python error: nothing could serve, and
/// `reason` says why; or it is this call's turn to be verified, and `verified` is set to the
/// program that would have served it. No turn: `verified` is null.
PyObject* Serve(std::vector<std::shared_ptr<BoundVariant>>& variants, Frame& frame,
                std::string& reason, std::shared_ptr<Program>* verified) {
  const Arguments& arguments = frame.arguments;
  int64_t symbols[kSymbolsMax];
  for (size_t i = 0; i < variants.size(); ++i) {
    // A copy: another thread may change the table while the GIL is released.
    const std::shared_ptr<BoundVariant> variant = variants[i];
    Program& program = variant->program();
    if (!variant->ObjectsMatch(arguments.objects)) {
      reason = "objects";
      continue;
    }
    const bool asks = variant->policy().Asks();
    if (asks && !variant->StateHolds()) {
      reason = "stale";
      continue;
    }
    RunInputs& inputs = frame.inputs;
    inputs.Clear();
    inputs.tensors = arguments.tensors;
    if (!variant->Fetch(arguments.objects, inputs)) {
      reason = "stale";
      continue;
    }
    if (program.symbol_count() > kSymbolsMax ||
        !program.Accepts(inputs.tensors.data(), inputs.tensors.size(), symbols)) {
      reason = "guard";
      continue;
    }
    if (!variant->IsProven(symbols, program.symbol_count())) {
      reason = "unproven";
      continue;
    }
    if (at::GradMode::is_enabled() && variant->AnyWeightRequiresGrad()) {
      reason = "unsupported:requires-grad";
      return nullptr;
    }
    if (verified != nullptr && variant->verifiable()) {
      *verified = variant->shared_program();
      return nullptr;
    }
    if (verified != nullptr) Counters().verify_skipped.fetch_add(1, std::memory_order_relaxed);
    switch (RunVariant(*variant, frame, asks)) {
      case RunOutcome::kServed:
        Counters().native_calls.fetch_add(1, std::memory_order_relaxed);
        if (asks) {
          variant->policy().Passed();
        } else {
          Counters().skipped_watches.fetch_add(1, std::memory_order_relaxed);
        }
        if (i > 0 && i < variants.size() && variants[i] == variant) std::swap(variants[0], variants[i]);
        return variant->outputs().Build(frame.outputs, frame.inputs.tensors);
      case RunOutcome::kGuardFailed: reason = "guard"; break;
      case RunOutcome::kWeightChanged: reason = "stale"; break;
      case RunOutcome::kValueGuardFailed:
        Counters().value_guard_failures.fetch_add(1, std::memory_order_relaxed);
        reason = "value:" + frame.why;
        break;
      case RunOutcome::kFailedAfterWrite:
        PyErr_SetString(PyExc_RuntimeError, frame.why.c_str());
        return nullptr;
      case RunOutcome::kFailed:
        Counters().failures.fetch_add(1, std::memory_order_relaxed);
        reason = "failed:" + frame.why;
        return nullptr;
    }
  }
  if (reason == "guard") Counters().guard_failures.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

/// While an outer function is being recorded (or any mode watches the dispatcher), the operators
/// of this one belong to it.
bool IsWatched() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::TESTING_ONLY_GenericMode) ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python);
}

PyObject* Call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* self = reinterpret_cast<Compiled*>(object);
  if (IsWatched()) return CallTarget(self, args, nargsf, kwnames);
  const size_t count = PyVectorcall_NARGS(nargsf);
  FrameLease frame;
  try {
    Flatten(args, count, kwnames, nullptr, false, frame->arguments);
    std::string reason = "new";
    if (frame->arguments.unsupported != nullptr) {
      reason = std::string("unsupported:") + frame->arguments.unsupported;
    } else if (const auto it = self->variants.find(frame->arguments.shape);
               it != self->variants.end() && !it->second.empty()) {
      std::shared_ptr<Program> verified;
      PyObject* result = Serve(it->second, *frame.operator->(), reason,
                               self->VerifiesNext() ? &verified : nullptr);
      if (result != nullptr || verified != nullptr) ++self->served;
      if (verified != nullptr) return CallVerify(self, verified, args, count, kwnames);
      if (result != nullptr || PyErr_Occurred()) return result;
    }
    if (!self->refused.empty() && self->refused.contains(frame->arguments.shape)) {
      Counters().refused_calls.fetch_add(1, std::memory_order_relaxed);
      return CallTarget(self, args, nargsf, kwnames);
    }
    return CallMiss(self, frame->arguments, reason, args, count, kwnames);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  PyObject *target, *owner;
  if (!PyArg_ParseTuple(args, "OO", &target, &owner)) return nullptr;
  auto* self = reinterpret_cast<Compiled*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->vectorcall = Call;
  self->target = Py_NewRef(target);
  self->owner = Py_NewRef(owner);
  self->weakrefs = nullptr;
  self->verify_every = 0;
  self->served = 0;
  new (&self->variants) VariantTable();
  new (&self->refused) std::unordered_set<std::string>();
  return reinterpret_cast<PyObject*>(self);
}

void Dealloc(PyObject* object) {
  auto* self = reinterpret_cast<Compiled*>(object);
  PyObject_GC_UnTrack(object);
  if (self->weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  self->variants.~VariantTable();
  std::destroy_at(&self->refused);
  Py_CLEAR(self->target);
  Py_CLEAR(self->owner);
  Py_TYPE(object)->tp_free(object);
}

int Traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<Compiled*>(object);
  Py_VISIT(self->target);
  Py_VISIT(self->owner);
  return 0;
}

int Clear(PyObject* object) {
  auto* self = reinterpret_cast<Compiled*>(object);
  self->variants.clear();
  Py_CLEAR(self->owner);
  return 0;
}

/// Attributes of the type first, then of the engine, then of what the user wrapped.
PyObject* GetAttribute(PyObject* object, PyObject* name) {
  auto* self = reinterpret_cast<Compiled*>(object);
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) return nullptr;
  // These exist on the type too, but people ask for those of what they wrapped.
  if (strcmp(text, "__doc__") == 0 || strcmp(text, "__module__") == 0) {
    return PyObject_GetAttr(self->target, name);
  }
  PyObject* own = PyObject_GenericGetAttr(object, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  const bool special = text[0] == '_';
  for (PyObject* place : {special ? nullptr : self->owner, self->target}) {
    if (place == nullptr) continue;
    PyErr_Clear();
    PyObject* found = PyObject_GetAttr(place, name);
    if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  }
  return nullptr;
}

/// As a class attribute it binds like a function.
PyObject* Bind(PyObject* self, PyObject* instance, PyObject* /*type*/) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject* Repr(PyObject* object) {
  return PyUnicode_FromFormat("<ingot.Compiled %R>", reinterpret_cast<Compiled*>(object)->target);
}

std::vector<int64_t> Integers(PyObject* sequence) {
  return pybind11::reinterpret_borrow<pybind11::object>(sequence).cast<std::vector<int64_t>>();
}

/// Fills a variant from what Python resolved; throws on a wrong type.
std::shared_ptr<BoundVariant> MakeVariant(const pybind11::dict& parts) {
  namespace py = pybind11;
  auto program = parts["program"].cast<std::shared_ptr<Program>>();
  auto outputs = OutputTree::Parse(parts["outputs"].ptr(), parts["leaf_count"].cast<size_t>(),
                                   parts["input_count"].cast<size_t>());
  if (!outputs) throw std::invalid_argument(outputs.error().message());
  auto variant = std::make_shared<BoundVariant>(std::move(program), std::move(outputs).value());
  variant->set_watch(parts["watch"].cast<std::shared_ptr<Watch>>());
  for (py::handle object : parts["objects"]) BoundVariant::AddObject(variant, object.ptr());
  for (py::handle fetch : parts["fetches"]) {
    auto path = ObjectPath::Parse(fetch.cast<std::string>());
    if (!path) throw std::invalid_argument(path.error().message());
    variant->AddFetch(std::move(path).value());
  }
  for (py::handle weight : parts["weights"]) variant->AddWeight(THPVariable_Unpack(weight.ptr()));
  for (py::handle symbols : parts["proven"]) variant->AddProven(Integers(symbols.ptr()));
  variant->set_heavy(parts["heavy"].cast<bool>());
  auto policy = GuardPolicy::Parse(parts["guards"].cast<std::string>());
  if (!policy) throw std::invalid_argument(policy.error().message());
  variant->set_policy(*policy);
  auto range = guards::GuardSet::Parse(parts["range"].cast<std::string>());
  if (!range) throw std::invalid_argument(range.error().message());
  variant->set_range(std::move(range).value());
  variant->set_verifiable(parts["verifiable"].cast<bool>());
  return variant;
}

/// install(shape, parts): adds a variant in front; returns how many the shape has.
PyObject* Install(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<Compiled*>(object);
  PyObject *shape, *parts;
  if (!PyArg_ParseTuple(args, "SO!", &shape, &PyDict_Type, &parts)) return nullptr;
  try {
    auto variant = MakeVariant(pybind11::reinterpret_borrow<pybind11::dict>(parts));
    auto& variants = self->variants[std::string(PyBytes_AS_STRING(shape), PyBytes_GET_SIZE(shape))];
    variants.insert(variants.begin(), std::move(variant));
    if (variants.size() > kBoundMax) variants.pop_back();
    return PyLong_FromSize_t(variants.size());
  } catch (pybind11::error_already_set& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  }
  return nullptr;
}

/// remove(program): forgets the program's variants in every shape; returns how many.
PyObject* Remove(PyObject* object, PyObject* handle) {
  auto* self = reinterpret_cast<Compiled*>(object);
  try {
    auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    size_t removed = 0;
    for (auto& [shape, variants] : self->variants) {
      removed += std::erase_if(variants, [&](const auto& v) { return &v->program() == program.get(); });
    }
    return PyLong_FromSize_t(removed);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
}

/// prove(shape, program, sizes): the program's variants of a shape serve these symbol values as well; returns how many
/// variants there are.
PyObject* Prove(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<Compiled*>(object);
  PyObject *shape, *handle, *sizes;
  if (!PyArg_ParseTuple(args, "SOO", &shape, &handle, &sizes)) return nullptr;
  try {
    const auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    const auto proven = pybind11::handle(sizes).cast<std::vector<std::vector<int64_t>>>();
    const auto it = self->variants.find(std::string(PyBytes_AS_STRING(shape), PyBytes_GET_SIZE(shape)));
    size_t found = 0;
    for (const auto& variant : it == self->variants.end() ? std::vector<std::shared_ptr<BoundVariant>>() : it->second) {
      if (&variant->program() != program.get()) continue;
      for (const std::vector<int64_t>& symbols : proven) variant->AddProven(symbols);
      ++found;
    }
    return PyLong_FromSize_t(found);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
}

/// forget(shape, objects): drops the shape's variants bound to these very objects.
PyObject* Forget(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<Compiled*>(object);
  PyObject *shape, *list;
  if (!PyArg_ParseTuple(args, "SO!", &shape, &PyList_Type, &list)) return nullptr;
  std::vector<PyObject*> objects;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) objects.push_back(PyList_GET_ITEM(list, i));
  const auto it = self->variants.find(std::string(PyBytes_AS_STRING(shape), PyBytes_GET_SIZE(shape)));
  if (it != self->variants.end()) {
    std::erase_if(it->second, [&](const auto& variant) { return variant->ObjectsMatch(objects); });
  }
  Py_RETURN_NONE;
}

/// set_verify(n): every n-th native call is verified; 0: none.
PyObject* SetVerify(PyObject* object, PyObject* every) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(every);
  if (PyErr_Occurred()) return nullptr;
  reinterpret_cast<Compiled*>(object)->verify_every = number;
  Py_RETURN_NONE;
}

/// refuse(shape): calls of this shape run eagerly from now on, at the cost of looking that up.
PyObject* Refuse(PyObject* object, PyObject* shape) {
  if (!PyBytes_Check(shape)) {
    PyErr_SetString(PyExc_TypeError, "a shape is bytes");
    return nullptr;
  }
  auto* self = reinterpret_cast<Compiled*>(object);
  std::string text(PyBytes_AS_STRING(shape), PyBytes_GET_SIZE(shape));
  self->variants.erase(text);
  self->refused.insert(std::move(text));
  Py_RETURN_NONE;
}

PyObject* Reset(PyObject* object, PyObject* /*unused*/) {
  reinterpret_cast<Compiled*>(object)->variants.clear();
  reinterpret_cast<Compiled*>(object)->refused.clear();
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"_install", Install, METH_VARARGS, "Adds a bound variant to a shape."},
    {"_prove", Prove, METH_VARARGS, "Adds proven sizes to a program's variants of a shape."},
    {"_remove", Remove, METH_O, "Forgets the variants of a program."},
    {"_forget", Forget, METH_VARARGS, "Drops the variants of a shape bound to given objects."},
    {"_refuse", Refuse, METH_O, "Runs a shape eagerly from now on."},
    {"_set_verify", SetVerify, METH_O, "Verifies every n-th native call; 0: none."},
    {"_reset", Reset, METH_NOARGS, "Forgets every variant."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {
    {"_target", T_OBJECT, offsetof(Compiled, target), READONLY, "What was wrapped."},
    {"_engine", T_OBJECT, offsetof(Compiled, owner), READONLY, "The engine behind the callable."},
    {"__wrapped__", T_OBJECT, offsetof(Compiled, target), READONLY, "What was wrapped."},
    {nullptr, 0, 0, 0, nullptr}};

PyTypeObject kType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

int AddCompiledType(PyObject* module) {
  kType.tp_name = "ingot.Compiled";
  kType.tp_basicsize = sizeof(Compiled);
  kType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                   Py_TPFLAGS_METHOD_DESCRIPTOR;
  // The flag promises that f(obj, ...) equals obj.f(...), which Bind keeps.
  kType.tp_vectorcall_offset = offsetof(Compiled, vectorcall);
  kType.tp_call = PyVectorcall_Call;
  kType.tp_new = New;
  kType.tp_dealloc = Dealloc;
  kType.tp_traverse = Traverse;
  kType.tp_clear = Clear;
  kType.tp_getattro = GetAttribute;
  kType.tp_descr_get = Bind;
  kType.tp_repr = Repr;
  kType.tp_methods = kMethods;
  kType.tp_members = kMembers;
  kType.tp_weaklistoffset = offsetof(Compiled, weakrefs);
  kType.tp_doc = "A compiled callable; made by ingot.compile and ingot.cache_compile.";
  if (PyType_Ready(&kType) != 0) return -1;
  Py_INCREF(&kType);
  return PyModule_AddObject(module, "Compiled", reinterpret_cast<PyObject*>(&kType));
}

}  // namespace ingot::client
