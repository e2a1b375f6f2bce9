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

/// The tensors of one call or the weights of one variant, as (path, tensor).
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

std::vector<at::Tensor> Run(const ExportedFunction& function, const std::vector<at::Tensor>& inputs) {
  Result<std::vector<at::Tensor>> outputs = [&] {
    const WithoutGil released;
    return function.program.Run(inputs);
  }();
  if (!outputs) Throw(std::move(outputs).error().Wrap(function.name));
  return *std::move(outputs);
}

void Save(const std::string& path, const std::string& name, const std::string& outputs,
          const std::vector<std::vector<int64_t>>& proven, const std::string& range, const NamedTensors& weights,
          const LoadedArtifact& artifact) {
  ExportedFile file{name, outputs, proven, range, {}, artifact.bytes()};
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
      .def_readonly("outputs", &ExportedFunction::outputs, "Result structure as JSON (tree.py).")
      .def("run", Run, py::arg("inputs"), "Result tensors in order; raises unless served.");
  m.def("write_exported", Save, py::arg("path"), py::arg("name"), py::arg("outputs"), py::arg("proven"),
        py::arg("range"), py::arg("weights"), py::arg("artifact"));
}

}  // namespace ingot::client
