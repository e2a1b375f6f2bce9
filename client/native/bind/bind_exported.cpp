// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <filesystem>
#include <tuple>

#include "client/lib/exported/exported_file.h"
#include "client/lib/exported/exported_function.h"
#include "client/lib/exported/weight_file.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/site/arguments.h"
#include "client/native/site/bindings.h"
#include "client/native/site/output_tree.h"
#include "client/native/trace/tensor_table.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// (outputs, proven, range, positions of weights, artifact)
using Variant = std::tuple<std::string, std::vector<std::vector<int64_t>>, std::string, std::vector<uint32_t>,
                           std::shared_ptr<const LoadedArtifact>>;
/// (arguments, variants)
using NamedVariants = std::pair<std::string, std::vector<Variant>>;

/// (shape, tensors, why no compiled code can serve it): as a call site takes the call apart
/// (arguments.h).
py::tuple ArgumentsOf(const py::tuple& args, const py::dict& kwargs) {
  std::vector<PyObject*> values;
  for (py::handle value : args) values.push_back(value.ptr());
  py::list names;
  for (auto [name, value] : kwargs) {
    names.append(name);
    values.push_back(value.ptr());
  }
  const py::tuple keywords(names);
  Arguments arguments;
  Flatten(values.data(), args.size(), keywords.ptr(), nullptr, false, nullptr, arguments);
  py::list tensors;
  for (const at::Tensor* tensor : arguments.tensors)
    tensors.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(*tensor)));
  return py::make_tuple(py::bytes(arguments.signature), tensors,
                        arguments.unsupported == nullptr ? py::object(py::none()) : py::str(arguments.unsupported));
}

/// (number of the structure, where its tensors stand in the call)
std::pair<size_t, std::vector<uint32_t>> Find(const ExportedFunction& function, const std::string& arguments) {
  const CallSignature given = Unwrap(CallSignature::Parse(arguments));
  ExportedFunction::Found found = Unwrap(function.Find(given));
  return {found.structure, std::move(found.tensors)};
}

/// (number of the variant that served, its result tensors)
std::pair<size_t, std::vector<at::Tensor>> Run(const ExportedFunction& function, size_t structure,
                                               const std::vector<at::Tensor>& inputs) {
  Result<Served> served = [&] {
    const WithoutGil released;
    return RunFirst(function.structures.at(structure).programs, inputs);
  }();
  if (!served) Throw(std::move(served).error().Wrap(function.name));
  return {served->program, std::move(served->outputs)};
}

std::vector<std::vector<std::string>> Outputs(const ExportedFunction& function) {
  std::vector<std::vector<std::string>> outputs;
  for (const ExportedFunction::Structure& structure : function.structures) outputs.push_back(structure.outputs);
  return outputs;
}

std::vector<std::string> Signatures(const ExportedFunction& function) {
  std::vector<std::string> texts;
  for (const ExportedFunction::Structure& structure : function.structures)
    texts.push_back(structure.arguments.ToText());
  return texts;
}

/// Weights that a safetensors file has are read from there; the name it is found under follows the
/// exported file.
void ReferTo(const std::string& weight_path, const std::string& path, std::vector<ExportedWeight>& weights) {
  namespace fs = std::filesystem;
  const WeightFile file = Unwrap(WeightFile::Open(weight_path));
  const fs::path relative = fs::absolute(weight_path).lexically_relative(fs::absolute(path).parent_path());
  const bool is_beside = !relative.empty() && *relative.begin() != "..";
  for (ExportedWeight& weight : weights) {
    const std::string name = file.NameOf(weight);
    if (name.empty()) continue;
    weight.file = is_beside ? relative.string() : fs::absolute(weight_path).lexically_normal().string();
    weight.tensor = name;
    weight.digest = DigestOf(weight.elements).ToHex();
  }
}

