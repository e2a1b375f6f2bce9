// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <unordered_map>

#include "client/native/log/record.h"
#include "client/native/site/bindings.h"
#include "client/native/watch/standing.h"
#include "client/native/watch/watch.h"

namespace ingot::client {
namespace py = pybind11;

std::unordered_map<std::string, PyObject*> NamedRoots(const py::dict& roots) {
  std::unordered_map<std::string, PyObject*> objects;
  for (auto [name, root] : roots) objects.emplace(name.cast<std::string>(), root.ptr());
  return objects;
}

namespace {

py::tuple RowTuple(const RecordRow& row) { return py::make_tuple(row.kind, row.where, row.digest.ToHex(), row.text); }

/// check_record(record, roots, watch=None, standing=None) -> None, or (row, text of what is here or None).
py::object Check(const Record& record, const py::dict& roots, Watch* watch, Standing* standing) {
  PathReader reader(NamedRoots(roots));
  RecordCheck check = standing != nullptr ? RecordCheck(*standing, reader) : RecordCheck(record, reader);
  check.set_watch(watch);
  const auto difference = check.FirstDifference();
  if (!difference) return py::none();
  return py::make_tuple(RowTuple(difference->row), difference->here);
}

/// For Python's collector of cycles. What call sites hold as well, they show it.
int TraverseStanding(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto held = reinterpret_cast<py::detail::instance*>(self)->get_value_and_holder();
  if (!held.holder_constructed()) return 0;
  const auto& standing = held.holder<std::shared_ptr<Standing>>();
  return standing.use_count() == 1 ? standing->Traverse(visit, arg) : 0;
}

}  // namespace

void BindRecord(py::module_& m) {
  py::class_<Record, std::shared_ptr<Record>>(m, "Record",
                                              "What a recording depended on; rows of (kind, where, digest, text).")
      .def(py::init([](const std::vector<std::tuple<std::string, std::string, std::string, std::string>>& rows) {
             std::vector<RecordRow> made;
             for (const auto& [kind, where, hex, text] : rows)
               made.push_back({kind, where, DigestFromPython(hex), text});
             return Record(std::move(made));
           }),
           py::arg("rows") = std::vector<std::tuple<std::string, std::string, std::string, std::string>>())
      .def("rows",
           [](const Record& record) {
             py::list list;
             for (const RecordRow& row : record.rows()) list.append(RowTuple(row));
             return list;
           })
      .def("of_kind",
           [](const Record& record, const std::string& kind) {
             py::list list;
             for (const RecordRow& row : record.rows()) {
               if (row.kind == kind) list.append(RowTuple(row));
             }
             return list;
           })
      .def("changed_since",
           [](const Record& record, const Record& before) {
             py::list list;
             for (const RecordRow* row : record.ChangedSince(before)) list.append(RowTuple(*row));
             return list;
           })
      .def("__len__", [](const Record& record) { return record.rows().size(); })
      .def("__eq__", [](const Record& a, const Record& b) { return a.digest() == b.digest(); })
      .def("__hash__", [](const Record& record) { return record.digest().low; });
  py::class_<Watch, std::shared_ptr<Watch>>(m, "Watch", "The places of a record, watched at every call.")
      .def(py::init<>())
      .def("leave", [](Watch& watch, py::handle tensor) { watch.Leave(tensor.ptr()); })
      .def("borrow", [](Watch& watch, py::handle object) { watch.Borrow(object.ptr()); })
      .def("holds", &Watch::Holds);
  const py::custom_type_setup sees_through([](PyHeapTypeObject* heap_type) {
    heap_type->ht_type.tp_flags |= Py_TPFLAGS_HAVE_GC;
    heap_type->ht_type.tp_traverse = TraverseStanding;
  });
  py::class_<Standing, std::shared_ptr<Standing>>(
      m, "Standing", "What a record says of the process, found to hold, and watched.", sees_through)
      .def(py::init([](const std::shared_ptr<Record>& record) { return std::make_shared<Standing>(record); }))
      .def("leave", [](Standing& standing, py::handle tensor) { standing.Leave(tensor.ptr()); })
      .def("may_serve", [](const Standing& standing) { return standing.is_reusable() && standing.Holds(); })
      .def("weak", [](const std::shared_ptr<Standing>& standing) {
        return py::cpp_function([held = std::weak_ptr<Standing>(standing)] { return held.lock(); });
      });
  m.def("check_record", Check, py::arg("record"), py::arg("roots"), py::arg("watch").none(true) = py::none(),
        py::arg("standing").none(true) = py::none());
  m.def("resolve_path", [](const std::string& path, const py::dict& roots) -> py::object {
    PathReader reader(NamedRoots(roots));
    const PythonRef found = reader.Resolve(path);
    return found ? py::reinterpret_borrow<py::object>(found.get()) : py::object(py::none());
  });
  m.def(
      "item_path",
      [](std::string path, py::handle key) -> py::object {
        return AppendStep(path, Reading::kItem, key.ptr()) ? py::object(py::str(path)) : py::none();
      },
      "The path of what a dict has under a key; None for a key that has no name.");
}

}  // namespace ingot::client
