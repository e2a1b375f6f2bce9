// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "client/archive/arguments.h"
#include "client/archive/export_archive.h"
#include "client/archive/followed_sizes.h"
#include "client/archive/record_reader.h"
#include "client/native/trace/recorder.h"

namespace ingot::client {

/// How a tensor of the call is made up.
struct ArchiveShape {
  at::ScalarType dtype = at::kFloat;
  std::vector<guards::Dim> sizes, strides;
};

/// A weight that the program is run with.
struct ArchiveWeight {
  std::string value;   ///< name inside the program
  std::string target;  ///< name outside it: "layers.0.weight"
  bool is_buffer = false;
};

/// Where the results of a run go: a leaf of the call, a constant, or back into a buffer or input.
struct ArchiveResult {
  nlohmann::json argument;
  std::optional<std::string> target;  ///< name of the value it is written to
};

/// The memory that the elements of a tensor lie in.
Bytes MemoryOf(const at::Tensor& tensor);

/// An archive as it was read (archive_state.cpp), and its runs (export_archive.cpp).
struct ExportArchive::State {
  explicit State(RecordReader opened) : reader(std::move(opened)) {}

  RecordReader reader;
  std::string name;
  nlohmann::json graph;
  std::string result_spec;
  std::vector<ArchiveSymbol> symbols;
  std::vector<ArchiveInput> inputs;
  guards::GuardSet conditions;
  std::vector<ArchiveShape> shapes;  ///< of `inputs`
  std::vector<ArchiveWeight> weights;
  std::vector<ArchiveResult> results;
  std::map<std::string, at::Tensor> tensors;  ///< weights by outside name
  std::map<std::string, Digest> untouched;    ///< their memory as it was read
  std::map<std::string, Buffer> elements;     ///< of Weight(), by outside name
  std::string arguments;
  std::string outputs;

  Status Read();
  Status ReadSymbols(const nlohmann::json& program);
  Status ReadConditions(const nlohmann::json& program);
  Status ReadTensors();
  Status ReadInputs(const nlohmann::json& specs);
  Status ReadArguments(const nlohmann::json& specs, const nlohmann::json& call);
  Status ReadTensorInput(const std::string& value);
  Status ReadResults(const nlohmann::json& specs);
  Result<std::vector<guards::Dim>> ReadDims(const nlohmann::json& list) const;
  std::optional<std::string> ValueOf(const std::string& target) const;

  Result<Buffer> Record(std::span<const int64_t> values, std::span<const ArchiveSymbol> ranges, int64_t whole);
  void NoteRanges(const Recorder& recorder, const Scope& scope, std::span<const int64_t> values,
                  std::span<const ArchiveSymbol> ranges, Sizes& sizes) const;
  Status CheckMemory(const std::vector<std::string>& written, const std::vector<std::string>& used) const;
  Status Finish(Scope& scope, Recorder& recorder, bool follows, std::vector<at::Tensor>& leaves);
  nlohmann::ordered_json Leaf(const at::Tensor& tensor, const Scope& scope, std::vector<at::Tensor>& leaves) const;
};

}  // namespace ingot::client
