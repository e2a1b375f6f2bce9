// SPDX-License-Identifier: Apache-2.0
#include "client/native/effects/escapes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

constexpr int kCallDepthMax = 64;

using Entry = std::pair<std::string_view, std::string_view>;

constexpr Entry kMethods[] = {
    {"numpy", "escape-numpy"},
    {"__array__", "escape-numpy"},
    {"data_ptr", "escape-data-ptr"},
    {"const_data_ptr", "escape-data-ptr"},
    {"_cdata", "escape-data-ptr"},
    {"__cuda_array_interface__", "escape-data-ptr"},
    {"__dlpack__", "escape-dlpack"},
    {"storage", "escape-storage"},
    {"untyped_storage", "escape-storage"},
    {"_typed_storage", "escape-storage"},
    {"share_memory_", "escape-storage"},
    {"is_shared", "escape-storage"},
    {"__reduce_ex__", "escape-pickle"},
    {"__reduce__", "escape-pickle"},
    {"__setstate__", "escape-pickle"},
    {"__deepcopy__", "escape-copy"},
    {"__repr__", "escape-repr"},
    {"__format__", "escape-repr"},
    {"_version", "escape-version"},
    {"as_subclass", "subclass"},
    {"register_hook", "escape-autograd"},
    {"register_post_accumulate_grad_hook", "escape-autograd"},
    {"backward", "escape-autograd"},
    {"set_", "metadata-change"},
    {"resize_", "metadata-change"},
    {"resize_as_", "metadata-change"},
};

constexpr Entry kSettings[] = {{"grad", "escape-autograd"}, {"data", "metadata-change"}};

template <size_t N>
std::string_view FindEntry(const Entry (&entries)[N], std::string_view name) {
  const auto at = std::ranges::find(entries, name, &Entry::first);
  return at == std::end(entries) ? std::string_view() : at->second;
}

}  // namespace

std::string_view EscapeOf(std::string_view name) { return FindEntry(kMethods, name); }

std::string_view EscapeOfSetting(std::string_view name) { return FindEntry(kSettings, name); }

bool SharesMemory(PyObject* data, int depth) {
  if (data == nullptr || IsTensor(data) || PyLong_Check(data) || PyFloat_Check(data) || PyComplex_Check(data) ||
      PyUnicode_Check(data))
    return false;
  // A list may contain itself.
  if ((!PyList_Check(data) && !PyTuple_Check(data)) || depth > kCallDepthMax) return true;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(data); ++i) {
    if (SharesMemory(PySequence_Fast_GET_ITEM(data, i), depth + 1)) return true;
  }
  return false;
}

}  // namespace ingot::client
