// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/call_site.h"

#include <structmember.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <unordered_set>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/site/arguments.h"
#include "client/native/site/bindings.h"
#include "client/native/site/call_counters.h"
#include "client/native/site/call_frame.h"
#include "client/native/site/compiled_protocol.h"
#include "client/native/site/rank_vote.h"
#include "client/native/site/retries.h"
#include "client/native/site/unserved_calls.h"
#include "client/native/site/variant_table.h"

namespace ingot::client {

namespace {

struct CallSite {
  CompiledObject base;
  PyObject* owner;   ///< the Python engine behind it
  VariantTable variants;
  std::unordered_map<std::string, Retries> refused;  ///< signatures that run eagerly for good
  std::unordered_map<std::string, PythonRef>
      in_pieces;  ///< of refused signatures: what is called in the target's place
  std::unordered_set<std::string> waiting;  ///< signatures for which a variant of other sizes is on its way
  std::unordered_set<std::string> said;     ///< why arguments are not taken, where that has been said already
  DynamicScalars varying;
  uint64_t passed_over;   ///< so many calls of new signatures run eagerly before the next is looked at
  bool hides_parts;       ///< a piece of a program: what it calls while it is not native need not be native itself
  uint64_t verify_every;  ///< 0: never
  uint64_t served;
  std::unique_ptr<const RankConsensus> consensus;  ///< its ranks run the same, or all run eagerly

  bool VerifiesNext() const { return verify_every != 0 && (served + 1) % verify_every == 0; }
};

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
Retries* RetriesOf(CallSite* self, const std::string& signature) {
  const auto it = self->refused.empty() ? self->refused.end() : self->refused.find(signature);
  return it == self->refused.end() ? nullptr : &it->second;
}

/// Null without a Python error: nothing could serve the call, and `reason` says why.
PyObject* Attempt(CallSite* self, CallFrame& frame, PyObject* const* args, size_t count, PyObject* kwnames,
                  std::string& reason, RankVote* vote = nullptr) {
  Flatten(args, count, kwnames, nullptr, false, &self->varying, frame.arguments);
  if (frame.arguments.unsupported != nullptr) {
    reason = std::string("unsupported:") + frame.arguments.unsupported;
    return nullptr;
  }
  VariantTable::Variants* const variants = self->variants.Of(frame.arguments.signature);
  if (variants == nullptr) return nullptr;
  if (Retries* retries = RetriesOf(self, frame.arguments.signature); retries != nullptr && !retries->IsTurn()) {
    retries->Note(false);
    return nullptr;
  }
  CallFrame::Withheld withheld{.is_turn = vote == nullptr && self->VerifiesNext()};
  PyObject* result = frame.Serve(*variants, reason, withheld, vote);
  // Looked for again: another thread may have emptied the table meanwhile.
  if (Retries* retries = RetriesOf(self, frame.arguments.signature)) retries->Note(result != nullptr);
  if (result != nullptr || withheld.is_verified) ++self->served;
  return withheld.program != nullptr ? CallWithheld(self, withheld, args, count, kwnames) : result;
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
    PyObject* result = Attempt(self, *frame, args, count, kwnames, reason, vote ? &*vote : nullptr);
    if (result != nullptr || PyErr_Occurred()) return result;
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
    if (is_said || (!self->refused.empty() && self->refused.contains(frame->arguments.signature))) {
      const InParts scope(true);
      const auto pieces = self->in_pieces.find(frame->arguments.signature);
      if (!is_said && pieces != self->in_pieces.end()) {
        const PythonRef held = PythonRef::Borrow(pieces->second.get());
        return PyObject_Vectorcall(held.get(), args, nargsf, kwnames);
      }
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
  self->served = 0;
  self->passed_over = 0;
  new (&self->variants) VariantTable();
  new (&self->refused) std::unordered_map<std::string, Retries>();
  new (&self->waiting) std::unordered_set<std::string>();
  new (&self->said) std::unordered_set<std::string>();
  new (&self->in_pieces) decltype(self->in_pieces)();
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
  std::destroy_at(&self->in_pieces);
  std::destroy_at(&self->varying);
  std::destroy_at(&self->consensus);
  Py_CLEAR(self->base.target);
  Py_CLEAR(self->owner);
  Py_TYPE(object)->tp_free(object);
}

int Traverse(PyObject* object, visitproc visit, void* arg) {
  auto* self = reinterpret_cast<CallSite*>(object);
  Py_VISIT(self->base.target);
  Py_VISIT(self->owner);
  for (const auto& [signature, pieces] : self->in_pieces) Py_VISIT(pieces.get());
  return self->variants.Traverse(visit, arg);
}

int Clear(PyObject* object) {
  auto* self = reinterpret_cast<CallSite*>(object);
  self->variants.Clear();
  decltype(self->in_pieces) pieces;
  pieces.swap(self->in_pieces);
  Py_CLEAR(self->owner);
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

/// What is assigned is an attribute of what the user wrapped.
std::string TextOf(PyObject* bytes) { return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))}; }

/// install(signature, parts): adds a variant in front; returns how many the signature has.
PyObject* Install(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *parts;
  if (!PyArg_ParseTuple(args, "SO!", &signature, &PyDict_Type, &parts)) return nullptr;
  try {
    return PyLong_FromSize_t(self->variants.Install(TextOf(signature), BoundVariant::Of(parts)));
  } catch (pybind11::error_already_set& e) {
    e.restore();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_ValueError, e.what());
  }
  return nullptr;
}

