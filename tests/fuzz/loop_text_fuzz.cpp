// SPDX-License-Identifier: Apache-2.0
// Loop IR text; small kernels also run, since the interpreter promises to check every access, and
// finds none outside where that was proved.
#include "compiler/loop/bounds.h"
#include "compiler/loop/interpret.h"
#include "compiler/loop/text.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>

namespace ingot::fuzz {
namespace {

using namespace compiler::loop;  // NOLINT: one target, one language

constexpr int64_t kElementsMax = 1 << 12;

bool IsSmall(const Dim& size, std::span<const int64_t> symbols, int64_t& budget) {
  const int64_t value = size.Eval(symbols);
  if (value < 0 || value > budget) return false;
  budget /= std::max<int64_t>(value, 1);
  return true;
}

/// Rows, loops and buffers whose product a test can wait for.
bool IsSmall(const Kernel& kernel, std::span<const int64_t> symbols) {
  int64_t work = kElementsMax;
  for (const Dim& rows : kernel.rows) {
    if (!IsSmall(rows, symbols, work)) return false;
  }
  for (const Block& block : kernel.blocks) {
    if (block.is_loop && !IsSmall(block.extent, symbols, work)) return false;
    for (const Dim& depth : block.depths) {
      if (!IsSmall(depth, symbols, work)) return false;
    }
  }
  for (const Param& param : kernel.params) {
    int64_t elements = kElementsMax;
    if (!IsSmall(param.elements, symbols, elements)) return false;
  }
  return true;
}

void RunSmall(const Kernel& kernel) {
  const std::vector<int64_t> symbols(kernel.symbol_count, 3);
  if (!IsSmall(kernel, symbols)) return;
  std::vector<std::vector<char>> memory;
  std::vector<void*> buffers;
  for (const Param& param : kernel.params) {
    memory.emplace_back(static_cast<size_t>(param.elements.Eval(symbols)) * guards::SizeOf(param.dtype));
    buffers.push_back(memory.back().data());
  }
  int64_t rows = 1;
  for (const Dim& extent : kernel.rows) rows *= extent.Eval(symbols);
  const Status status = Interpret(kernel, buffers, symbols, 0, rows);
  if (status || status.error().code() != Code::kInternal || !Verify(kernel)) return;
  const Result<Conditions> conditions = ProveBounds(kernel);
  const auto holds = [&](const Dim& condition) { return condition.Eval(symbols) >= 0; };
  Ensure(!conditions || !std::all_of(conditions->begin(), conditions->end(), holds),
         "no proved access leaves its buffer: " + status.error().ToText());
}

}  // namespace

std::vector<Buffer> Seeds() { return {}; }

}  // namespace ingot::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ingot;
  namespace loop = compiler::loop;
  const Result<loop::Kernel> kernel = loop::Parse(AsText({data, size}));
  if (!kernel) {
    fuzz::Ensure(kernel.error().code() == Code::kInvalid, kernel.error().ToText());
    return 0;
  }
  fuzz::accepted = true;
  const std::string text = loop::Print(*kernel);
  const Result<loop::Kernel> again = loop::Parse(text);
  fuzz::Ensure(again.has_value(), "what is printed parses:\n" + text);
  fuzz::Ensure(loop::Print(*again) == text, "text is stable:\n" + text);
  fuzz::Ensure(loop::KernelDigest(*again) == loop::KernelDigest(*kernel), "text keeps the kernel:\n" + text);
  fuzz::RunSmall(*kernel);
  return 0;
}
