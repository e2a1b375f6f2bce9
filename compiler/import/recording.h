// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "compiler/ir/graph.h"
#include "proto/graph_generated.h"

namespace ingot::compiler {

/// kCorrupt: a recording of which this does not hold.
Error CorruptRecording(std::string what);

/// What the recording says about one tensor.
struct Meta {
  Type type;               ///< all numbers
  int64_t offset = 0;      ///< elements from the start of the storage
  uint32_t storage = 0;
  int64_t first_byte = 0;  ///< of the storage that an element occupies
  int64_t end_byte = 0;    ///< one past the last
};

/// Recording bytes after the FlatBuffers verifier and with checked tensor metadata; hands out
/// steps with every enum, index and payload checked. Owns an aligned copy where it needs one.
class Recording {
 public:
  /// kCorrupt says what does not hold.
  static Result<Recording> Open(Bytes bytes);
  Recording(Recording&&) = default;
  Recording& operator=(Recording&&) = default;

  const proto::Recording& root() const { return *root_; }
  size_t step_count() const { return root_->steps() ? root_->steps()->size() : 0; }
  const proto::Step& step(size_t i) const { return *root_->steps()->Get(i); }
  const std::vector<Meta>& metas() const { return metas_; }
  const Meta& meta(uint32_t value) const { return metas_[value]; }

  /// The argument as the graph writes it, except that values are recording ids (Ref, RefList).
  Result<Arg> ReadArg(const proto::Arg& arg);

 private:
  Recording() = default;
  Status ReadMetas();
  Status Spend(uint64_t bytes);
  Result<uint32_t> CheckId(int64_t id) const;

  Buffer copy_;
  const proto::Recording* root_ = nullptr;
  std::vector<Meta> metas_;
  uint64_t budget_bytes_ = 0;
};

}  // namespace ingot::compiler
