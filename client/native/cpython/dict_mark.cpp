// SPDX-License-Identifier: Apache-2.0
#include "client/native/cpython/dict_mark.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/python_ref.h"

namespace ingot::client {

#if PY_VERSION_HEX < 0x030C0000

DictMark::DictMark(PyObject* dict) : now_(&reinterpret_cast<PyDictObject*>(dict)->ma_version_tag) {}

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
  const auto count = it->second.lock();
  if (count) ++counts.all, ++*count;
  if (!count || event == PyDict_EVENT_DEALLOCATED) counts.of.erase(it);
  return 0;
}

/// Python has room for a few watchers; -1 where others have taken it.
int Watcher() {
  Counts& counts = TheCounts();
  if (counts.watcher < 0) counts.watcher = PyDict_AddWatcher(OnWrite);
  if (counts.watcher < 0) DropError();
  return counts.watcher;
}

/// Gives an attributes' dict a table of its own, as taking its last entry away does. False where it
/// shares one still: an empty one does. Before Python 3.13 nothing lies in the object by then.
bool GiveOwnTable([[maybe_unused]] PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  const auto shares = [&] { return reinterpret_cast<PyDictObject*>(dict)->ma_values != nullptr; };
  if (shares() && PyDict_CheckExact(dict) && PyDict_GET_SIZE(dict) > 0) {
    const PythonRef last(PyObject_CallMethod(dict, "popitem", nullptr));
    if (last) PyDict_SetItem(dict, PyTuple_GET_ITEM(last.get(), 0), PyTuple_GET_ITEM(last.get(), 1));
    DropError();
  }
  return !shares();
#else
  return true;
#endif
}

const uint64_t kNobodyTells = 0;

}  // namespace

DictMark::DictMark(PyObject* dict) : now_(&kNobodyTells) {
  const int watcher = Watcher();
  if (watcher < 0 || !GiveOwnTable(dict)) return;
  std::weak_ptr<uint64_t>& known = TheCounts().of[dict];
  counted_ = known.lock();
  if (!counted_) {
    if (PyDict_Watch(watcher, dict) != 0) {
      DropError();
      return;
    }
    counted_ = std::make_shared<uint64_t>(1);
    known = counted_;
  }
  now_ = counted_.get();
}

uint64_t DictMark::Writes() { return TheCounts().all; }

#endif

}  // namespace ingot::client
