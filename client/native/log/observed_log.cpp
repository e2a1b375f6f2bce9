// SPDX-License-Identifier: Apache-2.0
#include "client/native/log/observed_log.h"

#include <algorithm>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/log/container_mark.h"
#include "client/native/places/field_content.h"
#include "client/native/places/torch_ops.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

constexpr size_t kReadsMax = 200'000;
/// Of a list of objects of which each leads to the next, paths grow with each step.
constexpr uint64_t kPathBytesMax = 64 << 20;

/// How much longer a path becomes, about.
uint64_t StepBytes(PyObject* key) {
  constexpr uint64_t kOfNumbers = 8;
  return PyUnicode_Check(key) ? 1 + static_cast<uint64_t>(PyUnicode_GET_LENGTH(key)) : kOfNumbers;
}

/// Kept for good; `text` is a literal.
PyObject* Interned(const char* text) {
  static boost::unordered_flat_map<const char*, PyObject*> names;
  PyObject*& name = names[text];
  if (name == nullptr) name = PyUnicode_InternFromString(text);
  return name;
}

}  // namespace

// What grows in steps would leave blocks of every size between those that the run frees.
ObservedLog::ObservedLog() {
  constexpr size_t kReadsExpected = 4096;
  objects_.reserve(kReadsExpected);
  numbers_.reserve(kReadsExpected);
  seen_.reserve(kReadsExpected);
  reads_.reserve(kReadsExpected);
}

std::string ObservedLog::Line::ToText() const {
  if (code == nullptr) return {};
  const std::string_view file = ViewOf(code->co_filename);
  return std::string(file.substr(file.rfind('/') + 1)) + ":" + std::to_string(PyCode_Addr2Line(code, position));
}

void ObservedLog::Begin() {
  for (Object& object : objects_) object.mark = MarkOf(object.value.get());
}

ObservedLog::Number ObservedLog::AddRoot(PyObject* object, std::string path) {
  const auto [it, fresh] = numbers_.emplace(object, static_cast<Number>(objects_.size()));
  if (fresh) {
    objects_.emplace_back();
    objects_.back().value = PythonRef::Borrow(object);
    objects_.back().mark = MarkOf(object);
    objects_.back().path_bytes = path.size();
    objects_.back().path = std::move(path);
    objects_.back().is_named = true;
  } else if (path.starts_with("object:")) {
    other_roots_.emplace_back(std::move(path), it->second);
  }
  return it->second;
}

void ObservedLog::AddArgument(PyObject* object) {
  if (arguments_.insert(object).second) held_.push_back(PythonRef::Borrow(object));
}

std::optional<ObservedLog::Number> ObservedLog::Find(PyObject* object) const {
  const auto it = numbers_.find(object);
  if (it == numbers_.end()) return std::nullopt;
  return it->second;
}

const std::string& ObservedLog::PathOf(Number number) const {
  const Object& object = objects_[number];
  if (object.path.empty()) {
    std::string path = PathOf(object.parent);
    AppendStep(path, object.access, object.key);
    object.path = std::move(path);
  }
  return object.path;
}

ObservedLog::Place ObservedLog::PlaceOf(PyObject* holder, AccessKind access, PyObject* key) {
  // An attribute is the same place as the entry of the dict that `__dict__` gives.
  if (access != AccessKind::kAttribute) return {holder, key, access};
  PyObject* dict = OwnDict(holder);
  return {dict != nullptr ? dict : holder, key, AccessKind::kItem};
}

bool ObservedLog::IsWritten(const Place& place, PyObject* key) const {
  if (written_.empty()) return false;
  const auto it = written_.find(place.container);
  if (it == written_.end()) return false;
  const PythonRef text(place.access == AccessKind::kItem
                           ? PythonRef::Borrow(key)
                           : PythonRef(PyUnicode_FromFormat("%c%S", static_cast<int>(place.access), key)));
  const int found = text ? PySet_Contains(it->second.get(), text.get()) : -1;
  DropError();
  return found == 1;
}

