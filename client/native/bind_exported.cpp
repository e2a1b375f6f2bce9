// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <tuple>

#include "client/lib/exported_file.h"
#include "client/lib/sized_program.h"
#include "client/native/bindings.h"
#include "client/native/without_gil.h"
#include "client/native/tensor_table.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// (outputs, proven, range, positions of weights, artifact)
using Variant = std::tuple<std::string, std::vector<std::vector<int64_t>>, std::string, std::vector<uint32_t>,
                           std::shared_ptr<const LoadedArtifact>>;

/// (number of the variant that served, its result tensors)
std::pair<size_t, std::vector<at::Tensor>> Run(const ExportedFunction& function,
                                               const std::vector<at::Tensor>& inputs) {
  Result<Served> served = [&] {
    const WithoutGil released;
    return RunFirst(function.programs, inputs);
  }();
  if (!served) Throw(std::move(served).error().Wrap(function.name));
  return {served->program, std::move(served->outputs)};
}

void Save(const std::string& path, const std::string& name, const std::vector<Variant>& variants,
          const NamedTensors& weights) {
  ExportedFile file{name, {}, {}};
  for (const auto& [outputs, proven, range, numbers, artifact] : variants) {
    file.variants.push_back({outputs, proven, range, numbers, artifact->bytes()});
  }
  std::vector<Buffer> elements;
  elements.reserve(weights.size());
  for (const auto& [label, tensor] : weights) {
    const auto dtype = DTypeOf(tensor.scalar_type());
    if (!dtype) Throw(Error(Code::kUnsupported, "weight " + label + " has an element type Ingot does not know"));
    elements.push_back(CopyElements(tensor));
    file.weights.push_back({label, static_cast<guards::DType>(*dtype), tensor.sizes().vec(), tensor.strides().vec(),
                            elements.back()});
  }
  Unwrap(WriteExportedFile(path, file));
}

}  // namespace

void BindExported(py::module_& m) {
  py::class_<ExportedFunction>(m, "ExportedFunction", "A bound exported file; thread-safe.")
      .def_static("load", [](const std::string& path) { return Unwrap(LoadExported(path)); })
      .def_readonly("name", &ExportedFunction::name)
      .def_readonly("outputs", &ExportedFunction::outputs, "Result structure of each variant as JSON (tree.py).")
      .def("run", Run, py::arg("inputs"), 
           "(number of the variant that served, its result tensors in order); raises unless served.");
  m.def("write_exported", Save, py::arg("path"), py::arg("name"), py::arg("variants"), py::arg("weights"));
}

}  // namespace ingot::client
