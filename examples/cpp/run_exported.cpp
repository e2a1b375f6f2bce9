// SPDX-License-Identifier: Apache-2.0
// Runs an exported file on an input of ones: no Python, no daemon.
//
//   run_exported model.ingot 4,16      sizes of one float input; several inputs: 4,16 4,16
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ingot/client.h>

#include <cstdio>
#include <sstream>

namespace {

at::Tensor OnesOf(const std::string& text) {
  std::vector<int64_t> sizes;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) sizes.push_back(std::stoll(part));
  return at::ones(sizes);
}

/// The sum of the elements, on the threads that torch and the compiled function use as well.
double SumOf(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().view(-1);
  const double* const elements = flat.const_data_ptr<double>();
  return at::parallel_reduce(
      0, flat.numel(), /*grain_size=*/1024, 0.0,
      [elements](int64_t begin, int64_t end, double sum) {
        for (int64_t i = begin; i < end; ++i) sum += elements[i];
        return sum;
      },
      [](double a, double b) { return a + b; });
}

}  // namespace

int main(int count, char** values) {
  if (count < 2) {
    std::fprintf(stderr, "usage: run_exported FILE [SIZE,SIZE...]...\n");
    return 2;
  }
  const ingot::Result<ingot::Function> function = ingot::Function::Load(values[1]);
  if (!function) {
    std::fprintf(stderr, "%s\n", function.error().ToText().c_str());
    return static_cast<int>(function.error().code());
  }
  std::vector<at::Tensor> inputs;
  for (int i = 2; i < count; ++i) inputs.push_back(OnesOf(values[i]));
  const ingot::Result<std::vector<at::Tensor>> outputs = function->Run(inputs);
  if (!outputs) {
    std::fprintf(stderr, "%s\n", outputs.error().ToText().c_str());
    return static_cast<int>(outputs.error().code());
  }
  for (const at::Tensor& output : *outputs) {
    for (const int64_t size : output.sizes()) std::printf("%lld ", static_cast<long long>(size));
    std::printf("sum %.6f\n", SumOf(output));
  }
  return 0;
}
