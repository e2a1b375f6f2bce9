// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/call_site.h"

#include <ATen/Parallel.h>
#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <unordered_set>

#include "client/lib/threads/aten_threads.h"
#include "client/lib/threads/machine_share.h"
#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/site/arguments.h"
#include "client/native/site/bindings.h"
#include "client/native/site/call_counters.h"
#include "client/native/site/call_frame.h"
#include "client/native/site/call_site_object.h"
#include "client/native/site/compiled_protocol.h"
#include "client/native/site/rank_vote.h"
#include "client/native/site/retries.h"
#include "client/native/site/timed_call.h"
#include "client/native/site/unserved_calls.h"
#include "client/native/site/variant_table.h"

namespace ingot::client {

namespace {

PyObject* CallTarget(CallSite* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return PyObject_Vectorcall(self->base.target, args, nargsf, kwnames);
}

/// Hands the call to Python: `owner._miss(reason, args, kwargs)`.
PyObject* CallMiss(CallSite* self, const std::string& reason, PyObject* const* args, size_t count, PyObject* kwnames) {
  PyObject* positional = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
  PyObject* keywords = PyDict_New();
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyDict_SetItem(keywords, PyTuple_GET_ITEM(kwnames, i), args[count + i]);
  }
  PyObject* result = PyObject_CallMethod(self->owner, "_miss", "(sOO)", reason.c_str(), positional, keywords);
  Py_DECREF(keywords);
  Py_DECREF(positional);
  return result;
}

/// Answers a call eagerly and holds the program against that: `owner._verify(program, args, kwargs)`, or, where its
/// sizes are waited for, `owner._agree(...)`.
PyObject* CallWithheld(CallSite* self, const CallFrame::Withheld& withheld, PyObject* const* args, size_t count,
                       PyObject* kwnames) {
  namespace py = pybind11;
  py::tuple positional(count);
  for (size_t i = 0; i < count; ++i) positional[i] = py::reinterpret_borrow<py::object>(args[i]);
  py::dict keywords;
  const Py_ssize_t named = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t i = 0; i < named; ++i) {
    keywords[py::handle(PyTuple_GET_ITEM(kwnames, i))] = py::handle(args[count + i]);
  }
  return PyObject_CallMethod(self->owner, withheld.is_verified ? "_verify" : "_agree", "(OOO)",
                             py::cast(withheld.program).ptr(), positional.ptr(), keywords.ptr());
}

/// While an outer function is being recorded or traced (or any mode watches the dispatcher), the
/// operators of this one belong to it.
bool IsWatched() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Tracer) ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::TESTING_ONLY_GenericMode) ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python);
}

/// Null where the signature is not refused.
Refused* RefusedOf(CallSite* self, const std::string& signature) {
  const auto it = self->refused.empty() ? self->refused.end() : self->refused.find(signature);
  return it == self->refused.end() ? nullptr : &it->second;
}

/// A call has answered as its turn was; takes over the answer, null for an exception.
PyObject* Ended(CallSite* self, const std::string& signature, const TimedCall& call, PyObject* result) {
  if (call.IsTimed() && result != nullptr) call.End(self->paces, *self->variants.TrialsOf(signature), signature);
  return result;
}

/// The plain function, as if nothing had been compiled for this call; while it is tried, with no more threads than a
/// served one has, so that both are under the same conditions and neither stands in other processes' way.
PyObject* CallPlain(CallSite* self, const std::string& signature, const TimedCall& turn, PyObject* const* args,
                    size_t nargsf, PyObject* kwnames) {
  Counters().plain_calls.fetch_add(1, std::memory_order_relaxed);
  const InParts scope(false);
  std::optional<MachineShare::Call> share;
  std::optional<AtenThreads> threads;
  if (turn.IsOfTrial()) {
    share.emplace(MachineShare::Instance(), at::get_num_threads());
    threads.emplace(share->steady_threads());
  }
  return Ended(self, signature, turn, CallTarget(self, args, nargsf, kwnames));
}

/// Null without a Python error: nothing could serve the call, and `reason` says why; or it is the plain function's
/// `turn`, where that is asked for.
PyObject* Attempt(CallSite* self, CallFrame& frame, PyObject* const* args, size_t count, PyObject* kwnames,
                  std::string& reason, RankVote* vote = nullptr, TimedCall* turn = nullptr) {
  Flatten(args, count, kwnames, nullptr, false, &self->varying, frame.arguments);
  if (frame.arguments.unsupported != nullptr) {
    reason = std::string("unsupported:") + frame.arguments.unsupported;
    return nullptr;
  }
  const boost::local_shared_ptr<VariantTable::OfSignature> known = self->variants.Of(frame.arguments.signature);
  if (known == nullptr) return nullptr;
  Refused* const refused = RefusedOf(self, frame.arguments.signature);
  if (refused != nullptr && !refused->retries.IsTurn()) {
    refused->retries.Note(false);
    return nullptr;
  }
  if (turn != nullptr && refused == nullptr) {
    *turn = TimedCall(self->paces, known->trials, frame.arguments.tensors);
    if (turn->IsPlain()) return nullptr;
  }
  CallFrame::Withheld withheld{.is_turn = vote == nullptr && self->VerifiesNext()};
  PyObject* result = frame.Serve(known->variants, reason, withheld, vote);
  // Looked for again: another thread may have emptied the table meanwhile.
  if (Refused* again = RefusedOf(self, frame.arguments.signature)) again->retries.Note(result != nullptr);
  if (result != nullptr || withheld.is_verified) ++self->served;
  return withheld.program != nullptr ? CallWithheld(self, withheld, args, count, kwnames) : result;
}

