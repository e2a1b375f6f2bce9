// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/registrations.h"

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <exception>
#include <set>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/set_table.h"
#include "client/native/places/place_access.h"

namespace ingot::client {
namespace {

/// Whether classes may be registered with this one: to ask any other raises an error, of which a process has thousands.
bool MayHaveRegistered(PyObject* type) {
  static PyObject* const abstract = Py_XNewRef(LoadedAttribute("abc", "ABCMeta"));
  return abstract == nullptr || PyObject_TypeCheck(type, reinterpret_cast<PyTypeObject*>(abstract));
}

bool HasHeirs(PyObject* object) {
  const auto* type = reinterpret_cast<PyTypeObject*>(object);
  // From 3.12 on, those of static types lie elsewhere.
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 || type->tp_subclasses != nullptr;
}

/// The classes that are registered with one, as an iterator over weak references; or null.
PythonRef RegisteredWith(PyObject* type) {
  static PyObject* const ask = Py_XNewRef(LoadedAttribute("_abc", "_get_dump"));
  if (ask == nullptr || !MayHaveRegistered(type)) return PythonRef();
  const PythonRef dump(PyObject_CallOneArg(ask, type));
  return PythonRef(dump && PyTuple_Check(dump.get()) ? PyObject_GetIter(PyTuple_GET_ITEM(dump.get(), 0)) : nullptr);
}

/// Adds the names of classes that are registered with this one, with what is registered, or with what comes from it.
/// Two classes may have one name.
void AddRegistered(PyObject* type, std::multiset<Digest>& names, boost::unordered_flat_set<PyObject*>& met) {
  if (!met.insert(type).second) return;
  const PythonRef registered = RegisteredWith(type);
  while (registered) {
    const PythonRef reference(PyIter_Next(registered.get()));
    if (!reference) break;
    const PythonRef one = TargetOf(reference.get());
    if (!one || !PyType_Check(one.get())) continue;
    auto* named = reinterpret_cast<PyTypeObject*>(one.get());
    Hasher name;
    AddClassName(name, named);
    names.insert(name.Finish());
    AddRegistered(one.get(), names, met);
  }
  DropError();
  if (!HasHeirs(type)) return;
  const PythonRef heirs(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyType_Type), "__subclasses__", "O", type));
  for (Py_ssize_t i = 0; heirs && i < PyList_GET_SIZE(heirs.get()); ++i)
    AddRegistered(PyList_GET_ITEM(heirs.get(), i), names, met);
  DropError();
}

Digest Compute(PyObject* type) {
  std::multiset<Digest> names;
  boost::unordered_flat_set<PyObject*> met;
  AddRegistered(type, names, met);
  Hasher hasher;
  for (const Digest& name : names) {
    hasher.Add(name.low);
    hasher.Add(name.high);
  }
  return hasher.Finish();
}

struct Known {
  PythonRef reference;  ///< weak: another class may come to lie at the address
  uint64_t then = 0;
  Digest digest;
};

/// Whether a call with tensors of the CPU comes to a kernel under this key. Those of transforms, which PyTorch
/// registers itself, and of other devices it does not.
bool IsReached(const std::string& key) {
  using c10::DispatchKey;
  try {
    const DispatchKey parsed = c10::parseDispatchKey(key);
    constexpr std::array kOnTheWay = {DispatchKey::BackendSelect, DispatchKey::ADInplaceOrView,
                                      DispatchKey::AutogradCPU, DispatchKey::CPU};
    if (std::ranges::any_of(kOnTheWay, [&](DispatchKey one) { return c10::runtimeDispatchKeySetHas(parsed, one); }))
      return true;
    return !c10::isAliasDispatchKey(parsed) && c10::isPerBackendFunctionalityKey(c10::toFunctionalityKey(parsed)) &&
           c10::toBackendComponent(parsed) == c10::BackendComponent::CPUBit;
  } catch (const std::exception&) {
    return true;  // a key that is not known here
  }
}

/// Of "aten/relu/CPU".
bool IsOverride(std::string_view registration) {
  constexpr std::string_view kSpace = "aten/";
  return registration.starts_with(kSpace) && IsReached(std::string(registration.substr(registration.rfind('/') + 1)));
}

}  // namespace

bool OperatorsAreOverridden() {
  static PyObject* const all = Py_XNewRef(LoadedAttribute("torch.library", "_impls"));
  if (all == nullptr || !PyAnySet_Check(all)) return false;
  // Places of a set are taken once until it gets another table, so that these change with each change of it.
  const auto* set = reinterpret_cast<PySetObject*>(all);
  struct State {
    const setentry* table;
    Py_ssize_t fill, used;
    bool operator==(const State&) const = default;
  };
  static State then{};
  static bool is_any = false;
  const State now{set->table, set->fill, set->used};
  if (now == then) return is_any;
  is_any = std::ranges::any_of(TableOf(all), [](PyObject* one) { return one != nullptr && IsOverride(ViewOf(one)); });
  then = now;
  return is_any;
}

uint64_t RegistrationsNow() {
  static PyObject* const ask = Py_XNewRef(LoadedAttribute("abc", "get_cache_token"));
  const PythonRef token(ask == nullptr ? nullptr : PyObject_CallNoArgs(ask));
  const uint64_t number = token ? PyLong_AsUnsignedLongLongMask(token.get()) : 0;
  DropError();
  return number;
}

Digest DigestOfRegistry(PyObject* type) {
  // Never destroyed: the interpreter may end first.
  static auto& all = *new boost::unordered_flat_map<PyObject*, Known>();
  const uint64_t now = RegistrationsNow();
  const auto it = all.find(type);
  if (it != all.end() && it->second.then == now && TargetOf(it->second.reference.get()).get() == type)
    return it->second.digest;
  const Digest digest = Compute(type);
  PythonRef reference(PyWeakref_NewRef(type, nullptr));
  DropError();
  // What it ran may have registered more, and may have moved the table.
  if (reference && RegistrationsNow() == now) all[type] = {std::move(reference), now, digest};
  return digest;
}

}  // namespace ingot::client
