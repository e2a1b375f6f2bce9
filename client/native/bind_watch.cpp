// SPDX-License-Identifier: Apache-2.0
#include "client/native/bindings.h"
#include "client/native/code_names.h"
#include "client/native/watch.h"

namespace ingot::client {
namespace py = pybind11;

void BindWatch(py::module_& m) {
  py::class_<Watch, std::shared_ptr<Watch>>(m, "Watch")
      .def(py::init<>())
      .def("add_slot",
           [](Watch& watch, py::handle dict, py::handle key, py::handle expected) {
             if (!PyDict_Check(dict.ptr()) && !PyType_Check(dict.ptr())) {
               throw py::type_error("a slot is in a dict or a type");
             }
             watch.AddSlot(dict.ptr(), key.ptr(), expected.ptr());
           })
      .def("add_cell",
           [](Watch& watch, py::handle cell) {
             if (!PyCell_Check(cell.ptr())) throw py::type_error("add_cell takes a closure cell");
             watch.AddCell(cell.ptr());
           })
      .def("add_attributes",
           [](Watch& watch, py::handle names) {
             if (!names.is_none() && !PyAnySet_Check(names.ptr())) throw py::type_error("names are a set or None");
             watch.AddAttributes(names.ptr());
           })
      .def("add_function", [](Watch& watch, py::handle value) { watch.AddFunction(value.ptr()); })
      .def("add_tree", [](Watch& watch, py::handle root) { watch.AddTree(root.ptr()); })
      .def("add_names",
           [](Watch& watch, const py::dict& globals, py::handle code) {
             if (!PyCode_Check(code.ptr())) throw py::type_error("add_names takes a code object");
             watch.AddNames(globals.ptr(), code.ptr());
           })
      .def("holds", &Watch::Holds);
  m.def("global_names", [](py::handle code) {
    if (!PyCode_Check(code.ptr())) throw py::type_error("global_names takes a code object");
    py::list names;
    for (PyObject* name : GlobalNames(code.ptr())) names.append(py::handle(name));
    return names;
  });
}

}  // namespace ingot::client
