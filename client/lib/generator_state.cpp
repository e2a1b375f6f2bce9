// SPDX-License-Identifier: Apache-2.0
#include "client/lib/generator_state.h"

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

}  // namespace ingot::client
