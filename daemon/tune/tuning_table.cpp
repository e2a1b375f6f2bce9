// SPDX-License-Identifier: Apache-2.0
#include "daemon/tune/tuning_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "base/processors.h"
#include "proto/message.h"

namespace ingot::daemon {
namespace {

constexpr size_t kNameBytesMax = 4096;
/// How much of the kernel's time the library may take to be chosen, in percent, and the longest time that is believed.
constexpr uint64_t kClearPercent = 96;
constexpr uint64_t kNanosecondsMax = 1'000'000'000'000;

Digest MachineKey(const std::string& machine) {
  Hasher hasher;
  hasher.AddField("tuning");
  hasher.AddField(machine);
  return hasher.Finish();
}

std::string ModelOfProcessor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(": ");
    if (line.starts_with("model name") && at != std::string::npos) return line.substr(at + 2);
  }
  return "unknown processor";
}

Digest KernelOf(const proto::MeasuredT& one) { return {one.kernel_low, one.kernel_high}; }

/// Whether times bear out who is said to be faster.
bool IsBorneOut(proto::Rival faster, uint64_t kernel_ns, uint64_t library_ns) {
  if (faster > proto::Rival::MAX || std::max(kernel_ns, library_ns) > kNanosecondsMax) return false;
  return faster != proto::Rival::Library || (library_ns != 0 && library_ns * 100 <= kernel_ns * kClearPercent);
}

std::vector<uint64_t> KernelsWhere(const proto::TuningRecordT& record, bool (*is_meant)(const proto::MeasuredT&)) {
  std::vector<uint64_t> kernels;
  for (const auto& one : record.kernels) {
    if (is_meant(*one)) kernels.insert(kernels.end(), {one->kernel_low, one->kernel_high});
  }
  return kernels;
}

}  // namespace

std::string MachineText(const CompilerFacts& facts) {
  const auto bytes = [](int name) { return std::max<long>(0, sysconf(name)); };
  return fmt::format("{}; {} processors; caches {} {} {}; {} {}; {}", ModelOfProcessor(), ProcessorCount(),
                     bytes(_SC_LEVEL1_DCACHE_SIZE), bytes(_SC_LEVEL2_CACHE_SIZE), bytes(_SC_LEVEL3_CACHE_SIZE),
                     facts.level, fmt::join(facts.features, " "), facts.identity);
}

Result<proto::TuningRecordT> DecodeTuning(Bytes bytes, const std::string& machine, const Config& config) {
  const auto* table = proto::ReadMessage<proto::TuningRecord>(bytes);
  if (table == nullptr) return Error(Code::kCorrupt, "the record of what was measured does not verify");
  proto::TuningRecordT record;
  table->UnPackTo(&record);
  if (record.machine != machine) return Error(Code::kCorrupt, "it was measured on another machine");
  if (record.kernels.size() > config.tuning_kernels_max) {
    return Error(Code::kCorrupt, fmt::format("{} kernels, at most {} are kept (tuning_kernels_max)",
                                             record.kernels.size(), config.tuning_kernels_max));
  }
  for (const auto& one : record.kernels) {
    if (one->name.size() > kNameBytesMax || one->schedule.size() > kNameBytesMax) {
      return Error(Code::kCorrupt, "a name or a schedule is longer than any is");
    }
    if (!IsBorneOut(one->faster, one->kernel_ns, one->library_ns)) {
      return Error(Code::kCorrupt, "a library is faster by times in which it is not");
    }
  }
  return record;
}

void TuningTable::Load(const CompilerFacts& facts) {
  const bool is_same =
      facts.identity == facts_.identity && facts.level == facts_.level && facts.features == facts_.features;
  if (is_loaded_ && is_same) return;
  facts_ = facts;
  const std::string machine = MachineText(facts);
  const Result<cache::Value> stored = store_.Get(cache::Table::kStats, MachineKey(machine));
  // One that cannot be read now is asked again.
  is_loaded_ = stored || stored.error().code() == Code::kNotFound || stored.error().code() == Code::kCorrupt;
  record_ = {};
  record_.machine = machine;
  if (stored) {
    Result<proto::TuningRecordT> decoded = DecodeTuning(stored->bytes, machine, config_);
    if (decoded) {
      record_ = std::move(*decoded);
    } else {
      LogWarn("dropped what was measured on this machine", {{"reason", decoded.error()}});
    }
  }
  MakeChoices();
}

