// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "client/lib/run/measurement.h"
#include "client/lib/run/roofs.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/site/bindings.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

py::dict ToPython(const StepFacts& facts) {
  const auto number = [](int64_t value) -> py::object {
    return value < 0 ? py::object(py::none()) : py::object(py::int_(value));
  };
  py::dict out;
  out["kind"] = facts.kind;
  out["name"] = facts.name;
  out["symbol"] = facts.symbol;
  out["flops"] = number(facts.flops);
  out["dtype"] = facts.dtype;
  out["read_bytes"] = number(facts.read_bytes);
  out["written_bytes"] = number(facts.written_bytes);
  return out;
}

/// Of each program: its calls, each (thread, begin, end, symbols, marks), and the steps at each of the sizes that they
/// had.
py::dict ProgramsSeen(const Measurement& measurement) {
  py::dict programs;
  for (const auto& [number, program] : measurement.Seen()) {
    py::list calls;
    py::dict steps;
    for (const MeasuredCall& call : program.calls) {
      const py::tuple symbols = py::cast(call.symbols).cast<py::tuple>();
      calls.append(py::make_tuple(call.thread, call.begin_ns, call.end_ns, symbols, call.marks));
      if (steps.contains(symbols)) continue;
      py::list described;
      for (const StepFacts& facts : DescribeSteps(*program.image, call.symbols)) described.append(ToPython(facts));
      steps[symbols] = described;
    }
    py::dict out;
    const auto* name = program.image->manifest->name();
    out["name"] = name == nullptr ? "" : name->str();
    out["artifact"] = program.image->artifact->digest().ToHex();
    out["calls"] = calls;
    out["steps"] = steps;
    out["left_out"] = program.left_out;
    programs[py::int_(number)] = out;
  }
  return programs;
}

py::dict RoofsOf(int threads) {
  Roofs roofs;
  {
    const WithoutGil released;
    roofs = MeasureRoofs(threads);
  }
  py::dict out;
  out["read_bytes"] = roofs.read_bytes;
  out["copy_bytes"] = roofs.copy_bytes;
  out["f32_flops"] = roofs.f32_flops;
  out["bf16_flops"] = roofs.bf16_flops;
  return out;
}

}  // namespace

void BindMeasurement(py::module_& m) {
  py::class_<Measurement, std::shared_ptr<Measurement>>(m, "Measurement", "Sees every native call (measurement.h).")
      .def_static("begin", &Measurement::Begin, py::arg("calls_max"))
      .def("end", &Measurement::End)
      .def("seen", ProgramsSeen);
  m.def("measure_roofs", RoofsOf, py::arg("threads"), "What the machine can do at most, per second (roofs.h).");
}

}  // namespace ingot::client
