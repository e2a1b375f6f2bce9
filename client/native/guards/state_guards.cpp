// SPDX-License-Identifier: Apache-2.0
#include "client/native/guards/state_guards.h"

#include <structmember.h>

#include <algorithm>
#include <ranges>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/places/field_content.h"
#include "client/native/places/part_fields.h"
#include "client/native/places/registrations.h"
#include "client/native/places/tensor_facts.h"

namespace ingot::client {
namespace {

/// Zero while a class has none: it loses it when it, or a class that it inherits from, changes.
unsigned int VersionOf(PyTypeObject* type) {
#if PY_VERSION_HEX < 0x030D0000
  if ((type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG) == 0) return 0;
#endif
  return type->tp_version_tag;
}

/// Zero where Python has no number left.
unsigned int MakeVersionOf(PyTypeObject* type) {
#if PY_VERSION_HEX >= 0x030C0000
  if (VersionOf(type) == 0) PyUnstable_Type_AssignVersionTag(type);
#else
  static PyObject* const any = PyUnicode_InternFromString("__class__");
  if (VersionOf(type) == 0) _PyType_Lookup(type, any);
#endif
  return VersionOf(type);
}

bool IsValue(PyObject* value) { return IsAtom(value) || PyType_Check(value); }

/// An equal number or text in the other's place, which is kept from then on.
bool IsEqual(PyObject* found, PythonRef& expected) {
  if (found == nullptr || !expected || Py_TYPE(found) != Py_TYPE(expected.get())) return false;
  const bool is_value =
      PyLong_CheckExact(found) || PyFloat_CheckExact(found) || PyUnicode_CheckExact(found) || PyBytes_CheckExact(found);
  if (!is_value || DigestOfValue(found) != DigestOfValue(expected.get())) return false;
  expected = PythonRef::Borrow(found);
  return true;
}

bool IsExpected(PyObject* found, PythonRef& expected) {
  return found == expected.get() || IsAnyLike(expected.get(), found) || IsEqual(found, expected);
}

/// PyTorch counts the devices once: without one, what asks CUDA fails until the process ends, and
/// takes long to.
bool FailsForGood(PyObject* callable) {
  constexpr std::string_view kAsksCuda = "_cuda_";
  if (!PyCFunction_Check(callable)) return false;
  auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  if (!std::string_view(function->m_ml->ml_name).starts_with(kAsksCuda)) return false;
  PyObject* const count = LoadedAttribute("torch._C", "_cuda_getDeviceCount");
  const PythonRef devices(count != nullptr ? PyObject_CallNoArgs(count) : nullptr);
  DropError();
  return devices && PyLong_Check(devices.get()) && PyObject_Not(devices.get()) == 1;
}

}  // namespace

StateGuards::DictGuard& StateGuards::OfDict(PyObject* dict) {
  const auto [it, fresh] = numbers_.emplace(dict, dicts_.size());
  if (fresh) {
    Hold(dict);
    if (!dict_marks_.emplace_back(dict).is_counted()) uncounted_.push_back(dicts_.size());
    dicts_.emplace_back().dict = dict;
  }
  return dicts_[it->second];
}

StateGuards::TypeGuard& StateGuards::OfType(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  const auto [it, fresh] = numbers_.emplace(object, types_.size());
  if (fresh) {
    Hold(object);
    type_states_.push_back({type});
    types_.emplace_back();
  }
  return types_[it->second];
}

StateGuards::ListGuard& StateGuards::OfList(PyObject* list) {
  const auto [it, fresh] = numbers_.emplace(list, lists_.size());
  if (fresh) {
    Hold(list);
    lists_.emplace_back().list = list;
  }
  return lists_[it->second];
}

void StateGuards::AddOwner(PyObject* object) {
  if (PyType_Check(object) || PyModule_Check(object) || !owned_.insert(object).second) return;
  Hold(object);
  PyObject* dict = OwnDict(object);
  owners_.push_back({object, Py_TYPE(object), dict == nullptr ? nullptr : _PyObject_GetDictPtr(object), dict});
}

void StateGuards::AddFunction(PyObject* object) {
  if (!met_.insert(object).second) return;
  Hold(object);
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  for (PyObject* part : {function->func_code, function->func_defaults, function->func_kwdefaults}) Hold(part);
  functions_.push_back({function, function->func_code, function->func_defaults, function->func_kwdefaults});
}

void StateGuards::AddTensor(PyObject* tensor) {
  if (left_.contains(tensor) || !met_.insert(tensor).second) return;
  Hold(tensor);
  tensors_.push_back({tensor, MetadataOf(tensor)});
}

void StateGuards::AddCell(PyObject* function, PyObject* name, const PlaceValue& seen) {
  PyObject* cell = CellNamed(function, name);
  if (cell == nullptr) return;
  Hold(cell);
  cells_.push_back({cell, PythonRef::Borrow(seen.object.get())});
}

/// False where the member is no object that lies in its holder.
bool StateGuards::AddMember(PyObject* holder, PyObject* name, const PlaceValue& seen) {
  PyObject* found = LookUpInClass(Py_TYPE(holder), name);
  if (found == nullptr || !PyObject_TypeCheck(found, &PyMemberDescr_Type)) return false;
  const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
  if (member->type != T_OBJECT_EX) return false;
  members_.push_back({reinterpret_cast<PyObject* const*>(reinterpret_cast<char*>(holder) + member->offset),
                      PythonRef::Borrow(seen.object.get())});
  return true;
}

/// False where what decides the content cannot be told by identity.
bool StateGuards::AddContent(PyObject* holder, PyObject* field, const Digest& content) {
  if (PyAnySet_CheckExact(holder)) {
    const auto now = TableOf(holder);
    std::vector<PyObject*> table(now.begin(), now.end());
    const auto is_fixed = [](PyObject* member) { return member == nullptr || IsValue(member); };
    if (!std::ranges::all_of(table, is_fixed)) return false;
    for (PyObject* member : table) Hold(member);
    Hold(holder);
    Hold(field);
    sets_.push_back({holder, std::move(table), field, content});
    return true;
  }
  const bool is_number_or_text =
      PyLong_Check(holder) || PyFloat_Check(holder) || PyUnicode_Check(holder) || PyBytes_Check(holder);
  PyObject* dict = is_number_or_text ? OwnDict(holder) : nullptr;
  if (dict == nullptr || numbers_.contains(dict)) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (!IsValue(value)) return false;
  }
  AddOwner(holder);
  DictGuard& guard = OfDict(dict);
  guard.owner = holder;
  guard.content = content;
  return true;
}

