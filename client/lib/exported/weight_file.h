// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "client/lib/exported/exported_file.h"

namespace ingot::client {

/// A tensor in a safetensors file: contiguous elements, little-endian.
struct StoredTensor {
  guards::DType dtype = guards::DType::kF32;
  std::vector<int64_t> sizes;
  Bytes elements;
};

/// Tensors of a safetensors file (8 bytes of length, JSON header, elements) by name, as views of
/// `bytes`; those of element types that Ingot has no name for are left out. kCorrupt: damaged.
Result<std::map<std::string, StoredTensor>> ParseSafetensors(Bytes bytes);

/// A safetensors file that exported files take weights from: memory-mapped, read-only.
class WeightFile {
 public:
  /// kNotFound and the like when it cannot be read; kCorrupt. Errors name the path.
  static Result<WeightFile> Open(const std::string& path);
  /// Writes the elements of weights under the names they have in a state_dict, as a whole or not at
  /// all. kUnsupported: an element type that the format has no name for.
  static Status Write(const std::string& path, const std::vector<ExportedWeight>& weights);

  /// The name under which the file holds this weight's elements, byte for byte; empty where it does
  /// not. The name in a state_dict is tried first.
  std::string NameOf(const ExportedWeight& weight) const;
  /// The elements that a weight refers to. kNotFound: no tensor of that name; kIncompatible: other
  /// sizes or another element type; kCorrupt: other elements than when the weight was exported.
  Result<Bytes> ElementsOf(const ExportedWeight& weight) const;

 private:
  struct Mapping {
    Mapping(const uint8_t* bytes, size_t size) : bytes(bytes), size(size) {}
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    const uint8_t* bytes;
    size_t size;
  };
  std::shared_ptr<const Mapping> mapping_;
  std::map<std::string, StoredTensor> tensors_;
};

/// "linear.weight" of "self.linear.weight".
std::string StateName(const std::string& path);

}  // namespace ingot::client