void TuningTable::MakeChoices() {
  auto recipe = std::make_shared<proto::RecipeT>();
  for (const auto& one : record_.kernels) {
    const bool is_by_library = one->faster == proto::Rival::Library;
    if (one->schedule.empty() && !is_by_library) continue;
    auto& choice = *recipe->choices.emplace_back(std::make_unique<proto::KernelChoiceT>());
    choice.kernel_low = one->kernel_low;
    choice.kernel_high = one->kernel_high;
    choice.schedule = is_by_library ? kByLibrary : one->schedule;
  }
  choices_ = recipe->choices.empty() ? nullptr : std::move(recipe);
}

std::shared_ptr<const proto::RecipeT> TuningTable::ChoicesFor(const CompilerFacts& facts) {
  MutexLock lock(mutex_);
  Load(facts);
  return choices_;
}

std::vector<uint64_t> TuningTable::KnownFor(const CompilerFacts& facts) {
  MutexLock lock(mutex_);
  Load(facts);
  return KernelsWhere(record_, [](const proto::MeasuredT& one) { return one.candidates != 0; });
}

std::vector<uint64_t> TuningTable::HeldAgainstLibrary(const CompilerFacts& facts) {
  MutexLock lock(mutex_);
  Load(facts);
  return KernelsWhere(record_, [](const proto::MeasuredT& one) { return one.faster != proto::Rival::Unmeasured; });
}

std::unique_ptr<proto::MeasuredT> TuningTable::Of(const CompilerFacts& facts, const Digest& kernel) {
  MutexLock lock(mutex_);
  Load(facts);
  const auto at = std::ranges::find_if(record_.kernels, [&](const auto& one) { return KernelOf(*one) == kernel; });
  return at == record_.kernels.end() ? nullptr : std::make_unique<proto::MeasuredT>(**at);
}

bool TuningTable::Add(const CompilerFacts& facts, const std::vector<std::unique_ptr<proto::MeasuredT>>& measured) {
  if (measured.empty()) return false;
  MutexLock lock(mutex_);
  Load(facts);
  bool is_chosen = false;
  for (const auto& one : measured) {
    if (one->name.size() > kNameBytesMax || one->schedule.size() > kNameBytesMax) continue;
    Renew(KernelOf(*one)) = *one;
    is_chosen |= !one->schedule.empty();
  }
  Settle();
  return is_chosen;
}

void TuningTable::Offer(const Digest& part, std::string name) {
  MutexLock lock(mutex_);
  name.resize(std::min(name.size(), kNameBytesMax));
  offered_.Put(part, std::move(name), 1);
}

Result<bool> TuningTable::AddRival(const CompilerFacts& facts, const Digest& part, proto::Rival faster,
                                   uint64_t kernel_ns, uint64_t library_ns) {
  MutexLock lock(mutex_);
  const std::string* const name = offered_.Find(part);
  if (name == nullptr) {
    return Error(Code::kNotFound, fmt::format("{} was handed to nobody to hold it against the library", part.ToHex()));
  }
  if (!IsBorneOut(faster, kernel_ns, library_ns)) {
    return Error(Code::kInvalid, fmt::format("the library is faster where it takes at most {}% of the kernel's time; "
                                             "found {} of {} ns",
                                             kClearPercent, library_ns, kernel_ns));
  }
  Load(facts);
  proto::MeasuredT& row = Renew(part);
  row.name = *name;
  row.faster = faster;
  row.kernel_ns = kernel_ns;
  row.library_ns = library_ns;
  Settle();
  return faster == proto::Rival::Library;
}

proto::MeasuredT& TuningTable::Renew(const Digest& kernel) {
  auto at = std::ranges::find_if(record_.kernels, [&](const auto& one) { return KernelOf(*one) == kernel; });
  std::rotate(at, at == record_.kernels.end() ? at : std::next(at), record_.kernels.end());
  if (at == record_.kernels.end()) {
    record_.kernels.push_back(std::make_unique<proto::MeasuredT>());
    record_.kernels.back()->kernel_low = kernel.low;
    record_.kernels.back()->kernel_high = kernel.high;
  }
  return *record_.kernels.back();
}

void TuningTable::Settle() {
  const size_t kept = std::min<size_t>(record_.kernels.size(), config_.tuning_kernels_max);
  record_.kernels.erase(record_.kernels.begin(), record_.kernels.end() - static_cast<long>(kept));
  MakeChoices();
  Write();
}

void TuningTable::Write() {
  const Digest key = MachineKey(record_.machine);
  const Buffer bytes = proto::PackMessage<proto::TuningRecord>(record_);
  const Result<uint64_t> put = store_.Put(cache::Table::kStats, key, bytes, {});
  Status written = put ? Status() : Status(put.error());
  if (written) written = store_.Pin(cache::Table::kStats, key, true);
  if (!written) LogWarn("keeps what was measured in memory only", {{"reason", written.error()}});
}

}  // namespace ingot::daemon