/// What a part of a program is put together from.
void StateGuards::AddPart(PyObject* part, const PartField& row, PyObject* key, const PlaceValue& seen) {
  Hold(part);
  if (row.stays) return;
  PyObject* const* slot = SlotOf(part, row);
  if (slot == nullptr || row.is_content) return AddOther(part, AccessKind::kField, key, seen);
  members_.push_back({slot, PythonRef::Borrow(*slot)});
}

void StateGuards::AddOther(PyObject* holder, AccessKind access, PyObject* key, const PlaceValue& seen) {
  Hold(holder);
  Hold(key);
  Hold(seen.object.get());
  others_.push_back({holder, access, key, seen.object.get(), seen.content});
}

void StateGuards::AddField(PyObject* holder, PyObject* key, const PlaceValue& seen) {
  const std::string_view name = ViewOf(key);
  if (name == "code" || name == "defaults" || name == "kwdefaults") {
    if (PyFunction_Check(holder)) AddFunction(holder);
  } else if (name == "special" || name == "bases" || name == "abstract") {
    OfType(reinterpret_cast<PyTypeObject*>(holder)).contents.emplace_back(key, *seen.content);
    Hold(key);
  } else if (name == "type" && (PyModule_Check(holder) || PyType_Check(holder))) {
    Hold(holder);
    owners_.push_back({holder, Py_TYPE(holder), nullptr, nullptr});
  } else if (name == "type" || name == "dict") {
    AddOwner(holder);
  } else if (name == "len" && PyDict_Check(holder)) {
    OfDict(holder).size = PyDict_GET_SIZE(holder);
  } else if (name == "len" && PyList_Check(holder)) {
    OfList(holder).size = PyList_GET_SIZE(holder);
  } else if (name == "keys" && PyDict_Check(holder) && !PyODict_Check(holder)) {
    DictGuard& guard = OfDict(holder);
    guard.size = PyDict_GET_SIZE(holder);
    guard.keys = seen.content;
  } else if (name == "registry") {
    Hold(holder);
    registries_.push_back({holder, *seen.content, RegistrationsNow()});
  } else if (const PartField* row = FieldOfPart(holder, name)) {
    AddPart(holder, *row, key, seen);
  } else if ((name == "content" || name == "order") && AddContent(holder, key, *seen.content)) {
    return;
  } else if (PyTuple_Check(holder)) {  // It stays what it is.
    Hold(holder);
  } else {
    AddOther(holder, AccessKind::kField, key, seen);
  }
}

