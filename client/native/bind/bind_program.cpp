// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <chrono>
#include <set>

#include "base/cache_lines.h"
#include "client/lib/run/program.h"
#include "client/native/cpython/without_gil.h"
#include "client/native/places/tensor_facts.h"
#include "client/native/site/agreed_sizes.h"
#include "client/native/site/bindings.h"
#include "guards/manifest_guards.h"

namespace ingot::client {
namespace py = pybind11;

namespace {

std::vector<at::Tensor> Tensors(const py::list& list) {
  std::vector<at::Tensor> tensors;
  for (py::handle item : list) {
    if (!IsTensor(item.ptr())) throw py::type_error("expected a list of tensors");
    tensors.push_back(THPVariable_Unpack(item.ptr()));
  }
  return tensors;
}

std::vector<const at::Tensor*> Pointers(const std::vector<at::Tensor>& tensors) {
  std::vector<const at::Tensor*> pointers;
  for (const at::Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

/// The symbol values of these inputs, or None where a guard fails.
py::object Accepts(const Program& program, const py::list& inputs) {
  const auto tensors = Tensors(inputs);
  const auto pointers = Pointers(tensors);
  std::vector<int64_t> symbols(program.symbol_count());
  if (!program.Accepts(pointers.data(), pointers.size(), symbols.data())) return py::none();
  return py::cast(symbols);
}

std::string Explain(const Program& program, const py::list& inputs) {
  const auto tensors = Tensors(inputs);
  const auto pointers = Pointers(tensors);
  return program.Explain(pointers.data(), pointers.size());
}

/// Runs once outside any call site; raises unless served. Between, nothing of Python happens.
std::vector<at::Tensor> Run(Program& program, const std::vector<at::Tensor>& tensors,
                            std::chrono::nanoseconds* took = nullptr) {
  const auto pointers = Pointers(tensors);
  std::vector<at::Tensor> outputs;
  RunFailure failure;
  RunOutcome outcome;
  {
    const WithoutGil released;
    for (const at::Tensor& tensor : tensors) {
      if (took != nullptr) EvictFromCaches(tensor.storage().data(), tensor.storage().nbytes());
    }
    const auto began = std::chrono::steady_clock::now();
    outcome = program.Run(pointers.data(), pointers.size(), outputs, failure);
    if (took != nullptr) *took = std::chrono::steady_clock::now() - began;
  }
  if (outcome == RunOutcome::kGuardFailed) {
    Throw(Error(Code::kInvalid, program.Explain(pointers.data(), pointers.size())));
  }
  if (outcome == RunOutcome::kTraps || outcome == RunOutcome::kRaised) Throw(Error(Code::kInvalid, failure.why));
  if (outcome == RunOutcome::kFailedAfterWrite) Throw(HalfDone(failure.why));
  if (outcome != RunOutcome::kServed) Throw(Error(Code::kInternal, failure.why));
  return outputs;
}

/// Nanoseconds of one run on operands that are in no cache.
int64_t Time(Program& program, const py::list& inputs) {
  std::chrono::nanoseconds took{};
  Run(program, Tensors(inputs), &took);
  return took.count();
}

py::list RunOnce(Program& program, const py::list& inputs) {
  py::list results;
  for (const at::Tensor& tensor : Run(program, Tensors(inputs))) {
    results.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
  }
  return results;
}

py::dict Provenance(const LoadedArtifact& artifact) {
  const proto::Manifest& manifest = artifact.manifest();
  py::dict out;
  out["name"] = manifest.name() == nullptr ? "" : manifest.name()->str();
  out["digest"] = artifact.digest().ToHex();
  out["bytes"] = artifact.bytes().size();
  out["inputs"] = manifest.inputs() == nullptr ? 0u : manifest.inputs()->size();
  out["weights"] = manifest.weights() == nullptr ? 0u : manifest.weights()->size();
  out["outputs"] = manifest.outputs() == nullptr ? 0u : manifest.outputs()->size();
  out["kernels"] = manifest.kernels() == nullptr ? 0u : manifest.kernels()->size();
  size_t specials = 0, deciding = 0;
  for (uint32_t i = 0; manifest.kernels() != nullptr && i < manifest.kernels()->size(); ++i) {
    const proto::Kernel& kernel = *manifest.kernels()->Get(i);
    specials += kernel.specials() == nullptr ? 0 : kernel.specials()->size();
    deciding += kernel.deciding() == nullptr ? 0 : kernel.deciding()->size();
  }
  out["special_kernels"] = specials;
  out["gains_by_gears"] = deciding != 0;
  size_t kernel_steps = 0, product_steps = 0, aten_steps = 0, copies = 0;
  // A program that only returns its inputs has no steps, and an empty vector may be absent.
  const auto* steps = manifest.steps();
  for (uint32_t i = 0; steps != nullptr && i < steps->size(); ++i) {
    const proto::PlanStep* step = steps->Get(i);
    if (step->kind() == proto::StepKind::Kernel) {
      ++kernel_steps;
      const auto* tiled = manifest.kernels()->Get(step->kernel())->tiled();
      product_steps += tiled != nullptr && tiled->size() != 0;
    }
    if (step->kind() == proto::StepKind::Aten) ++aten_steps;
    if (step->kind() == proto::StepKind::Copy) ++copies;
  }
  out["groups"] = manifest.groups();
  out["native_steps"] = kernel_steps;
  out["product_steps"] = product_steps;
  out["aten_steps"] = aten_steps;
  out["copy_steps"] = copies;
  if (const proto::Provenance* p = manifest.provenance()) {
    out["compiler"] = p->compiler() == nullptr ? "" : p->compiler()->str();
    out["target"] = p->target() == nullptr ? "" : p->target()->str();
    out["native_share"] = p->native_share();
    out["arena_bytes"] = p->arena_bytes();
    out["arena_bytes_min"] = p->arena_bytes_min();
    out["proof_kernels"] = p->proof_kernels();
    py::list patterns;
    for (uint32_t i = 0; p->patterns() != nullptr && i < p->patterns()->size(); ++i) {
      const proto::PatternUse& use = *p->patterns()->Get(i);
      const auto text_of = [](const flatbuffers::String* text) {
        return text == nullptr ? std::string() : text->str();
      };
      patterns.append(py::make_tuple(text_of(use.name()), use.replaced(), text_of(use.why())));
    }
    if (!patterns.empty()) out["patterns"] = patterns;
  }
  return out;
}

/// {"inputs": [...], "weights": [...]}: numbers of those whose memory a step writes.
py::dict Writes(const LoadedArtifact& artifact) {
  const proto::Manifest& manifest = artifact.manifest();
  std::set<uint32_t> storages;
  const auto* steps = manifest.steps();
  for (uint32_t i = 0; steps != nullptr && i < steps->size(); ++i) {
    const auto* results = steps->Get(i)->results();
    for (uint32_t k = 0; results != nullptr && k < results->size(); ++k) {
      storages.insert(manifest.values()->Get(results->Get(k))->storage());
    }
  }
  const auto among = [&](const auto* specs) {
    py::list found;
    for (uint32_t i = 0; specs != nullptr && i < specs->size(); ++i) {
      if (storages.contains(manifest.values()->Get(specs->Get(i)->value())->storage())) found.append(i);
    }
    return found;
  };
  py::dict out;
  out["inputs"] = among(manifest.inputs());
  out["weights"] = among(manifest.weights());
  return out;
}

/// (input, dim) of each symbol: whose value is the size of that dim of that input.
std::vector<std::pair<uint32_t, uint32_t>> SymbolPlaces(const LoadedArtifact& artifact) {
  std::vector<std::pair<uint32_t, uint32_t>> places;
  const auto* symbols = artifact.manifest().symbols();
  for (uint32_t i = 0; symbols != nullptr && i < symbols->size(); ++i) {
    places.emplace_back(symbols->Get(i)->input(), symbols->Get(i)->dim());
  }
  return places;
}

/// The plan in words, one step a line: what f.as_text("plan") prints.
std::string PlanText(const LoadedArtifact& artifact) {
  const proto::Manifest& manifest = artifact.manifest();
  std::string text;
  const auto* steps = manifest.steps();
  for (uint32_t number = 0; steps != nullptr && number < steps->size(); ++number) {
    const proto::PlanStep* step = steps->Get(number);
    text += std::to_string(number) + ": ";
    if (step->kind() == proto::StepKind::Kernel) {
      text += "kernel " + manifest.kernels()->Get(step->kernel())->symbol()->str() + "(";
      for (uint32_t i = 0; i < step->buffers()->size(); ++i) {
        text += (i == 0 ? "%" : ", %") + std::to_string(step->buffers()->Get(i));
      }
      text += ")\n";
      continue;
    }
    if (step->results() != nullptr) {
      for (uint32_t id : *step->results()) text += "%" + std::to_string(id) + " ";
      if (step->results()->size() > 0) text += "= ";
    }
    text += step->kind() == proto::StepKind::Aten   ? (step->op() == nullptr ? "?" : step->op()->str())
            : step->kind() == proto::StepKind::Copy ? "copy"
                                                    : "guard";
    text += step->inplace() >= 0 ? " in place\n" : "\n";
  }
  return text;
}

/// The guards of the plan, one a line: what f.as_text("guards") prints (docs/format/guards.md).
std::string GuardsText(const LoadedArtifact& artifact) {
  const guards::GuardSet set = guards::ManifestGuards(artifact.manifest());
  std::string text;
  for (const guards::Guard& guard : set.guards()) text += set.ToText(guard) + "\n";
  return text;
}

}  // namespace

void BindProgram(py::module_& m) {
  py::class_<AgreedSizes, std::shared_ptr<AgreedSizes>>(m, "AgreedSizes", "Sizes for which eager gave the same.")
      .def(py::init<size_t>(), py::arg("symbol_count"))
      .def("add", [](AgreedSizes& a, const std::vector<int64_t>& symbols) { a.Add(symbols); })
      .def("merge", &AgreedSizes::Merge)
      .def("hold", [](const AgreedSizes& a, const std::vector<int64_t>& symbols) { return a.Hold(symbols); })
      .def("set_awaited", &AgreedSizes::set_awaited)
      .def_static("kind_of", [](int64_t size) { return AgreedSizes::NameOf(AgreedSizes::KindOf(size)); });
  py::class_<LoadedArtifact, std::shared_ptr<LoadedArtifact>>(m, "Artifact")
      .def("bytes",
           [](const LoadedArtifact& a) {
             return py::bytes(reinterpret_cast<const char*>(a.bytes().data()), a.bytes().size());
           })
      .def("provenance", Provenance)
      .def("writes", Writes)
      .def("symbol_places", SymbolPlaces)
      .def("symbols_of_exact",
           [](const LoadedArtifact& a, const LoadedArtifact& exact) {
             return guards::SymbolsOfExact(a.manifest(), exact.manifest());
           })
      .def("plan_text", PlanText)
      .def("guards_text", GuardsText);
  py::class_<Program, std::shared_ptr<Program>>(m, "Program")
      .def_static(
          "bind",
          [](std::shared_ptr<LoadedArtifact> artifact, const py::list& weights, std::vector<std::string> groups,
             bool counted) {
            ProcessGroups found = Unwrap(ProcessGroups::Find(std::move(groups)));
            return Unwrap(Program::Bind(std::move(artifact), Tensors(weights), std::move(found), counted));
          },
          py::arg("artifact"), py::arg("weights"), py::arg("groups") = std::vector<std::string>(),
          py::arg("counted") = true)
      .def("set_threads", &Program::SetThreads)
      .def("groups_hold", &Program::GroupsHold)
      .def("accepts", Accepts)
      .def("explain", Explain)
      .def("run", RunOnce)
      .def("time", Time, "Nanoseconds of one run on operands that are in no cache.")
      .def_property_readonly("number", &Program::number)
      .def_property_readonly("symbol_count", &Program::symbol_count)
      .def(
          "served_calls",
          [](const Program& p) {
            return py::cpp_function([count = p.served()] { return count->load(std::memory_order_relaxed); });
          },
          "Tells how many calls it has served; outlives it.")
      .def("arena_bytes",
           [](const Program& p, const std::vector<int64_t>& symbols) { return p.ArenaBytes(symbols.data()); });
}

}  // namespace ingot::client
