// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>

#include "client/lib/run/program.h"
#include "client/native/effects/context_settings.h"
#include "client/native/guards/module_state.h"
#include "client/native/places/code_digest.h"
#include "client/native/places/dataclass_fields.h"
#include "client/native/places/live_groups.h"
#include "client/native/places/place_access.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/places/value_digest.h"
#include "client/native/site/arguments.h"
#include "client/native/site/bindings.h"
#include "client/native/site/call_counters.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

/// (name, digest, text) of each item of a key.
py::list KeyItems(const std::vector<StateItem>& items) {
  py::list out(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    out[i] = py::make_tuple(items[i].name, items[i].digest.ToHex(), items[i].text);
  }
  return out;
}

py::list Structure(py::handle root, const std::string& name) {
  const ModuleState state = StructureOf(root.ptr(), name);
  return KeyItems(state.items);
}

py::tuple ValueState(py::handle value) {
  ValueWriter writer;
  writer.Write(value.ptr());
  return py::make_tuple(writer.FinishOrUntold().ToHex(), ShortText(value.ptr()), writer.opaque());
}

/// flatten(args, kwargs, parameters, varying) -> (tensors, names, objects, shape)
py::tuple FlattenCall(const py::tuple& args, const py::dict& kwargs, const py::tuple& parameters,
                      const py::tuple& varying) {
  std::vector<PyObject*> values;
  for (py::handle value : args) values.push_back(value.ptr());
  py::list names;
  for (auto [name, value] : kwargs) {
    names.append(name);
    values.push_back(value.ptr());
  }
  Arguments out;
  const DynamicScalars numbers = DynamicScalars::Of(varying.ptr());
  Flatten(values.data(), args.size(), py::tuple(names).ptr(), parameters.ptr(), true, &numbers, out);
  py::list tensors;
  for (const at::Tensor* tensor : out.tensors) {
    tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(*tensor)));
  }
  py::list objects;
  for (PyObject* object : out.objects) objects.append(py::reinterpret_borrow<py::object>(object));
  return py::make_tuple(tensors, out.names, objects, py::bytes(out.signature));
}

py::dict CallCountersNow() {
  py::dict counters;
  const RunCounts total = TotalCounts();
  counters["native_steps"] = total.native_steps;
  counters["aten_steps"] = total.aten_steps;
  counters["native_calls"] = Counters().native_calls.load();
  counters["guard_failures"] = Counters().guard_failures.load();
  counters["value_guard_failures"] = Counters().value_guard_failures.load();
  counters["skipped_watches"] = Counters().skipped_watches.load();
  counters["skipped_value_guards"] = total.skipped_value_guards;
  counters["verify_skipped"] = Counters().verify_skipped.load();
  counters["refused_calls"] = Counters().refused_calls.load();
  counters["plain_calls"] = Counters().plain_calls.load();
  counters["dissenting_calls"] = Counters().dissenting_calls.load();
  counters["pending_calls"] = Counters().pending_calls.load();
  counters["failures"] = Counters().failures.load();
  return counters;
}

}  // namespace

void BindState(py::module_& m) {
  m.def("structure_of", Structure, py::arg("root"), py::arg("name"));
  m.def("digest_value", ValueState);
  m.def(
      "has_own_attributes", [](py::handle tensor) { return HasOwnAttributes(tensor.ptr()); },
      "Whether a program has given an object attributes: marks of sizes that change are none, nor are fields.");
  m.def(
      "own_attributes",
      [](py::handle tensor) {
        py::list names;
        ForEachOwnName(tensor.ptr(), [&names](PyObject* name) {
          if (PyUnicode_CheckExact(name)) names.append(py::reinterpret_borrow<py::object>(name));
        });
        return names;
      },
      "The names of those that are text.");
  m.def(
      "has_plain_keys", [](const py::dict& dict) { return HasPlainKeys(dict.ptr()); },
      "Whether a dict is a part of the structure of a call: text says which keys it has.");
  m.def(
      "dataclass_fields",
      [](py::handle value) -> py::object {
        PyObject* const fields = FieldsOf(Py_TYPE(value.ptr()));
        if (fields == nullptr) return py::none();
        py::dict found;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
          const PythonRef one = FieldOf(value.ptr(), PyTuple_GET_ITEM(fields, i));
          if (one) found[PyTuple_GET_ITEM(fields, i)] = py::handle(one.get());
        }
        return found;
      },
      "What an object of a dataclass has in its fields, where no code of its class has a say in it; None for others.");
  m.def(
      "native_base",
      [](py::type type) {
        auto* base = NativeBase(reinterpret_cast<PyTypeObject*>(type.ptr()));
        return py::reinterpret_borrow<py::type>(reinterpret_cast<PyObject*>(base));
      },
      "The nearest of a class and those it comes from that no class statement made.");
  m.def("set_live_groups", SetLiveGroups, "Names of process groups here, and what they are everywhere.");
  m.def("digest_code", [](py::handle code) {
    if (!PyCode_Check(code.ptr())) throw py::type_error("digest_code takes a code object");
    return DigestOfCode(code.ptr()).ToHex();
  });
  m.def("digest_text", [](const std::string& text) { return DigestOf(text).ToHex(); });
  m.def("digest_bytes", [](const py::bytes& bytes) { return DigestOf(std::string_view(bytes)).ToHex(); });
  m.def("flatten", FlattenCall);
  m.def(
      "context_settings",
      [] {
        py::list all;
        for (const ContextSetting& one : ContextSettings()) {
          const py::object now = one.now == nullptr ? py::none() : py::object(py::int_(one.now()));
          all.append(py::make_tuple(one.setter, one.name, now, one.without));
        }
        return all;
      },
      "(setter, name, value or None, why no answer depends on it) of each.");
  m.def("call_counters", CallCountersNow);
}

}  // namespace ingot::client