void StateGuards::Add(PyObject* holder, AccessKind access, PyObject* key, const PlaceValue& seen) {
  if (seen.object && IsTensor(seen.object.get())) AddTensor(seen.object.get());
  switch (access) {
    case AccessKind::kAttribute: {
      AddOwner(holder);
      PyObject* dict = OwnDict(holder);
      if (dict == nullptr) return;
      Hold(key);
      OfDict(dict).slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      return;
    }
    case AccessKind::kItem:
      if (PyDict_Check(holder)) {
        Hold(key);
        OfDict(holder).slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      } else if (PyList_Check(holder)) {
        OfList(holder).items.push_back({PyLong_AsSsize_t(key), PythonRef::Borrow(seen.object.get())});
        DropError();
      } else if (!PyTuple_Check(holder)) {
        AddOther(holder, access, key, seen);
      }
      return;
    case AccessKind::kSlot:
      AddOwner(holder);
      if (!AddMember(holder, key, seen)) AddOther(holder, access, key, seen);
      return;
    case AccessKind::kClass:
      Hold(key);
      OfType(reinterpret_cast<PyTypeObject*>(holder)).slots.push_back({key, PythonRef::Borrow(seen.object.get())});
      return;
    case AccessKind::kCell: return AddCell(holder, key, seen);
    case AccessKind::kField: return AddField(holder, key, seen);
    case AccessKind::kKeyAt:  // The keys as a whole say of one without a name what it is, and not which.
    case AccessKind::kValueAt: return AddOther(holder, access, key, seen);
    case AccessKind::kAnswer:
      if (!seen.object && FailsForGood(holder)) return;
      if (!seen.object) return AddOther(holder, access, key, seen);
      Hold(holder);
      Hold(key);
      answers_.push_back({holder, key, PythonRef::Borrow(seen.object.get())});
      return;
  }
}

bool StateGuards::IsCurrent(const DictGuard& guard) {
  if (guard.size >= 0 && PyDict_GET_SIZE(guard.dict) != guard.size) return false;
  for (const Slot& slot : guard.slots) {
    if (!IsExpected(EntryIn(guard.dict, slot.key), slot.expected)) return false;
  }
  static PyObject* const keys = PyUnicode_InternFromString("keys");
  static PyObject* const content = PyUnicode_InternFromString("content");
  return (!guard.keys || LoadPlace(guard.dict, AccessKind::kField, keys).content == guard.keys) &&
         (!guard.content || LoadPlace(guard.owner, AccessKind::kField, content).content == guard.content);
}

bool StateGuards::DictsHold() const {
  const auto holds = [this](size_t i) {
    if (dict_marks_[i].Holds()) return true;
    if (!IsCurrent(dicts_[i])) return false;
    dict_marks_[i].Set();
    return true;
  };
  const uint64_t writes = DictMark::Writes();
  if (writes == writes_then_) return std::ranges::all_of(uncounted_, holds);
  if (!std::ranges::all_of(std::views::iota(size_t{0}, dicts_.size()), holds)) return false;
  writes_then_ = writes;
  return true;
}

bool StateGuards::IsCurrent(const TypeGuard& guard, PyTypeObject* type) {
  for (const Slot& slot : guard.slots) {
    if (!IsExpected(LookUpInClass(type, slot.key), slot.expected)) return false;
  }
  return std::ranges::all_of(guard.contents, [&](const auto& one) {
    return LoadPlace(reinterpret_cast<PyObject*>(type), AccessKind::kField, one.first).content == one.second;
  });
}

