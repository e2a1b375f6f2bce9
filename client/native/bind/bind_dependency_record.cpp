// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <unordered_map>

#include "client/native/guards/state_guards.h"
#include "client/native/guards/validated_record.h"
#include "client/native/log/dependency_record.h"
#include "client/native/site/bindings.h"

namespace ingot::client {
namespace py = pybind11;

std::unordered_map<std::string, PyObject*> NamedRoots(const py::dict& roots) {
  std::unordered_map<std::string, PyObject*> objects;
  for (auto [name, root] : roots) objects.emplace(name.cast<std::string>(), root.ptr());
  return objects;
}

namespace {

py::tuple RowTuple(const DependencyRow& row) {
  return py::make_tuple(row.kind, row.where, row.digest.ToHex(), row.text);
}

/// check_record(record, roots, state_guards=None, validated=None, tells_apart=True) -> None, or (row, text of what is
/// here or None).
py::object Check(const DependencyRecord& record, const py::dict& roots, StateGuards* state_guards,
                 ValidatedRecord* validated, bool tells_apart) {
  PathReader reader(NamedRoots(roots));
  DependencyCheck check = validated != nullptr ? DependencyCheck(*validated, reader) : DependencyCheck(record, reader);
  check.set_state_guards(state_guards);
  check.set_tells_apart(tells_apart);
  const auto difference = check.FirstMismatch();
  if (!difference) return py::none();
  return py::make_tuple(RowTuple(difference->row), difference->here);
}

/// For Python's collector of cycles. What call sites hold as well, they show it.
int TraverseValidated(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto held = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  if (!held.holder_constructed()) return 0;
  const auto& validated = held.holder<std::shared_ptr<ValidatedRecord>>();
  return validated.use_count() == 1 ? validated->Traverse(visit, arg) : 0;
}

}  // namespace

void BindRecord(py::module_& m) {
  py::class_<DependencyRecord, std::shared_ptr<DependencyRecord>>(
      m, "DependencyRecord", "What a recording depended on; rows of (kind, where, digest, text).")
      .def(py::init([](const std::vector<std::tuple<std::string, std::string, std::string, std::string>>& rows) {
             std::vector<DependencyRow> made;
             for (const auto& [kind, where, hex, text] : rows)
               made.push_back({kind, where, DigestFromPython(hex), text});
             return DependencyRecord(std::move(made));
           }),
           py::arg("rows") = std::vector<std::tuple<std::string, std::string, std::string, std::string>>())
      .def("rows",
           [](const DependencyRecord& record) {
             py::list list;
             for (const DependencyRow& row : record.rows()) list.append(RowTuple(row));
             return list;
           })
      .def("of_kind",
           [](const DependencyRecord& record, const std::string& kind) {
             py::list list;
             for (const DependencyRow& row : record.rows()) {
               if (row.kind == kind) list.append(RowTuple(row));
             }
             return list;
           })
      .def("changed_since",
           [](const DependencyRecord& record, const DependencyRecord& before) {
             py::list list;
             for (const DependencyRow* row : record.ChangedSince(before)) list.append(RowTuple(*row));
             return list;
           })
      .def("__len__", [](const DependencyRecord& record) { return record.rows().size(); })
      .def("__eq__", [](const DependencyRecord& a, const DependencyRecord& b) { return a.digest() == b.digest(); })
      .def("__hash__", [](const DependencyRecord& record) { return record.digest().low; });
  py::class_<StateGuards, std::shared_ptr<StateGuards>>(m, "StateGuards",
                                                        "The places of a record, watched at every call.")
      .def(py::init<>())
      .def("leave", [](StateGuards& state_guards, py::handle tensor) { state_guards.Leave(tensor.ptr()); })
      .def("borrow", [](StateGuards& state_guards, py::handle object) { state_guards.Borrow(object.ptr()); })
      .def("holds", &StateGuards::Holds);
  const py::custom_type_setup sees_through([](PyHeapTypeObject* heap_type) {
    heap_type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    heap_type->ht_type.tp_traverse = TraverseValidated;
  });
  py::class_<ValidatedRecord, std::shared_ptr<ValidatedRecord>>(
      m, "ValidatedRecord", "What a record says of the process, found to hold, and watched.", sees_through)
      .def(py::init(
          [](const std::shared_ptr<DependencyRecord>& record) { return std::make_shared<ValidatedRecord>(record); }))
      .def("leave", [](ValidatedRecord& validated, py::handle tensor) { validated.Leave(tensor.ptr()); })
      .def("may_serve", [](const ValidatedRecord& validated) { return validated.is_reusable() && validated.Holds(); })
      .def("weak", [](const std::shared_ptr<ValidatedRecord>& validated) {
        return py::cpp_function([held = std::weak_ptr<ValidatedRecord>(validated)] { return held.lock(); });
      });
  m.def("check_record", Check, py::arg("record"), py::arg("roots"), py::arg("state_guards").none(true) = py::none(),
        py::arg("validated").none(true) = py::none(), py::arg("tells_apart") = true);
  m.def("resolve_path", [](const std::string& path, const py::dict& roots) -> py::object {
    PathReader reader(NamedRoots(roots));
    const PythonRef found = reader.Resolve(path);
    return found ? py::reinterpret_borrow<py::object>(found.get()) : py::object(py::none());
  });
  m.def(
      "item_path",
      [](std::string path, py::handle key) -> py::object {
        return AppendStep(path, AccessKind::kItem, key.ptr()) ? py::object(py::str(path)) : py::none();
      },
      "The path of what a dict has under a key; None for a key that has no name.");
}

}  // namespace ingot::client
