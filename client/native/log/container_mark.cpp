// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/container_mark.h"

#include "client/native/cpython/set_table.h"
#include "client/native/places/containers.h"

namespace ingot::client {
namespace {

/// Of the objects that a container has, by address: in their order, those of a set in any.
class AddressHash {
 public:
  void Add(const void* address) { hash_ = (hash_ ^ Mixed(address)) * 0x9E3779B97F4A7C15ull; }
  void AddUnordered(const void* address) { hash_ += Mixed(address); }
  /// Never 0.
  uint64_t Finish() const { return hash_ | 1; }

 private:
  static uint64_t Mixed(const void* address) {
    const uint64_t h = reinterpret_cast<uintptr_t>(address) * 0xC2B2AE3D27D4EB4Full;
    return h ^ (h >> 29);
  }
  uint64_t hash_ = 0;
};

}  // namespace

uint64_t MarkOf(PyObject* object) {
  if (PyTuple_Check(object)) return 0;
  AddressHash hash;
  if (PyDict_Check(object)) {
#if PY_VERSION_HEX < 0x030C0000
    return reinterpret_cast<PyDictObject*>(object)->ma_version_tag;
#else
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) hash.Add(key), hash.Add(value);
    return hash.Finish();
#endif
  }
  if (PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) hash.Add(PyList_GET_ITEM(object, i));
    return hash.Finish();
  }
  if (PyAnySet_Check(object)) {
    for (PyObject* member : TableOf(object)) hash.AddUnordered(member);
    return hash.Finish();
  }
  return IsDeque(object) ? MarkOf(ElementsOf(object).get()) : 0;
}

}  // namespace ingot::client
