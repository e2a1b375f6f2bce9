// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "client/native/site/bindings.h"
#include "guards/guard_set.h"
#include "guards/ranges.h"

namespace ingot::client {
namespace py = pybind11;
using guards::GuardSet;
using guards::Ranges;

void BindGuards(py::module_& m) {
  py::class_<GuardSet>(m, "GuardSet", "Conditions over symbols and inputs (docs/format/guards.md).")
      .def_static("parse", [](const std::string& text) { return Unwrap(GuardSet::Parse(text)); })
      .def("holds", [](const GuardSet& set, const std::vector<int64_t>& symbols) { return set.Holds(symbols); })
      .def(
          "explain", [](const GuardSet& set, const std::vector<int64_t>& symbols) { return set.Explain(symbols); },
          "The first guard that fails, in words with the nearest values; empty when all hold.")
      .def("simplify", [](const GuardSet& set) { return Unwrap(set.Simplify()); })
      .def("__len__", [](const GuardSet& set) { return set.guards().size(); })
      .def("__str__", [](const GuardSet& set) { return set.ToText(); });
  py::class_<Ranges>(m, "Ranges", "Sizes that recordings have proved (docs/format/guards.md).")
      .def_static("parse", [](const std::string& text) { return Unwrap(Ranges::Parse(text)); })
      .def("holds", [](const Ranges& ranges, const std::vector<int64_t>& symbols) { return ranges.Holds(symbols); })
      .def(
          "explain", [](const Ranges& ranges, const std::vector<int64_t>& symbols) { return ranges.Explain(symbols); },
          "The first guard that fails in the nearest set, in words; empty when one holds.");
}

}  // namespace ingot::client
