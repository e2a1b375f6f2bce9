// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/measurement.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "guards/dtype.h"

namespace ingot::client {
namespace {

struct UnderWay {
  Mutex mutex;
  std::set<Measurement*> all GUARDED_BY(mutex);

  static UnderWay& Instance() {
    static auto* under_way = new UnderWay();
    return *under_way;
  }
};

/// Evaluates costs at one size. Counts of huge sizes may wrap, and are not known then.
class CostAt {
 public:
  CostAt(const PlanImage& image, std::span<const int64_t> symbols) : image_(image), symbols_(symbols) {}

  void Fill(const proto::Cost* cost, StepFacts& facts) const {
    if (cost == nullptr) return;
    if (cost->flops() >= 0) facts.flops = std::max<int64_t>(-1, At(static_cast<uint32_t>(cost->flops())));
    facts.dtype = guards::NameOf(static_cast<guards::DType>(cost->dtype()));
    facts.read_bytes = Bytes(cost->reads());
    facts.written_bytes = Bytes(cost->writes());
  }
  int64_t At(uint32_t dim) const { return image_.dims[dim].Eval(symbols_); }
  int64_t BytesOf(const proto::Value& value) const {
    auto bytes = static_cast<int64_t>(guards::SizeOf(static_cast<guards::DType>(value.dtype())));
    for (uint32_t i = 0; value.sizes() != nullptr && i < value.sizes()->size(); ++i) bytes *= At(value.sizes()->Get(i));
    return bytes;
  }

 private:
  int64_t Bytes(const flatbuffers::Vector<const proto::Moved*>* list) const {
    int64_t bytes = 0;
    for (uint32_t i = 0; list != nullptr && i < list->size(); ++i) {
      const int64_t moved = std::min(At(list->Get(i)->range()), At(list->Get(i)->accessed()));
      if (moved < 0) return -1;
      bytes += moved;
    }
    return bytes;
  }

  const PlanImage& image_;
  std::span<const int64_t> symbols_;
};

std::string TextOf(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

}  // namespace

std::atomic<int> Measurement::under_way_ = 0;

int64_t MeasuredCall::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::shared_ptr<Measurement> Measurement::Begin(size_t calls_max) {
  std::shared_ptr<Measurement> begun(new Measurement(calls_max));
  UnderWay& all = UnderWay::Instance();
  const MutexLock lock(all.mutex);
  all.all.insert(begun.get());
  under_way_.store(static_cast<int>(all.all.size()), std::memory_order_relaxed);
  return begun;
}

Measurement::~Measurement() { End(); }

void Measurement::End() {
  UnderWay& all = UnderWay::Instance();
  const MutexLock lock(all.mutex);
  all.all.erase(this);
  under_way_.store(static_cast<int>(all.all.size()), std::memory_order_relaxed);
}

void Measurement::Add(uint64_t program, const std::shared_ptr<const PlanImage>& image, const MeasuredCall& call) {
  UnderWay& all = UnderWay::Instance();
  const MutexLock lock(all.mutex);
  for (Measurement* const one : all.all) one->Note(program, image, call);
}

void Measurement::Note(uint64_t program, const std::shared_ptr<const PlanImage>& image, const MeasuredCall& call) {
  const MutexLock lock(mutex_);
  MeasuredProgram& of = seen_[program];
  of.image = image;
  if (of.calls.size() < calls_max_) {
    of.calls.push_back(call);
  } else {
    ++of.left_out;
  }
}

std::map<uint64_t, MeasuredProgram> Measurement::Seen() const {
  const MutexLock lock(mutex_);
  return seen_;
}

std::vector<StepFacts> DescribeSteps(const PlanImage& image, std::span<const int64_t> symbols) {
  const CostAt graph(image, symbols);
  std::vector<StepFacts> steps;
  for (uint32_t i = 0; i < image.step_count(); ++i) {
    const proto::PlanStep& step = *image.manifest->steps()->Get(i);
    StepFacts& facts = steps.emplace_back();
    switch (step.kind()) {
      case proto::StepKind::Kernel: {
        std::vector<int64_t> own;
        for (uint32_t k = 0; step.symbols() != nullptr && k < step.symbols()->size(); ++k) {
          own.push_back(graph.At(step.symbols()->Get(k)));
        }
        // The code of a gear does what the general code does.
        const proto::Kernel& kernel = *image.manifest->kernels()->Get(step.kernel());
        facts.kind = "kernel";
        facts.name = TextOf(kernel.name());
        facts.symbol = TextOf(image.manifest->kernels()->Get(image.KernelFor(step.kernel(), own))->symbol());
        if (facts.name.empty()) facts.name = facts.symbol;
        CostAt(image, own).Fill(kernel.cost(), facts);
        break;
      }
      case proto::StepKind::Aten:
        facts.kind = "aten";
        facts.name = TextOf(step.op());
        graph.Fill(step.cost(), facts);
        break;
      case proto::StepKind::Copy:
        facts.kind = facts.name = "copy";
        facts.flops = 0;
        facts.read_bytes = facts.written_bytes = graph.BytesOf(image.value(step.results()->Get(0)));
        break;
      case proto::StepKind::Guard:
        facts.kind = facts.name = "guard";
        facts.flops = 0;
        facts.read_bytes = graph.BytesOf(image.value(static_cast<uint32_t>(step.args()->Get(0)->ints()->Get(0))));
        facts.written_bytes = 0;
        break;
    }
  }
  return steps;
}

}  // namespace ingot::client