void ObservedLog::NoteRead(Number holder, AccessKind access, PyObject* key) {
  PyObject* object = At(holder);
  const Place place = PlaceOf(object, access, key);
  if (seen_.contains(place)) return;
  if (access == AccessKind::kItem && changed_.contains(object)) return NoteWhole(holder);
  // By a method of the dict, as vars(object).update() does.
  auto* const dict = static_cast<PyObject*>(const_cast<void*>(place.container));
  if (place.access != access && changed_.contains(dict)) return NoteWhole(*Find(dict));
  if (IsWritten(place, key)) return;
  if (!seen_.insert(place).second) return;
  // Warnings and the recording itself put things into modules, and PyTorch into operators, which keep caches; what a
  // program does there are instructions.
  if (place.access != access && objects_[holder].attributes == 0 && !PyModule_Check(object) &&
      !IsOfTorchOps(Py_TYPE(object)))
    objects_[holder].attributes = MarkOf(dict);
  Add(holder, access, key, LoadAndTell(holder, object, access, key));
}

/// What a place of a holder, or of its copy from before, holds. A content that has no digest is a problem: what is
/// compared with it would never be found again.
PlaceValue ObservedLog::LoadAndTell(Number holder, PyObject* source, AccessKind access, PyObject* key) {
  const uint64_t untold = UntoldDigests();
  PlaceValue seen = LoadPlace(source, access, key);
  if (untold != UntoldDigests() && problem_.empty()) {
    problem_ = PathOf(holder) + " holds objects whose content nobody can tell";
    is_untold_ = true;
  }
  return seen;
}

void ObservedLog::NoteAnswer(Number callable, PyObject* arguments, PyObject* answer) {
  if (seen_.insert(PlaceOf(At(callable), AccessKind::kAnswer, arguments)).second)
    Add(callable, AccessKind::kAnswer, arguments, PlaceValue::Of(answer));
}

void ObservedLog::NoteField(Number holder, const char* field) { NoteRead(holder, AccessKind::kField, Interned(field)); }

void ObservedLog::Add(Number holder, AccessKind access, PyObject* key, PlaceValue seen) {
  if (reads_.size() >= kReadsMax) {
    if (problem_.empty()) problem_ = "more than " + std::to_string(kReadsMax) + " reads";
    return;
  }
  path_bytes_ += objects_[holder].path_bytes + StepBytes(key);
  if (path_bytes_ > kPathBytesMax) {
    if (problem_.empty()) problem_ = "reads whose paths have more than " + std::to_string(kPathBytesMax) + " bytes";
    return;
  }
  if (problem_.empty() && !HasName(access, key)) problem_ = "a place in " + PathOf(holder) + " that has no name";
  reads_.push_back({holder, access, PythonRef::Borrow(key), std::move(seen), line_});
  Follow(holder, reads_.back());
}

void ObservedLog::Follow(Number holder, const Read& read) {
  PyObject* value = read.seen.object.get();
  if (value == nullptr || IsAtom(value)) return;
  const auto [it, fresh] = numbers_.emplace(value, static_cast<Number>(objects_.size()));
  const bool is_weak = read.access == AccessKind::kField && ViewOf(read.key.get()) == "target";
  if (!fresh) {
    if (is_weak || weak_.empty() || !weak_.contains(it->second) || LiesUnder(holder, it->second)) return;
    Object& object = objects_[it->second];
    object.path.clear();
    object.path_bytes = objects_[holder].path_bytes + StepBytes(read.key.get());
    object.parent = holder;
    object.access = read.access;
    object.key = read.key.get();
    weak_.erase(it->second);
    return;
  }
  if (is_weak) weak_.insert(it->second);
  objects_.emplace_back();
  Object& object = objects_.back();
  object.value = PythonRef::Borrow(value);
  object.mark = MarkOf(value);
  // Modules and classes have a name that holds wherever they were met.
  if (PyModule_Check(value)) {
    PyObject* dict = PyModule_GetDict(value);
    PyObject* name = dict == nullptr ? nullptr : PyDict_GetItemString(dict, "__name__");
    if (name != nullptr && PyUnicode_Check(name)) object.path = CanonicalPath(value, ViewOf(name), "").value_or("");
  } else if (PyType_Check(value)) {
    auto* type = reinterpret_cast<PyTypeObject*>(value);
    object.path = CanonicalPath(value, ModuleOf(type), QualnameOf(type)).value_or("");
  }
  object.is_named = !object.path.empty();
  object.path_bytes = object.is_named ? object.path.size() : objects_[holder].path_bytes + StepBytes(read.key.get());
  object.parent = holder;
  object.access = read.access;
  object.key = read.key.get();
}

/// Whether the way to an object leads through another.
bool ObservedLog::LiesUnder(Number number, Number above) const {
  for (; !objects_[number].is_named; number = objects_[number].parent) {
    if (number == above) return true;
    if (objects_[number].key == nullptr) return false;  // A root.
  }
  return number == above;
}

