// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/part_fields.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/effects/effect_table.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

constexpr bool kStays = true, kContent = true;

constexpr PartField kOfFunctions[] = {
    {"__code__", "code"},
    {"__defaults__", "defaults"},
    {"__kwdefaults__", "kwdefaults"},
    {"__globals__", "globals", kStays},
    {"__builtins__", "builtins", kStays},
    {"", "closure", kStays},
    {"__name__", "name"},
    {"__qualname__", "qualname"},
    {"__doc__", "doc"},
    {"__module__", "module"},
    {"__annotations__", "annotations"},
};
constexpr PartField kOfMethods[] = {{"__func__", "func", kStays}, {"__self__", "self", kStays}};
/// `__init__` fills each of these anew.
constexpr PartField kOfProperties[] = {{"fget", "get"}, {"fset", "set"}, {"fdel", "delete"}, {"__doc__", "doc"}};
constexpr PartField kOfWrappers[] = {{"__wrapped__", "wrapped"}, {"__func__", "wrapped"}};
/// As does `__setstate__`.
constexpr PartField kOfPartials[] = {{"func", "func"}, {"args", "args"}, {"keywords", "keywords"}};
constexpr PartField kOfNative[] = {
    {"__self__", "self", kStays},
    {"__name__", "name", kStays},
    {"__qualname__", "qualname", kStays, kContent},
    {"__doc__", "doc", kStays, kContent},
    {"__module__", "module"},
    {"__objclass__", "class", kStays},
    {"__text_signature__", "text_signature", kStays, kContent},
};
constexpr PartField kOfTypes[] = {{"__name__", "name"}, {"__qualname__", "qualname"}, {"", "mro"}};
constexpr PartField kOfCells[] = {{"", "contents"}};
constexpr PartField kOfVariables[] = {{"name", "name", kStays}, {"", "held"}};
/// Not where its text lies, nor what the interpreter has made of it while it ran.
constexpr PartField kOfCode[] = {
    {"co_argcount", "co_argcount", kStays, kContent},
    {"co_posonlyargcount", "co_posonlyargcount", kStays, kContent},
    {"co_kwonlyargcount", "co_kwonlyargcount", kStays, kContent},
    {"co_flags", "co_flags", kStays, kContent},
    {"co_nlocals", "co_nlocals", kStays, kContent},
    {"co_stacksize", "co_stacksize", kStays, kContent},
    {"co_names", "co_names", kStays, kContent},
    {"co_varnames", "co_varnames", kStays, kContent},
    {"co_freevars", "co_freevars", kStays, kContent},
    {"co_cellvars", "co_cellvars", kStays, kContent},
    {"co_code", "co_code", kStays, kContent},
    {"co_exceptiontable", "co_exceptiontable", kStays, kContent},
    {"co_name", "co_name", kStays, kContent},
    {"co_qualname", "co_qualname", kStays, kContent},
    {"co_consts", "co_consts", kStays},  // What it holds is read where a program looks into it.
};

std::span<const PartField> RowsOf(PyObject* part) {
  if (PyFunction_Check(part)) return kOfFunctions;
  if (PyType_Check(part)) return kOfTypes;
  if (PyMethod_Check(part)) return kOfMethods;
  if (PyCode_Check(part)) return kOfCode;
  if (PyCell_Check(part)) return kOfCells;
  if (PyObject_TypeCheck(part, &PyProperty_Type)) return kOfProperties;
  if (PyContextVar_CheckExact(part)) return kOfVariables;
  if (EffectTable::IsNative(part)) return kOfNative;
  const bool is_wrapper = Py_TYPE(part) == &PyStaticMethod_Type || Py_TYPE(part) == &PyClassMethod_Type;
  if (is_wrapper || CompiledTarget(part) != nullptr) return kOfWrappers;
  if (std::string_view(NativeBase(Py_TYPE(part))->tp_name) == "functools.partial") return kOfPartials;
  if (std::string_view(Py_TYPE(part)->tp_name).ends_with("_lru_cache_wrapper")) return kOfWrappers;
  return {};
}

const PartField* Find(PyObject* part, std::string_view PartField::* column, std::string_view name) {
  const auto rows = RowsOf(part);
  const auto found = std::ranges::find(rows, name, column);
  return name.empty() || found == rows.end() ? nullptr : &*found;
}

}  // namespace

const PartField* FieldShownAs(PyObject* part, std::string_view attribute) {
  return Find(part, &PartField::attribute, attribute);
}

const PartField* FieldOfPart(PyObject* part, std::string_view field) { return Find(part, &PartField::field, field); }

PyObject* const* SlotOf(PyObject* part, const PartField& row) {
  const auto at = [part](Py_ssize_t offset) {
    return reinterpret_cast<PyObject* const*>(reinterpret_cast<char*>(part) + offset);
  };
  if (PyFunction_Check(part) && row.field == "name") return at(offsetof(PyFunctionObject, func_name));
  if (PyFunction_Check(part) && row.field == "qualname") return at(offsetof(PyFunctionObject, func_qualname));
  if (PyType_Check(part) && row.field == "mro") return at(offsetof(PyTypeObject, tp_mro));
  if (PyType_Check(part)) {
    const bool is_heap = (reinterpret_cast<PyTypeObject*>(part)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
    const bool is_name = row.field == "name";
    return is_heap ? at(is_name ? offsetof(PyHeapTypeObject, ht_name) : offsetof(PyHeapTypeObject, ht_qualname))
                   : nullptr;
  }
  const PyMemberDef* member = NativeBase(Py_TYPE(part))->tp_members;
  for (; member != nullptr && member->name != nullptr; ++member) {
    const bool is_object = member->type == T_OBJECT || member->type == T_OBJECT_EX;
    if (is_object && row.attribute == member->name) return at(member->offset);
  }
  return nullptr;
}

PlaceValue LookAtPart(PyObject* part, const PartField& row) {
  if (row.field == "closure") return PlaceValue::Of(PyFunction_GET_CLOSURE(part));
  if (row.field == "contents") return PlaceValue::Of(PyCell_GET(part));
  if (row.field == "held") {
    PyObject* held = nullptr;
    if (PyContextVar_Get(part, nullptr, &held) != 0) DropError();
    return PlaceValue{PythonRef(held), std::nullopt};
  }
  if (PyObject* target = row.field == "wrapped" ? CompiledTarget(part) : nullptr) return PlaceValue::Of(target);
  if (row.field == "self" && PyCFunction_Check(part)) return PlaceValue::Of(PyCFunction_GET_SELF(part));
  PyObject* const* slot = SlotOf(part, row);
  if (slot != nullptr && !row.is_content) return PlaceValue::Of(*slot == nullptr ? Py_None : *slot);
  PlaceValue seen{PythonRef(PyObject_GetAttrString(part, std::string(row.attribute).c_str())), std::nullopt};
  DropError();
  if (!row.is_content) return seen;
  ValueWriter writer;
  writer.Write(seen.object ? seen.object.get() : Py_NotImplemented);
  return {PythonRef(), writer.FinishOrUntold()};
}

}  // namespace ingot::client