/// remove(program): forgets the program's variants in every signature; returns how many.
PyObject* Remove(PyObject* object, PyObject* handle) {
  auto* self = reinterpret_cast<CallSite*>(object);
  try {
    auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    return PyLong_FromSize_t(self->variants.Remove(*program));
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
}

/// prove(signature, program, sizes): the program's variants of a signature serve these symbol values as well; returns
/// how many variants there are.
PyObject* Prove(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *handle, *sizes;
  if (!PyArg_ParseTuple(args, "SOO", &signature, &handle, &sizes)) return nullptr;
  try {
    const auto program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
    const auto proven = pybind11::handle(sizes).cast<std::vector<std::vector<int64_t>>>();
    const VariantTable::Variants* const variants = self->variants.Of(TextOf(signature));
    size_t found = 0;
    for (const auto& variant : variants == nullptr ? VariantTable::Variants() : *variants) {
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

/// forget(signature, objects, program=None): drops the signature's bindings to these very objects, of one program or of
/// all.
PyObject* Forget(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject *signature, *list, *handle = Py_None;
  if (!PyArg_ParseTuple(args, "SO!|O", &signature, &PyList_Type, &list, &handle)) return nullptr;
  std::shared_ptr<Program> program;
  try {
    if (handle != Py_None) program = pybind11::handle(handle).cast<std::shared_ptr<Program>>();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_TypeError, e.what());
    return nullptr;
  }
  std::vector<PyObject*> objects;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) objects.push_back(PyList_GET_ITEM(list, i));
  self->variants.Forget(TextOf(signature), objects, program.get());
  Py_RETURN_NONE;
}

/// Sets a number of the call site's.
template <uint64_t CallSite::* kField>
PyObject* SetNumber(PyObject* object, PyObject* value) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (PyErr_Occurred()) return nullptr;
  reinterpret_cast<CallSite*>(object)->*kField = number;
  Py_RETURN_NONE;
}

/// refuse(signature, in_pieces=None): calls of this signature that no variant here serves run eagerly from now on, or
/// by another callable.
PyObject* Refuse(PyObject* object, PyObject* args) {
  PyObject *signature, *in_pieces = Py_None;
  if (!PyArg_ParseTuple(args, "S|O", &signature, &in_pieces)) return nullptr;
  auto* self = reinterpret_cast<CallSite*>(object);
  const std::string key = TextOf(signature);
  self->refused.try_emplace(key);
  PythonRef before = PythonRef::Borrow(in_pieces == Py_None ? nullptr : in_pieces);
  if (before) std::swap(self->in_pieces[key], before);  // What it was goes when the table is whole.
  Py_RETURN_NONE;
}

/// leave_to_eager(reason): calls whose arguments are not taken for this reason run eagerly without a word from now on.
PyObject* LeaveToEager(PyObject* object, PyObject* reason) {
  const char* const text = PyUnicode_AsUTF8(reason);
  if (text == nullptr) return nullptr;
  reinterpret_cast<CallSite*>(object)->said.insert(text);
  Py_RETURN_NONE;
}

/// set_waiting(signature, is_waiting): calls of a signature run eagerly as long as no variant takes their sizes.
PyObject* SetWaiting(PyObject* object, PyObject* args) {
  auto* self = reinterpret_cast<CallSite*>(object);
  PyObject* signature;
  int is_waiting;
  if (!PyArg_ParseTuple(args, "Sp", &signature, &is_waiting)) return nullptr;
  std::string key = TextOf(signature);
  if (is_waiting != 0) {
    self->waiting.insert(std::move(key));
  } else {
    self->waiting.erase(key);
  }
  Py_RETURN_NONE;
}

/// vary(arguments): the numbers of these arguments (positions and names) are inputs from now on.
PyObject* Vary(PyObject* object, PyObject* arguments) {
  if (!PyTuple_Check(arguments)) return PyErr_Format(PyExc_TypeError, "_vary takes a tuple of int and str");
  DynamicScalars varying = DynamicScalars::Of(arguments);
  std::swap(reinterpret_cast<CallSite*>(object)->varying, varying);
  Py_RETURN_NONE;
}

/// serve(args, kwargs): (None, result) of a call by native code, or (why nothing here serves it, None).
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

/// agree(group): the ranks of this group, by its name here, serve a call natively together or not at all.
PyObject* Agree(PyObject* object, PyObject* group) {
  const char* name = PyUnicode_AsUTF8(group);
  if (name == nullptr) return nullptr;
  reinterpret_cast<CallSite*>(object)->consensus = std::make_unique<const RankConsensus>(name);
  Py_RETURN_NONE;
}

PyObject* BePart(PyObject* object, PyObject* /*unused*/) {
  reinterpret_cast<CompiledObject*>(object)->is_part = true;
  Py_RETURN_NONE;
}

PyObject* HideParts(PyObject* object, PyObject* /*unused*/) {
  reinterpret_cast<CallSite*>(object)->hides_parts = true;
  Py_RETURN_NONE;
}

PyObject* Reset(PyObject* object, PyObject* /*unused*/) {
  auto* self = reinterpret_cast<CallSite*>(object);
  self->variants.Clear();
  decltype(self->in_pieces) pieces;
  pieces.swap(self->in_pieces);
  self->refused.clear();
  self->waiting.clear();
  self->said.clear();
  Py_RETURN_NONE;
}

PyMethodDef kMethods[] = {
    {"_serve", ServeNow, METH_VARARGS, "Answers a call, if a variant is here that can."},
    {"_install", Install, METH_VARARGS, "Adds a bound variant to a signature."},
    {"_prove", Prove, METH_VARARGS, "Adds proven sizes to a program's variants of a signature."},
    {"_remove", Remove, METH_O, "Forgets the variants of a program."},
    {"_forget", Forget, METH_VARARGS, "Drops the bindings of a signature to given objects, of one program or of all."},
    {"_refuse", Refuse, METH_VARARGS,
     "Runs calls of a signature eagerly that no variant serves, or by another callable."},
    {"_leave_to_eager", LeaveToEager, METH_O, "Runs calls eagerly whose arguments are not taken for a reason."},
    {"_set_waiting", SetWaiting, METH_VARARGS, "Runs calls of a signature eagerly until it has a variant for them."},
    {"_vary", Vary, METH_O, "Takes the numbers of some arguments as inputs."},
    {"_pass_over", SetNumber<&CallSite::passed_over>, METH_O,
     "Runs some calls of new signatures eagerly before one is looked at again."},
    {"_set_verify", SetNumber<&CallSite::verify_every>, METH_O, "Verifies every n-th native call; 0: none."},
    {"_agree", Agree, METH_O, "Serves a call natively where all ranks of a group do."},
    {"_be_part", BePart, METH_NOARGS, "Serves only calls of programs that run in parts."},
    {"_hide_parts", HideParts, METH_NOARGS, "Serves a piece of a program: no part of it while it is not native."},
    {"_reset", Reset, METH_NOARGS, "Forgets every variant."},
    {"__reduce_ex__", ReduceCompiled, METH_O, "Pickles as what was wrapped."},
    {"__copy__", CopyCompiled, METH_NOARGS, "Itself, as functions do."},
    {"__deepcopy__", DeepCopyCompiled, METH_O, "Itself, unless what was wrapped has a copy: then that, compiled."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef kMembers[] = {{"_target", T_OBJECT, offsetof(CompiledObject, target), READONLY, "What was wrapped."},
                          {"_engine", T_OBJECT, offsetof(CallSite, owner), READONLY, "The engine behind the callable."},
                          {"__wrapped__", T_OBJECT, offsetof(CompiledObject, target), READONLY, "What was wrapped."},
                          {nullptr, 0, 0, 0, nullptr}};

PyTypeObject kType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

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
  kType.tp_methods = kMethods;
  kType.tp_members = kMembers;
  kType.tp_doc = "A compiled function, method or callable object.";
  return PyModule_AddType(module, &kType);
}

}  // namespace ingot::client
