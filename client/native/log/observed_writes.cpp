// SPDX-License-Identifier: Apache-2.0
// What the log keeps of changes, and how it finds those that nobody told it of.

#include <algorithm>
#include <map>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/log/container_mark.h"
#include "client/native/log/observed_log.h"
#include "client/native/places/containers.h"

namespace ingot::client {

/// The log holds what it names: what a write lets go would end too late.
void ObservedLog::CheckGoes(PyObject* value) {
  if (value != nullptr && OwnFinalizer(Py_TYPE(value)) != nullptr && problem_.empty())
    problem_ = std::string(QualnameOf(Py_TYPE(value))) + ".__del__ may run when an object goes";
}

void ObservedLog::KeepBefore(Number holder, PyObject* container) {
  const auto [it, fresh] = copies_.try_emplace(container, Kept{PythonRef(), holder});
  if (!fresh) return;
  for (const auto number : {std::optional(holder), Find(container)}) {
    if (number) CheckIsAsMet(*number, container);
  }
  it->second.copy = CopyOf(container);
  if (!it->second.copy && problem_.empty()) problem_ = PathOf(holder) + " cannot be copied";
}

/// From now on its places say nothing of what was there before.
void ObservedLog::ChangeAll(Number holder) {
  PyObject* container = At(holder);
  KeepBefore(holder, container);
  if (!changed_.insert(container).second) return;
  // What the run itself puts in and takes out again it has made, or somebody else holds it.
  PyObject* const copy = copies_.at(container).copy.get();
  PyObject *key, *value;
  if (copy != nullptr && PyDict_Check(copy)) {
    for (Py_ssize_t at = 0; PyDict_Next(copy, &at, &key, &value);) CheckGoes(value);
  } else if (const PythonRef items = copy == nullptr ? PythonRef() : ElementsOf(copy)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) CheckGoes(PyList_GET_ITEM(items.get(), i));
  }
}

/// Whether it has the attributes of an argument.
bool ObservedLog::IsOfArgument(PyObject* dict) const {
  return dict != nullptr && PyDict_Check(dict) &&
         std::ranges::any_of(arguments_, [dict](PyObject* one) { return OwnDict(one) == dict; });
}

/// Another call may be given another object.
void ObservedLog::CheckIsNoArgument(Number holder) {
  PyObject* const object = At(holder);
  const bool is_argument = IsArgument(object) || IsArgument(OwnDict(object)) || IsOfArgument(object);
  if (is_argument && problem_.empty()) problem_ = PathOf(holder) + ", which is an argument as well, was changed";
}

void ObservedLog::NoteWrite(Number holder, AccessKind access, PyObject* key, const char* name, PyObject* value) {
  PyObject* object = At(holder);
  CheckIsNoArgument(holder);
  CheckGoes(LoadPlace(object, access, key).object.get());
  const bool is_sequence = access == AccessKind::kItem && !PyDict_Check(object);
  if (is_sequence) {
    ChangeAll(holder);
  } else {
    const Place place = PlaceOf(object, access, key);
    if (place.access == AccessKind::kItem)
      KeepBefore(holder, static_cast<PyObject*>(const_cast<void*>(place.container)));
    PythonRef& keys = written_[place.container];
    if (!keys) keys = PythonRef(PySet_New(nullptr));
    const PythonRef text(place.access == AccessKind::kItem
                             ? PythonRef::Borrow(key)
                             : PythonRef(PyUnicode_FromFormat("%c%S", static_cast<int>(place.access), key)));
    if (!text || PySet_Add(keys.get(), text.get()) != 0) {
      DropError();
      if (problem_.empty()) problem_ = "a key of " + PathOf(holder) + " has no hash";
    }
  }
  PythonRef values(value == nullptr ? PyTuple_Pack(1, key) : PyTuple_Pack(2, key, value));
  writes_.push_back({holder, name, std::move(values), line_});
}