bool StateGuards::IsCurrent(const ListGuard& guard) {
  const Py_ssize_t size = PyList_GET_SIZE(guard.list);
  if (guard.size >= 0 && size != guard.size) return false;
  return std::ranges::all_of(guard.items, [&](const Item& item) {
    return item.at < size && IsExpected(PyList_GET_ITEM(guard.list, item.at), item.expected);
  });
}

bool StateGuards::IsCurrent(const SetGuard& guard) {
  return std::ranges::equal(TableOf(guard.set), guard.table) ||
         LoadPlace(guard.set, AccessKind::kField, guard.field).content == guard.content;
}

bool StateGuards::IsCurrent(const RegistryGuard& guard) {
  static PyObject* const registry = PyUnicode_InternFromString("registry");
  const uint64_t now = RegistrationsNow();
  if (now == guard.then) return true;
  if (LoadPlace(guard.type, AccessKind::kField, registry).content != guard.content) return false;
  guard.then = now;
  return true;
}

bool StateGuards::IsCurrent(const AnswerGuard& guard) {
  return IsExpected(LoadPlace(guard.callable, AccessKind::kAnswer, guard.arguments).object.get(), guard.expected);
}

bool StateGuards::IsCurrent(const OtherGuard& guard) {
  const PlaceValue seen = LoadPlace(guard.holder, guard.access, guard.key);
  if (guard.content) return seen.content == guard.content;
  PythonRef expected = PythonRef::Borrow(guard.object);
  return IsExpected(seen.object.get(), expected);
}

int StateGuards::Traverse(visitproc visit, void* arg) const {
  const auto visit_each = [&](const auto& places) {
    for (const auto& place : places) Py_VISIT(place.expected.get());
    return 0;
  };
  int stop = visit_each(cells_);
  if (stop == 0) stop = visit_each(members_);
  if (stop == 0) stop = visit_each(answers_);
  for (auto dict = dicts_.begin(); stop == 0 && dict != dicts_.end(); ++dict) stop = visit_each(dict->slots);
  for (auto type = types_.begin(); stop == 0 && type != types_.end(); ++type) stop = visit_each(type->slots);
  for (auto list = lists_.begin(); stop == 0 && list != lists_.end(); ++list) stop = visit_each(list->items);
  if (stop != 0) return stop;
  for (const PythonRef& object : held_) Py_VISIT(object.get());
  return 0;
}

bool StateGuards::Holds() const {
  for (const OwnerGuard& guard : owners_) {
    if (Py_TYPE(guard.object) != guard.type) return false;
    if (guard.place != nullptr && *guard.place != guard.dict) return false;
  }
  if (!DictsHold()) return false;
  for (size_t i = 0; i < types_.size(); ++i) {
    const TypeState& state = type_states_[i];
    const unsigned int now = VersionOf(state.type);
    if (now != 0 && now == state.then) continue;
    if (!IsCurrent(types_[i], state.type)) return false;
    state.then = MakeVersionOf(state.type);
  }
  for (const FunctionGuard& guard : functions_) {
    const PyFunctionObject& function = *guard.function;
    if (function.func_code != guard.code || function.func_defaults != guard.defaults ||
        function.func_kwdefaults != guard.keyword_defaults)
      return false;
  }
  for (const CellGuard& guard : cells_) {
    if (!IsExpected(PyCell_GET(guard.cell), guard.expected)) return false;
  }
  for (const MemberGuard& guard : members_) {
    if (!IsExpected(*guard.member, guard.expected)) return false;
  }
  for (const TensorGuard& guard : tensors_) {
    if (MetadataOf(guard.tensor) != guard.metadata) return false;
  }
  const auto is_current = [](const auto& guard) { return IsCurrent(guard); };
  return std::ranges::all_of(lists_, is_current) && std::ranges::all_of(sets_, is_current) &&
         std::ranges::all_of(registries_, is_current) && std::ranges::all_of(answers_, is_current) &&
         std::ranges::all_of(others_, is_current);
}

}  // namespace ingot::client