std::string ObservedLog::ProblemOfAll() const {
  const bool holds_weak = std::ranges::any_of(weak_, [&](Number number) { return !objects_[number].is_named; });
  if (problem_.empty() && holds_weak) return "an object that only a weak reference leads to, which nothing may hold";
  return problem_;
}

void ObservedLog::NoteImport(Number table, PyObject* name) {
  for (const Import& known : imports_) {
    if (PyUnicode_Compare(known.name.get(), name) == 0) return;
  }
  imports_.push_back(
      {table, PythonRef::Borrow(name), DigestOfPlaceValue(LoadPlace(At(table), AccessKind::kItem, name))});
}

void ObservedLog::SetFetched(const std::vector<PyObject*>& values, const std::vector<PyObject*>& given_on,
                             const std::unordered_set<std::string>& moving) {
  for (PyObject* value : values) {
    if (AnyLike(value) != nullptr) fetched_.insert(value);
  }
  // What calls fetch has no attributes of its own.
  for (const Read& read : reads_) {
    if (!IsOwnAbsence(read)) fetched_.erase(At(read.holder));
  }
  const auto told_apart = [this](boost::unordered_flat_set<PyObject*>& values) {
    for (const Number one : found_by_address_) values.erase(At(one));
    for (const auto& [one, other] : apart_) {
      values.erase(At(one));
      values.erase(At(other));
    }
  };
  told_apart(fetched_);
  // A tuple is as good as another where all that was read of it are tensors that are fetched, which is known by now.
  boost::unordered_flat_set<PyObject*> tuples;
  for (const Read& read : reads_) {
    PyObject* value = read.seen.object.get();
    if (value == nullptr || !PyTuple_CheckExact(value) || AnyLike(value) == nullptr) continue;
    std::string where = PathOf(read.holder);
    if (AppendStep(where, read.access, read.key.get()) && moving.contains(where)) tuples.insert(value);
  }
  told_apart(tuples);
  for (PyObject* value : given_on) tuples.erase(value);  // Which one it was is what a result or a place holds.
  for (const Read& read : reads_) {
    const bool is_length = read.access == AccessKind::kField && ViewOf(read.key.get()) == "len";
    if (!tuples.contains(At(read.holder)) || is_length) continue;
    // Each is fetched from where it lies in the tuple.
    const auto number = read.seen.object ? Find(read.seen.object.get()) : std::nullopt;
    const bool is_its_own = read.access == AccessKind::kItem && number && objects_[*number].parent == read.holder &&
                            !objects_[*number].is_named && fetched_.contains(read.seen.object.get());
    if (!is_its_own) tuples.erase(At(read.holder));
  }
  fetched_.insert(tuples.begin(), tuples.end());
}

bool ObservedLog::Settle() {
  bool holds = true;
  digests_.clear();
  digests_.reserve(reads_.size());
  moved_.clear();
  for (const Read& read : reads_) {
    const bool is_fetched = IsFetched(read.seen);
    digests_.push_back(is_fetched ? *DigestIfFetched(read.seen.object.get()) : DigestOfPlaceValue(read.seen));
    const PlaceValue now = LoadPlace(At(read.holder), read.access, read.key.get());
    if (read.seen.content ? now.content == read.seen.content : now.object.get() == read.seen.object.get()) continue;
    if (is_fetched && DigestIfFetched(now.object.get()) == digests_.back()) continue;
    const bool is_value = now.object && read.seen.object && IsAtom(now.object.get());
    if (is_value && DigestOfPlaceValue(now) == digests_.back()) continue;
    holds = false;
    std::string path = PathOf(read.holder);
    if (path.empty() || !AppendStep(path, read.access, read.key.get())) path.clear();
    const auto was = is_fetched ? std::nullopt : std::optional(digests_.back());
    moved_.push_back({std::move(path), was, AnyLike(now.object.get()) != nullptr});
  }
  for (const Import& one : imports_) {
    holds = holds && DigestOfPlaceValue(LoadPlace(At(one.table), AccessKind::kItem, one.name.get())) == one.module;
  }
  return holds;
}