/// Serves the parts of a function that is not served as a whole.
PyObject* CallInParts(CallSite* self, const std::string& signature, const Refused& refused,
                      const std::vector<const at::Tensor*>& tensors, PyObject* const* args, size_t nargsf,
                      PyObject* kwnames) {
  const PythonRef in_pieces = PythonRef::Borrow(refused.in_pieces.get());
  const boost::local_shared_ptr<Trials> trials = self->variants.TrialsOf(signature);
  const TimedCall turn(self->paces, *trials, tensors);
  if (turn.IsPlain()) return CallPlain(self, signature, turn, args, nargsf, kwnames);
  const InParts scope(true);
  if (in_pieces) return Ended(self, signature, turn, PyObject_Vectorcall(in_pieces.get(), args, nargsf, kwnames));
  Counters().refused_calls.fetch_add(1, std::memory_order_relaxed);
  return Ended(self, signature, turn, CallTarget(self, args, nargsf, kwnames));
}

PyObject* Call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  auto* self = reinterpret_cast<CallSite*>(object);
  if (IsWatched() || (self->base.is_part && !InParts::IsOn())) return CallTarget(self, args, nargsf, kwnames);
  if (self->consensus != nullptr && EagerCall::IsUnderWay()) return CallTarget(self, args, nargsf, kwnames);
  const size_t count = PyVectorcall_NARGS(nargsf);
  FrameLease frame;
  try {
    std::string reason = "new";
    std::optional<RankVote> vote;
    if (self->consensus != nullptr) vote.emplace(*self->consensus);
    TimedCall turn;
    PyObject* result =
        Attempt(self, *frame, args, count, kwnames, reason, vote ? &*vote : nullptr, vote ? nullptr : &turn);
    const std::string& signature = frame->arguments.signature;
    if (result != nullptr || PyErr_Occurred()) return Ended(self, signature, turn, result);
    if (turn.IsPlain()) return CallPlain(self, signature, turn, args, nargsf, kwnames);
    if (vote && !vote->is_cast) {
      const WithoutGil released;
      vote->Cast(0);
    }
    const EagerCall eager;
    if (reason == "ranks") {
      Counters().dissenting_calls.fetch_add(1, std::memory_order_relaxed);
      return CallTarget(self, args, nargsf, kwnames);
    }
    std::optional<InParts> hidden;
    if (self->hides_parts) hidden.emplace(false);
    const char* const unsupported = frame->arguments.unsupported;
    const bool is_said = unsupported != nullptr && self->said.contains(unsupported);
    const Refused* const refused = is_said ? nullptr : RefusedOf(self, signature);
    if (refused != nullptr && (refused->has_parts || refused->in_pieces)) {
      return CallInParts(self, signature, *refused, frame->arguments.tensors, args, nargsf, kwnames);
    }
    if (is_said || refused != nullptr) {
      const InParts scope(true);
      Counters().refused_calls.fetch_add(1, std::memory_order_relaxed);
      return CallTarget(self, args, nargsf, kwnames);
    }
    const UnservedCall unserved;
    if (self->passed_over != 0 && reason == "new") {
      --self->passed_over;
      Counters().refused_calls.fetch_add(1, std::memory_order_relaxed);
      return CallTarget(self, args, nargsf, kwnames);
    }
    const bool lacks_sizes = reason == "new" || reason == "guard" || reason == "unproven";
    if (lacks_sizes && !self->waiting.empty() && self->waiting.contains(frame->arguments.signature)) {
      Counters().pending_calls.fetch_add(1, std::memory_order_relaxed);
      return CallTarget(self, args, nargsf, kwnames);
    }
    return CallMiss(self, reason, args, count, kwnames);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  PyObject *target, *owner;
  if (!PyArg_ParseTuple(args, "OO", &target, &owner)) return nullptr;
  auto* self = reinterpret_cast<CallSite*>(type->tp_alloc(type, 0));
  if (self == nullptr) return nullptr;
  self->base.vectorcall = Call;
  self->base.target = Py_NewRef(target);
  self->owner = Py_NewRef(owner);
  self->verify_every = 0;
  self->hides_parts = false;
  self->paces = nullptr;
  self->served = 0;
  self->passed_over = 0;
  new (&self->variants) VariantTable();
  new (&self->refused) std::unordered_map<std::string, Refused>();
  new (&self->waiting) std::unordered_set<std::string>();
  new (&self->said) std::unordered_set<std::string>();
  new (&self->varying) DynamicScalars();
  new (&self->consensus) std::unique_ptr<const RankConsensus>();
  return reinterpret_cast<PyObject*>(self);
}