void ObservedLog::NoteMethod(Number holder, const char* name, PyObject* const* args, size_t count) {
  CheckIsNoArgument(holder);
  ChangeAll(holder);
  PyObject* values = PyTuple_New(static_cast<Py_ssize_t>(count));
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(values, static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  writes_.push_back({holder, name, PythonRef(values), line_});
}

// -- when the run has ended
// ------------------------------------------------------------------------------

void ObservedLog::CheckChanges() {
  if (!RepeatWrites()) return;
  for (Number number = 0; number < objects_.size() && problem_.empty(); ++number) {
    PyObject* const value = objects_[number].value.get();
    if (value == nullptr || value == PyImport_GetModuleDict()) continue;
    PyObject* const dict = objects_[number].attributes == 0 ? nullptr : OwnDict(value);
    if (!copies_.contains(value)) CheckIsAsMet(number, value);
    if (dict != nullptr && !copies_.contains(dict)) CheckIsAsMet(number, dict);
  }
  for (const auto& [container, kept] : copies_) {
    if (problem_.empty() && !IsAsRepeated(container, kept)) SetUnseen(kept.holder);
  }
}

/// Whether an object that is a container, or the dict of its attributes, is what it was when it was first read.
void ObservedLog::CheckIsAsMet(Number number, PyObject* container) {
  const Object& object = objects_[number];
  const uint64_t mark = container == object.value.get() ? object.mark : object.attributes;
  if (mark != 0 && MarkOf(container) != mark) SetUnseen(number);
}

void ObservedLog::SetUnseen(Number number) {
  if (problem_.empty()) problem_ = PathOf(number) + " was changed by something that was not seen";
}

/// Does every noted write once more, to the copies from before. False where one cannot be.
bool ObservedLog::RepeatWrites() {
  std::map<std::pair<Number, PyObject*>, std::pair<AccessKind, PyObject*>> last;  // Places that are in no container.
  for (const Write& write : writes_) {
    PyObject* const holder = At(write.holder);
    PyObject* const values = write.values.get();
    PyObject* const key = PyTuple_GET_SIZE(values) > 0 ? PyTuple_GET_ITEM(values, 0) : nullptr;
    PyObject* const value = PyTuple_GET_SIZE(values) > 1 ? PyTuple_GET_ITEM(values, 1) : nullptr;
    const bool is_attribute = write.name.ends_with("attr");
    if (write.name.ends_with("slot") || write.name == "setcell") {
      last[{write.holder, key}] = {write.name == "setcell" ? AccessKind::kCell : AccessKind::kSlot, value};
      continue;
    }
    const auto kept = copies_.find(is_attribute ? OwnDict(holder) : holder);
    PyObject* const copy = kept == copies_.end() ? nullptr : kept->second.copy.get();
    const bool is_entry = is_attribute || write.name == "setitem" || write.name == "delitem";
    bool is_done = false;
    if (copy != nullptr && is_entry) {
      is_done = (value == nullptr ? PyObject_DelItem(copy, key) : PyObject_SetItem(copy, key, value)) == 0;
    } else if (const auto method = copy == nullptr ? std::nullopt : MethodNamed(write.name)) {
      const PythonRef function(
          PyObject_GetAttrString(reinterpret_cast<PyObject*>(method->first), std::string(method->second).c_str()));
      const PythonRef self(PyTuple_Pack(1, copy)), all(PySequence_Concat(self.get(), values));
      is_done = function && PythonRef(PyObject_Call(function.get(), all.get(), nullptr));
    }
    DropError();
    if (is_done) continue;
    if (problem_.empty()) problem_ = PathOf(write.holder) + " was changed in a way that cannot be repeated";
    return false;
  }
  for (const auto& [place, end] : last) {
    if (LoadPlace(At(place.first), end.first, place.second).object.get() != end.second) SetUnseen(place.first);
  }
  return true;
}

/// Whether the noted writes have made of the copy what the run has made of the container.
bool ObservedLog::IsAsRepeated(PyObject* container, const Kept& kept) const {
  if (!PyModule_Check(At(kept.holder))) return HoldsSame(kept.copy.get(), container);
  // Warnings and the recording itself put other things into modules.
  const auto keys = written_.find(container);
  if (keys == written_.end()) return true;
  const bool is_same = std::ranges::all_of(TableOf(keys->second.get()), [&](PyObject* key) {
    return key == nullptr || PyDict_GetItemWithError(container, key) == PyDict_GetItemWithError(kept.copy.get(), key);
  });
  DropError();
  return is_same;
}

}  // namespace ingot::client