Digest ObservedLog::Fingerprint() const {
  Hasher hasher;
  for (const Object& object : objects_) {
    if (object.key == nullptr) hasher.AddField(object.path);
  }
  for (size_t i = 0; i < reads_.size(); ++i) {
    const Read& read = reads_[i];
    hasher.Add(static_cast<uint64_t>(read.holder) << 8 | static_cast<uint8_t>(read.access));
    hasher.Add(static_cast<uint64_t>(PyObject_Hash(read.key.get())));
    const auto seen = read.seen.object ? Find(read.seen.object.get()) : std::nullopt;
    hasher.Add(seen ? *seen + uint64_t{1} : 0);
    hasher.Add(digests_[i].low);
    hasher.Add(digests_[i].high);
  }
  for (const Import& one : imports_) {
    AddText(hasher, one.name.get());
    hasher.Add(one.module.low);
    hasher.Add(one.module.high);
  }
  DropError();
  for (const auto& [one, other] : apart_) hasher.Add(static_cast<uint64_t>(one) << 32 | other);
  for (const auto& [path, number] : other_roots_) {
    hasher.AddField(path);
    hasher.Add(number);
  }
  return hasher.Finish();
}

void ObservedLog::NoteLength(Number holder) {
  PyObject* object = At(holder);
  const auto kept = copies_.find(object);
  if (kept == copies_.end()) return NoteField(holder, "len");
  // Whether a write made it longer, the keys that were there before say.
  if (PyDict_Check(object)) return NoteWhole(holder);
  PyObject* const mark = Interned("len");
  if (seen_.insert(Place{object, mark, AccessKind::kField}).second)
    Add(holder, AccessKind::kField, mark, LoadPlace(kept->second.copy.get(), AccessKind::kField, mark));
}

void ObservedLog::NoteWhole(Number holder) {
  PyObject* object = At(holder);
  const auto kept = copies_.find(object);
  PyObject* source = kept == copies_.end() ? object : kept->second.copy.get();
  const bool is_dict = PyDict_Check(object);
  if (PyAnySet_Check(object)) return NoteField(holder, "content");
  // The length or the keys alone may have been noted.
  if (!seen_.insert(Place{object, Interned("whole"), AccessKind::kField}).second) return;
  PyObject* const mark = Interned(is_dict ? "keys" : "len");
  if (seen_.insert(Place{object, mark, AccessKind::kField}).second)
    Add(holder, AccessKind::kField, mark, LoadAndTell(holder, source, AccessKind::kField, mark));
  if (is_dict && std::string_view(NativeBase(Py_TYPE(object))->tp_name) == "collections.defaultdict")
    NoteField(holder, "factory");
  if (is_dict) {
    Py_ssize_t at = 0, number = 0;
    PyObject *key, *value;
    while (PyDict_Next(source, &at, &key, &value)) {
      if (seen_.insert(Place{object, key, AccessKind::kItem}).second) {
        if (HasName(AccessKind::kItem, key)) {
          Add(holder, AccessKind::kItem, key, PlaceValue::Of(value));
        } else {
          // A key that text cannot say: by position, which the order of the keys holds in place.
          const PythonRef position(PyLong_FromSsize_t(number));
          Add(holder, AccessKind::kKeyAt, position.get(), PlaceValue::Of(key));
          Add(holder, AccessKind::kValueAt, position.get(), PlaceValue::Of(value));
        }
      }
      ++number;
    }
    return;
  }
  const Py_ssize_t count = SizeOf(source);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const PythonRef index(PyLong_FromSsize_t(i));
    // Numbers above 256 are objects of their own each time: the place is noted under the position.
    if (!seen_.insert(Place{object, reinterpret_cast<const void*>(static_cast<uintptr_t>(i)), AccessKind::kItem})
             .second)
      continue;
    Add(holder, AccessKind::kItem, index.get(), LoadPlace(source, AccessKind::kItem, index.get()));
  }
}

void ObservedLog::Release() {
  std::vector<PythonRef> kept;
  for (const Write& write : writes_) {
    PathOf(write.holder);
    kept.push_back(PythonRef::Borrow(At(write.holder)));
  }
  for (Object& object : objects_) object.value = PythonRef(), object.key = nullptr;
  for (size_t i = 0; i < writes_.size(); ++i) objects_[writes_[i].holder].value = std::move(kept[i]);
  // Lines point into the code.
  for (Read& read : reads_) {
    if (read.seen.object && PyCode_Check(read.seen.object.get())) code_.push_back(std::move(read.seen.object));
  }
  numbers_.clear();
  seen_.clear();
  copies_.clear();
  changed_.clear();
  reads_.clear();
  imports_.clear();
  apart_.clear();
  found_by_address_.clear();
  held_.clear();
}

}  // namespace ingot::client