void Dealloc(PyObject* object) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject_GC_UnTrack(object);
  if (self->base.weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  self->variants.~VariantTable();
  std::destroy_at(&self->refused);
  std::destroy_at(&self->waiting);
  std::destroy_at(&self->said);
  std::destroy_at(&self->varying);
  std::destroy_at(&self->consensus);
  Py_CLEAR(self->base.target);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->paces);
  Py_TYPE(object)->tp_free(object);
}

int Traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<CallSite*>(object);
  Py_VISIT(self->base.target);
  Py_VISIT(self->owner);
  Py_VISIT(self->paces);
  for (const auto& [signature, refused] : self->refused) Py_VISIT(refused.in_pieces.get());
  return self->variants.Traverse(visit, arg);
}

int Clear(PyObject* object) {
  auto* self = reinterpret_cast<CallSite*>(object);
  self->variants.Clear();
  decltype(self->refused) refused;
  refused.swap(self->refused);
  Py_CLEAR(self->owner);
  Py_CLEAR(self->paces);
  return 0;
}

/// Attributes of the type first, then of what the user wrapped, then the engine's verbs.
PyObject* GetAttribute(PyObject* object, PyObject* name) {
  auto* self = reinterpret_cast<CallSite*>(object);
  // These exist on the type too, but people ask for those of what they wrapped.
  const auto is_named = [name](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  if (is_named("__doc__") || is_named("__module__")) {
    return PyObject_GetAttr(self->base.target, name);
  }
  PyObject* found = PyObject_GenericGetAttr(object, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  DropError();
  found = PyObject_GetAttr(self->base.target, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  found = FindVerb(self->owner, name);
  if (found == nullptr && !PyErr_Occurred()) {
    PyErr_Restore(kind, value, trace);
    return nullptr;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return found;
}

PyMemberDef kMembers[] = {{"_target", T_OBJECT, offsetof(CompiledObject, target), READONLY, "What was wrapped."},
                          {"_engine", T_OBJECT, offsetof(CallSite, owner), READONLY, "The engine behind the callable."},
                          {"__wrapped__", T_OBJECT, offsetof(CompiledObject, target), READONLY, "What was wrapped."},
                          {nullptr, 0, 0, 0, nullptr}};

PyTypeObject kType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyObject* ServeNow(PyObject* object, PyObject* parts) {
  PyObject *args, *kwargs;
  if (!PyArg_ParseTuple(parts, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
  std::vector<PyObject*> values(&PyTuple_GET_ITEM(args, 0), &PyTuple_GET_ITEM(args, 0) + PyTuple_GET_SIZE(args));
  const auto names = pybind11::reinterpret_steal<pybind11::object>(PySequence_Tuple(kwargs));
  if (!names) return nullptr;
  // This call has told the other ranks that it runs eagerly.
  if (reinterpret_cast<CallSite*>(object)->consensus != nullptr) return Py_BuildValue("(sO)", "ranks", Py_None);
  for (pybind11::handle name : names) values.push_back(PyDict_GetItem(kwargs, name.ptr()));
  FrameLease frame;
  try {
    std::string reason = "new";
    PyObject* result = Attempt(reinterpret_cast<CallSite*>(object), *frame, values.data(),
                               static_cast<size_t>(PyTuple_GET_SIZE(args)), names.ptr(), reason);
    if (result != nullptr) return Py_BuildValue("(ON)", Py_None, result);
    return PyErr_Occurred() ? nullptr : Py_BuildValue("(sO)", reason.c_str(), Py_None);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return nullptr;
  }
}

PyTypeObject* CallSiteType() { return &kType; }

PyObject* EngineOf(PyObject* site) { return reinterpret_cast<CallSite*>(site)->owner; }

PyObject* CallThrough(PyObject* site, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  return Call(site, args, nargsf, kwnames);
}

int AddCallSiteType(PyObject* module) {
  kType.tp_name = "ingot.CallSite";
  kType.tp_base = CompiledType();
  kType.tp_basicsize = sizeof(CallSite);
  kType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
  // The flag promises that f(obj, ...) equals obj.f(...), which BindCompiled keeps.
  kType.tp_new = New;
  kType.tp_dealloc = Dealloc;
  kType.tp_traverse = Traverse;
  kType.tp_clear = Clear;
  kType.tp_getattro = GetAttribute;
  kType.tp_setattro = SetTargetAttribute;
  kType.tp_descr_get = BindCompiled;
  kType.tp_repr = ReprOfCompiled;
  kType.tp_methods = kCallSiteMethods;
  kType.tp_members = kMembers;
  kType.tp_doc = "A compiled function, method or callable object.";
  return PyModule_AddType(module, &kType);
}

}  // namespace ingot::client
