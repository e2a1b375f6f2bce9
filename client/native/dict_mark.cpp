// SPDX-License-Identifier: Apache-2.0
#include "client/native/dict_mark.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <string_view>

#include "client/native/inline_values.h"

namespace ingot::client {

#if PY_VERSION_HEX < 0x030C0000

DictMark::DictMark(PyObject* dict)
    : dict_(dict), now_(&reinterpret_cast<PyDictObject*>(dict)->ma_version_tag) {}

bool DictMark::Holds() const { return then_ == *now_; }

void DictMark::Set() { then_ = *now_; }

uint64_t DictMark::Writes() { return 0; }

#else

namespace {

/// Never freed: dicts may be written to while the process ends.
struct Counts {
  int watcher = -1;
  uint64_t all = 1;
  boost::unordered_flat_map<PyObject*, std::weak_ptr<uint64_t> > of;
};
Counts& TheCounts() {
  static auto* counts = new Counts();
  return *counts;
}

/// Called before the write.
int OnWrite(PyDict_WatchEvent event, PyObject* dict, PyObject* /*key*/, PyObject* /*value*/) {
  Counts& counts = TheCounts();
  const auto it = counts.of.find(dict);
  if (it == counts.of.end()) return 0;
  ++counts.all;
  if (const auto count = it->second.lock()) ++*count;
  if (event == PyDict_EVENT_DEALLOCATED) counts.of.erase(it);
  return 0;
}

/// Python has room for a few watchers; -1 where others have taken it.
int Watcher() {
  Counts& counts = TheCounts();
  if (counts.watcher < 0) counts.watcher = PyDict_AddWatcher(OnWrite);
  if (counts.watcher < 0) PyErr_Clear();
  return counts.watcher;
}

constexpr uint64_t kUnknown = 0;

/// Empty where the dict has values of its own.
std::string_view InlineValues(PyObject* dict) {
  size_t size = 0;
  const void* values = IngotInlineValues(dict, &size);
  return values == nullptr ? std::string_view()
                           : std::string_view(static_cast<const char*>(values), size);
}

}  // namespace

DictMark::DictMark(PyObject* dict) : dict_(dict), now_(&kUnknown) {
  const int watcher = Watcher();
  if (watcher < 0) return;
  std::weak_ptr<uint64_t>& known = TheCounts().of[dict];
  counted_ = known.lock();
  if (!counted_) {
    if (PyDict_Watch(watcher, dict) != 0) {
      PyErr_Clear();
      return;
    }
    counted_ = std::make_shared<uint64_t>(1);
    known = counted_;
  }
  now_ = counted_.get();
}

bool DictMark::Holds() const {
  const uint64_t now = *now_;
  return now != kUnknown && now == then_ && InlineValues(dict_) == values_;
}

void DictMark::Set() {
  values_ = InlineValues(dict_);
  then_ = *now_;
}

uint64_t DictMark::Writes() {
  // What lies in objects is not counted.
  const bool counts_all = PY_VERSION_HEX < 0x030D0000 && TheCounts().watcher >= 0;
  return counts_all ? TheCounts().all : 0;
}

#endif

}  // namespace ingot::client