/// `weight_path`: empty, a safetensors file to take weights from, or with `writes` one to write.
/// Returns how many weights are inside the file.
size_t Save(const std::string& path, const std::string& name, const std::vector<NamedVariants>& structures,
            const NamedTensors& weights, const std::string& weight_path, bool writes) {
  ExportedFile file{name, {}, {}};
  for (const auto& [arguments, variants] : structures) {
    ExportedStructure& structure = file.structures.emplace_back();
    structure.arguments = Unwrap(CallSignature::Parse(arguments));
    for (const auto& [outputs, proven, range, numbers, artifact] : variants) {
      structure.variants.push_back({outputs, proven, range, numbers, artifact->bytes()});
    }
  }
  std::vector<Buffer> elements;
  elements.reserve(weights.size());
  for (const auto& [label, tensor] : weights) {
    const auto dtype = DTypeOf(tensor.scalar_type());
    if (!dtype) Throw(Error(Code::kUnsupported, "weight " + label + " has an element type Ingot does not know"));
    elements.push_back(CopyElements(tensor));
    file.weights.push_back({label, static_cast<guards::DType>(*dtype), tensor.sizes().vec(), tensor.strides().vec(),
                            elements.back(), "", "", ""});
  }
  if (writes) Unwrap(WeightFile::Write(weight_path, file.weights));
  if (!weight_path.empty()) ReferTo(weight_path, path, file.weights);
  Unwrap(WriteExportedFile(path, file));
  return static_cast<size_t>(std::count_if(file.weights.begin(), file.weights.end(),
                                           [](const ExportedWeight& weight) { return weight.file.empty(); }));
}

}  // namespace

void BindExported(py::module_& m) {
  m.def("arguments_of", ArgumentsOf);
  py::class_<OutputTree>(m, "OutputTree", "How result tensors become what a function returns (output_tree.h).")
      .def(py::init([](py::handle spec, size_t leaf_count, size_t input_count) {
             return Unwrap(OutputTree::Parse(spec.ptr(), leaf_count, input_count));
           }),
           py::arg("spec"), py::arg("leaf_count"), py::arg("input_count"))
      .def(
          "build",
          [](const OutputTree& tree, std::vector<at::Tensor> leaves, const std::vector<at::Tensor>& inputs) {
            std::vector<const at::Tensor*> pointers;
            for (const at::Tensor& input : inputs) pointers.push_back(&input);
            PyObject* built = tree.Build(leaves, pointers);
            if (built == nullptr) throw py::error_already_set();
            return py::reinterpret_steal<py::object>(built);
          },
          py::arg("leaves"), py::arg("inputs"));
  py::class_<ExportedFunction>(m, "ExportedFunction", "A bound exported file; thread-safe.")
      .def_static(
          "load",
          [](const std::string& path, const std::optional<py::bytes>& content, bool weights_anywhere) {
            ExportedFunction::LoadOptions options{{}, weights_anywhere};
            if (content) options.content = AsBytes(std::string_view(*content));
            return Unwrap(ExportedFunction::Load(path, options));
          },
          py::arg("path"), py::arg("content"), py::arg("weights_anywhere"))
      .def_readonly("name", &ExportedFunction::name)
      .def_property_readonly("outputs", Outputs,
                             "Of each argument structure: of each variant the result structure as JSON (tree.py).")
      .def_property_readonly("signatures", Signatures, "The argument structures for people.")
      .def_property_readonly(
          "programs",
          [](const ExportedFunction& function) {
            std::vector<uint64_t> numbers;
            for (const ExportedFunction::Structure& structure : function.structures) {
              for (const SizedProgram& program : structure.programs) numbers.push_back(program.program().number());
            }
            return numbers;
          },
          "Numbers of its programs.")
      .def("find", Find, py::arg("arguments"),
           "(number of the argument structure, where its tensors stand in the call)")
      .def("run", Run, py::arg("structure"), py::arg("inputs"),
           "(number of the variant that served, its result tensors in order); raises unless "
           "served.");
  m.def("write_exported", Save, py::arg("path"), py::arg("name"), py::arg("structures"), py::arg("weights"),
        py::arg("weight_path") = "", py::arg("writes") = false);
}

}  // namespace ingot::client
