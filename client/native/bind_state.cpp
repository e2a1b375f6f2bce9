// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>

#include "client/lib/program.h"
#include "client/native/arguments.h"
#include "client/native/bindings.h"
#include "client/native/call_site.h"
#include "client/native/code_digest.h"
#include "client/native/live_groups.h"
#include "client/native/module_state.h"
#include "client/native/state_reader.h"
#include "client/native/value_digest.h"

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

py::tuple Structure(py::handle root, const std::string& name) {
  const ModuleState state = StructureOf(root.ptr(), name);
  return py::make_tuple(KeyItems(state.items), state.opaque);
}

/// `codes` are pairs of a module's dict and a code object, `globals` of a module's dict and a name.
ModuleState Read(py::handle names, const py::dict& roots, const py::list& codes, const py::list& globals,
                 bool with_text) {
  if (!names.is_none() && !PyAnySet_Check(names.ptr())) throw py::type_error("names are a set or None");
  StateReader reader(NameFilter(names.ptr()), with_text);
  for (auto [name, root] : roots) reader.AddRoot(name.cast<std::string>(), root.ptr());
  for (py::handle pair : codes) {
    const auto [space, code] = pair.cast<std::pair<py::dict, py::object>>();
    if (!PyCode_Check(code.ptr())) throw py::type_error("read_state takes code objects");
    reader.AddCode(space.ptr(), code.ptr());
  }
  for (py::handle pair : globals) {
    const auto [space, name] = pair.cast<std::pair<py::dict, py::str>>();
    reader.AddGlobal(space.ptr(), name.ptr());
  }
  return reader.Finish();
}

/// read_state(names, roots, codes) -> ([(kind, where, digest, text)], opaque, codes covered)
py::tuple ReadState(py::handle names, const py::dict& roots, const py::list& codes) {
  const ModuleState state = Read(names, roots, codes, py::list(), true);
  py::list out(state.items.size());
  for (size_t i = 0; i < state.items.size(); ++i) {
    const StateItem& item = state.items[i];
    out[i] = py::make_tuple(item.kind, item.name, item.digest.ToHex(), item.text);
  }
  py::list covered;
  for (PyObject* code : state.codes) covered.append(py::handle(code));
  return py::make_tuple(out, state.opaque, covered);
}

/// (kind, where, text there or None, text here or None) of the first difference to the record's
/// (kind, where, digest, text); None when there is none.
py::object Difference(const ModuleState& state, const py::list& record) {
  std::unordered_map<std::string, std::pair<Digest, py::handle>> stored;
  for (py::handle one : record) {
    const auto item = py::reinterpret_borrow<py::tuple>(one);
    const auto digest = Digest::FromHex(item[2].cast<std::string_view>());
    const std::string name = item[0].cast<std::string>() + ' ' + item[1].cast<std::string>();
    stored.emplace(name, std::pair(digest ? *digest : Digest(), one));
  }
  for (const StateItem& item : state.items) {
    const auto it = stored.find(item.kind + ' ' + item.name);
    if (it == stored.end()) return py::make_tuple(item.kind, item.name, py::none(), item.text);
    const auto& [digest, known] = it->second;
    const auto text = py::reinterpret_borrow<py::tuple>(known)[3];
    if (digest != item.digest) return py::make_tuple(item.kind, item.name, text, item.text);
    stored.erase(it);
  }
  if (stored.empty()) return py::none();
  for (py::handle one : record) {
    const auto item = py::reinterpret_borrow<py::tuple>(one);
    const std::string name = item[0].cast<std::string>() + ' ' + item[1].cast<std::string>();
    if (stored.contains(name)) return py::make_tuple(item[0], item[1], item[3], py::none());
  }
  return py::none();
}

/// check_state(names, roots, codes, globals, record) -> None, or Difference(). It makes no Python objects where all
/// is well, which would set off the garbage collector.
py::object CheckState(py::handle names, const py::dict& roots, const py::list& codes, const py::list& globals,
                      const py::list& record) {
  if (Difference(Read(names, roots, codes, globals, false), record).is_none()) return py::none();
  return Difference(Read(names, roots, codes, globals, true), record);
}

py::tuple ValueState(py::handle value) {
  ValueWriter writer;
  writer.Write(value.ptr());
  return py::make_tuple(writer.Finish().ToHex(), ShortText(value.ptr()), writer.opaque());
}

/// flatten(args, kwargs, parameters) -> (tensors, names, objects, unsupported or None)
py::tuple FlattenCall(const py::tuple& args, const py::dict& kwargs, const py::tuple& parameters) {
  std::vector<PyObject*> values;
  for (py::handle value : args) values.push_back(value.ptr());
  py::list names;
  for (auto [name, value] : kwargs) {
    names.append(name);
    values.push_back(value.ptr());
  }
  Arguments out;
  Flatten(values.data(), args.size(), py::tuple(names).ptr(), parameters.ptr(), true, out);
  py::list tensors;
  for (const at::Tensor* tensor : out.tensors) {
    tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(*tensor)));
  }
  py::list objects;
  for (PyObject* object : out.objects) objects.append(py::reinterpret_borrow<py::object>(object));
  py::object unsupported = py::none();
  if (out.unsupported != nullptr) unsupported = py::str(out.unsupported);
  return py::make_tuple(tensors, out.names, objects, unsupported);
}

}  // namespace

void BindState(py::module_& m) {
  m.def("structure_of", Structure, py::arg("root"), py::arg("name"));
  m.def("patched_in", [](const py::dict& namespaces) { return KeyItems(PatchedIn(namespaces.ptr())); });
  m.def("read_state", ReadState, py::arg("names"), py::arg("roots"), py::arg("codes"));
  m.def("check_state", CheckState);
  m.def("digest_value", ValueState);
  m.def("set_live_groups", SetLiveGroups, "Names of process groups here, and what they are everywhere.");
  m.def("digest_code", [](py::handle code) {
    if (!PyCode_Check(code.ptr())) throw py::type_error("digest_code takes a code object");
    return DigestOfCode(code.ptr()).ToHex();
  });
  m.def("digest_text", [](const std::string& text) { return DigestOf(text).ToHex(); });
  m.def("digest_bytes", [](const py::bytes& bytes) {
    return DigestOf(std::string_view(bytes)).ToHex();
  });
  m.def("flatten", FlattenCall);
  m.def("call_counters", [] {
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
    counters["failures"] = Counters().failures.load();
    return counters;
  });
}

}  // namespace ingot::client
