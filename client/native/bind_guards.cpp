// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "client/native/bindings.h"
#include "guards/guard_set.h"

namespace ingot::client {
namespace py = pybind11;
using guards::GuardSet;

void BindGuards(py::module_& m) {
  py::class_<GuardSet>(m, "GuardSet", "Conditions over symbols and inputs (docs/format/guards.md).")
      .def_static("parse", [](const std::string& text) { return Unwrap(GuardSet::Parse(text)); })
      .def("holds", [](const GuardSet& set, const std::vector<int64_t>& symbols) { return set.Holds(symbols); })
      .def("explain", [](const GuardSet& set, const std::vector<int64_t>& symbols) { return set.Explain(symbols); },
           "The first guard that fails, in words with the nearest values; empty when all hold.")
      .def("simplify", [](const GuardSet& set) { return Unwrap(set.Simplify()); })
      .def("__len__", [](const GuardSet& set) { return set.guards().size(); })
      .def("__str__", [](const GuardSet& set) { return set.ToText(); });
}

}  // namespace ingot::client
