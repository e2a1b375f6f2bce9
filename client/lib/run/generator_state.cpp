// SPDX-License-Identifier: Apache-2.0
#include "client/lib/run/generator_state.h"

#include <mutex>

namespace ingot::client {
namespace {

at::CPUGeneratorImpl& Default() { return *at::detail::getDefaultCPUGenerator().get<at::CPUGeneratorImpl>(); }

}  // namespace

GeneratorState::GeneratorState() {
  at::CPUGeneratorImpl& generator = Default();
  const std::lock_guard lock(generator.mutex_);
  engine_ = generator.engine();
  next_float_ = generator.next_float_normal_sample();
  next_double_ = generator.next_double_normal_sample();
}

void GeneratorState::PutBack() const {
  at::CPUGeneratorImpl& generator = Default();
  const std::lock_guard lock(generator.mutex_);
  generator.set_engine(engine_);
  generator.set_next_float_normal_sample(next_float_);
  generator.set_next_double_normal_sample(next_double_);
}

Digest GeneratorState::Number() const {
  const at::mt19937_data_pod data = engine_.data();
  Hasher hasher;
  hasher.Add(data.seed_);
  hasher.Add(static_cast<uint64_t>(data.left_));
  hasher.Add(data.next_);
  hasher.AddField(Bytes(reinterpret_cast<const uint8_t*>(data.state_.data()), sizeof data.state_));
  hasher.Add(static_cast<uint64_t>(next_float_.has_value()) + 2 * static_cast<uint64_t>(next_double_.has_value()));
  return hasher.Finish();
}

}  // namespace ingot::client
