// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "base/metrics.h"
#include "cache/store.h"

namespace ingot::cache {

/// Holds another store to the rule that an artifact's name is the digest of its bytes.
///
/// Put of an artifact under another name: kInvalid. Get of an artifact that does not hash to its
/// name: kCorrupt, counted, and the value is deleted. Other tables pass through. Thread-safe.
class VerifyStore final : public Store {
 public:
  explicit VerifyStore(std::unique_ptr<Store> behind, Metrics& metrics = GlobalMetrics())
      : behind_(std::move(behind)), metrics_(metrics) {}

  Result<Buffer> Get(Table table, const Digest& key) override;
  Status Put(Table table, const Digest& key, Bytes value, double cost_s) override;
  Result<bool> PutIfAbsent(Table table, const Digest& key, Bytes value, double cost_s) override;
  Status Delete(Table table, const Digest& key) override { return behind_->Delete(table, key); }
  Result<Stat> StatOf(Table table, const Digest& key) override {
    return behind_->StatOf(table, key);
  }
  void Touch(Table table, const Digest& key) override { behind_->Touch(table, key); }
  Status Pin(Table table, const Digest& key, bool pinned) override {
    return behind_->Pin(table, key, pinned);
  }
  Status ForEach(Table table, const std::function<bool(const Digest&, const Stat&)>& fn) override {
    return behind_->ForEach(table, fn);
  }
  Status ForEachDamaged(const std::function<bool(const Damage&)>& fn) override {
    return behind_->ForEachDamaged(fn);
  }
  Status Compact() override { return behind_->Compact(); }
  std::string Describe() const override { return behind_->Describe(); }

 private:
  const std::unique_ptr<Store> behind_;
  Metrics& metrics_;
};

}  // namespace ingot::cache
