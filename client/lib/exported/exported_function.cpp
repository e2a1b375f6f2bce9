// SPDX-License-Identifier: Apache-2.0
#include "client/lib/exported/exported_function.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "base/filesystem.h"
#include "client/lib/exported/exported_file.h"
#include "client/lib/exported/weight_file.h"
#include "client/lib/run/guard_table.h"

namespace ingot::client {
namespace {

/// A tensor of its own memory with the strides it had.
Result<at::Tensor> TensorOf(const ExportedWeight& weight) {
  const at::ScalarType dtype = ScalarTypeOf(static_cast<proto::DType>(weight.dtype));
  try {
    at::Tensor flat = at::empty(weight.sizes, dtype);
    if (!weight.elements.empty()) {
      std::memcpy(flat.mutable_data_ptr(), weight.elements.data(), weight.elements.size());
    }
    if (flat.strides() == at::IntArrayRef(weight.strides)) return flat;
    at::Tensor made = at::empty_strided(weight.sizes, weight.strides, dtype);
    // An expanded tensor has one element for many indices, all of them equal.
    bool overlaps = false;
    for (size_t i = 0; i < weight.sizes.size(); ++i) overlaps |= weight.sizes[i] > 1 && weight.strides[i] == 0;
    if (!overlaps) return made.copy_(flat);
    at::Tensor source = flat;
    at::Tensor target = made;
    for (size_t i = 0; i < weight.sizes.size(); ++i) {
      if (weight.strides[i] != 0 || weight.sizes[i] == 0) continue;
      source = source.narrow(static_cast<int64_t>(i), 0, 1);
      target = target.narrow(static_cast<int64_t>(i), 0, 1);
    }
    target.copy_(source);
    return made;
  } catch (const std::exception& e) {
    return Error(Code::kExhausted, fmt::format("weight {}: {}", weight.path, e.what()));
  }
}

/// Where a file of weights is that an exported file names.
Result<std::string> WhereIs(const std::string& named, const std::string& path, bool anywhere) {
  const std::filesystem::path place(named);
  const bool climbs = std::ranges::any_of(place, [](const std::filesystem::path& part) { return part == ".."; });
  if (!anywhere && (place.is_absolute() || climbs || named.find('\0') != named.npos)) {
    return Error(Code::kInvalid,
                 fmt::format("weights at '{}', outside of the file's folder; load it with weights=\"anywhere\" (C++: "
                             "WeightsFrom::kAnywhere) if that is meant",
                             named));
  }
  return (std::filesystem::path(path).parent_path() / place).string();
}

/// The weights of a file as tensors, wherever their elements are.
Result<std::vector<at::Tensor>> ReadWeights(std::vector<ExportedWeight> weights, const std::string& path,
                                            bool anywhere) {
  std::map<std::string, WeightFile> files;
  std::vector<at::Tensor> tensors;
  for (ExportedWeight& weight : weights) {
    if (!weight.file.empty()) {
      auto at = files.find(weight.file);
      if (at == files.end()) {
        TRY_ASSIGN(const std::string where, WhereIs(weight.file, path, anywhere));
        TRY_ASSIGN(WeightFile opened, WeightFile::Open(where));
        at = files.emplace(weight.file, std::move(opened)).first;
      }
      Result<Bytes> elements = at->second.ElementsOf(weight);
      if (!elements) return std::move(elements).error().Wrap(weight.file);
      weight.elements = *elements;
    }
    TRY_ASSIGN(at::Tensor tensor, TensorOf(weight));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<ExportedFunction> Read(const std::string& path, const ExportedFunction::LoadOptions& options) {
  Buffer read;
  if (!options.content) {
    TRY_ASSIGN(read, RealFilesystem().Read(path, std::numeric_limits<int64_t>::max()));
  }
  TRY_ASSIGN(const ExportedFile file, ParseExportedFile(options.content.value_or(read)));
  TRY_ASSIGN(const std::vector<at::Tensor> tensors, ReadWeights(file.weights, path, options.weights_anywhere));
  ExportedFunction function{file.name, {}};
  for (const ExportedStructure& structure : file.structures) {
    ExportedFunction::Structure& made = function.structures.emplace_back();
    made.arguments = structure.arguments;
    for (const ExportedVariant& variant : structure.variants) {
      TRY_ASSIGN(SizeRule rule, SizeRule::Make(variant.proven, variant.range));
      TRY_ASSIGN(std::shared_ptr<const LoadedArtifact> artifact, LoadedArtifact::Open(variant.artifact));
      const auto* inputs = artifact->manifest().inputs();
      const size_t taken = inputs == nullptr ? 0 : inputs->size();
      if (taken != structure.arguments.tensor_count) {
        return Error(Code::kCorrupt, fmt::format("code for {} tensors, the argument structure has {}", taken,
                                                 structure.arguments.tensor_count));
      }
      std::vector<at::Tensor> weights;
      for (const uint32_t number : variant.weights) weights.push_back(tensors[number]);
      TRY_ASSIGN(std::shared_ptr<Program> program, Program::Bind(std::move(artifact), std::move(weights)));
      made.outputs.push_back(variant.outputs);
      made.programs.emplace_back(std::move(program), std::move(rule));
    }
  }
  return function;
}

std::vector<std::string> TextsOf(const std::vector<ExportedFunction::Structure>& structures) {
  std::vector<std::string> texts;
  for (const ExportedFunction::Structure& structure : structures) texts.push_back(structure.arguments.ToText());
  return texts;
}

}  // namespace

Result<ExportedFunction> ExportedFunction::Load(const std::string& path, const LoadOptions& options) {
  Result<ExportedFunction> loaded = Read(path, options);
  if (!loaded) return std::move(loaded).error().Wrap(path);
  return loaded;
}

Result<ExportedFunction::Found> ExportedFunction::Find(const CallSignature& given) const {
  std::vector<std::string> differences;
  for (size_t i = 0; i < structures.size(); ++i) {
    Result<std::vector<uint32_t>> tensors = structures[i].arguments.Match(given);
    if (tensors) return Found{i, *std::move(tensors)};
    differences.push_back(tensors.error().message());
  }
  if (differences.size() == 1) return Error(Code::kInvalid, fmt::format("{}: {}", name, differences.front()));
  std::string text =
      fmt::format("{}: none of {} argument structures is that of {}", name, structures.size(), given.ToText());
  for (size_t i = 0; i < differences.size(); ++i) {
    text += fmt::format("; {}: {}", structures[i].arguments.ToText(), differences[i]);
  }
  return Error(Code::kInvalid, text);
}

Result<size_t> ExportedFunction::FindByTensors(std::span<const at::Tensor> tensors) const {
  CallSignature::TensorKinds kinds;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined())
      return Error(Code::kInvalid, fmt::format("{}: input {} is an undefined tensor", name, kinds.size()));
    kinds.emplace_back(ElementTypeOf(tensor.scalar_type()), static_cast<size_t>(tensor.dim()));
  }
  std::optional<size_t> found;
  for (size_t i = 0; i < structures.size(); ++i) {
    if (!structures[i].arguments.TakesTensors(kinds)) continue;
    if (found) {
      return Error(Code::kInvalid,
                   fmt::format("{}: tensors alone do not say which argument structure is meant: {}; pass all "
                               "arguments to Call",
                               name, fmt::join(TextsOf(structures), " or ")));
    }
    found = i;
  }
  // Where there is one, its code says best what does not fit.
  if (found || structures.size() == 1) return found.value_or(0);
  return Error(Code::kInvalid, fmt::format("{}: these {} tensors are those of no argument structure: {}", name,
                                           tensors.size(), fmt::join(TextsOf(structures), " or ")));
}

}  // namespace ingot::client
