// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "client/archive/zip_sums.h"

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace ingot::client {

/// The records of a torch.export archive (.pt2), each read at most once. Their checksums and, before memory is taken,
/// their sizes are checked here. Belongs to one thread.
class RecordReader {
 public:
  /// kNotFound: no such file; kInvalid: a folder, pipe or device; kCorrupt: no zip archive, or a damaged directory;
  /// kIncompatible: something else than an archive of torch.export, or one of an older PyTorch.
  static Result<RecordReader> Open(const std::string& path);
  RecordReader(RecordReader&&) noexcept;
  ~RecordReader();

  bool Has(const std::string& record) const;
  /// kCorrupt: absent, damaged, not JSON or nested beyond reason.
  Result<nlohmann::json> Json(const std::string& record);
  /// A tensor of a payload configuration (data/weights/model_weights_config.json): a window into
  /// `folder`/`path_name`. Tensors of one record share its memory, as they did when saved.
  Result<at::Tensor> Tensor(const std::string& folder, const nlohmann::json& payload);

 private:
  RecordReader(std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader, ZipSums sums, uint64_t file_bytes);
  Result<std::pair<at::DataPtr, size_t>> Read(const std::string& record);

  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  ZipSums sums_;
  uint64_t file_bytes_ = 0;
  std::map<std::string, c10::Storage> storages_;
};

/// The element type behind torch.export's number; nullopt for one that Ingot does not know.
std::optional<at::ScalarType> ScalarTypeFromArchive(int64_t number);

}  // namespace ingot::client
