// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "client/native/cpython/dict_mark.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/place_access.h"

namespace ingot::client {

struct PartField;

/// The places that a binding relies on and that may change inside this process: what a record read,
/// by identity. A place that holds another object now still holds when that is an equal number or
/// text. Asking costs about a nanosecond for each object, dict and class that nobody has touched.
/// Needs the GIL throughout.
class StateGuards {
 public:
  StateGuards() = default;
  StateGuards(StateGuards&&) = delete;
  StateGuards& operator=(StateGuards&&) = delete;

  /// `seen` is what the place holds now.
  void Add(PyObject* holder, AccessKind access, PyObject* key, const PlaceValue& seen);
  /// A tensor whose metadata somebody else checks at every call.
  void Leave(PyObject* tensor) { left_.insert(tensor); }
  /// An object that lives only as long as its owner wants: it is asked after while it lives, and
  /// not kept.
  void Borrow(PyObject* object) { borrowed_.insert(object); }
  bool Holds() const;
  /// For Python's collector of cycles: each reference that this owns, once.
  int Traverse(visitproc visit, void* arg) const;

 private:
  struct Slot {
    PyObject* key;               ///< borrowed from held_
    mutable PythonRef expected;  ///< null: nothing is there
  };
  /// What is right of a dict. `content` is of an object that is its dict and nothing else.
  struct DictGuard {
    PyObject* dict;
    Py_ssize_t size = -1;  ///< -1: may gain and lose keys
    std::optional<Digest> keys;
    std::vector<Slot> slots;
    PyObject* owner = nullptr;
    std::optional<Digest> content;
  };
  /// Slots are what the classes of the type have under names.
  struct TypeGuard {
    std::vector<Slot> slots;
    std::vector<std::pair<PyObject*, Digest>> contents;
  };
  struct TypeState {
    PyTypeObject* type;
    mutable unsigned int then = 0;
  };
  /// An object must stay of its class and keep its dict.
  struct OwnerGuard {
    PyObject* object;
    PyTypeObject* type;
    PyObject* const* place;  ///< where the object, while of this class, keeps its dict; or null
    PyObject* dict;
  };
  struct FunctionGuard {
    PyFunctionObject* function;
    PyObject *code, *defaults, *keyword_defaults;
  };
  struct Item {
    Py_ssize_t at;
    mutable PythonRef expected;
  };
  struct ListGuard {
    PyObject* list;
    Py_ssize_t size = -1;  ///< -1: may grow and shrink
    std::vector<Item> items;
  };
  struct CellGuard {
    PyObject* cell;
    mutable PythonRef expected;
  };
  /// A member of `__slots__`, or what a part of a program keeps in itself.
  struct MemberGuard {
    PyObject* const* member;
    mutable PythonRef expected;  ///< null: not set
  };
  /// A set whose members are the same objects is the same set where they cannot change.
  struct SetGuard {
    PyObject* set;
    std::vector<PyObject*> table;
    PyObject* field;  ///< "content" or "order"
    Digest content;
  };
  /// The classes that are registered with an abstract one.
  struct RegistryGuard {
    PyObject* type;
    Digest content;
    mutable uint64_t then;
  };
  /// A tensor that is no weight: assigning its data gives it other sizes.
  struct TensorGuard {
    PyObject* tensor;
    Digest metadata;
  };
  /// Asked again at every call.
  struct AnswerGuard {
    PyObject *callable, *arguments;
    mutable PythonRef expected;
  };
  /// Read again at every call.
  struct OtherGuard {
    PyObject* holder;
    AccessKind access;
    PyObject* key;
    PyObject* object;
    std::optional<Digest> content;
  };

  void Hold(PyObject* object) {
    if (object != nullptr && !borrowed_.contains(object)) held_.push_back(PythonRef::Borrow(object));
  }
  DictGuard& OfDict(PyObject* dict);
  TypeGuard& OfType(PyTypeObject* type);
  ListGuard& OfList(PyObject* list);
  void AddOwner(PyObject* object);
  void AddFunction(PyObject* function);
  void AddTensor(PyObject* tensor);
  void AddField(PyObject* holder, PyObject* key, const PlaceValue& seen);
  void AddCell(PyObject* function, PyObject* name, const PlaceValue& seen);
  bool AddMember(PyObject* holder, PyObject* name, const PlaceValue& seen);
  bool AddContent(PyObject* holder, PyObject* field, const Digest& content);
  void AddPart(PyObject* part, const PartField& row, PyObject* key, const PlaceValue& seen);
  void AddOther(PyObject* holder, AccessKind access, PyObject* key, const PlaceValue& seen);
  bool DictsHold() const;
  static bool IsCurrent(const DictGuard& guard);
  static bool IsCurrent(const TypeGuard& guard, PyTypeObject* type);
  static bool IsCurrent(const ListGuard& guard);
  static bool IsCurrent(const SetGuard& guard);
  static bool IsCurrent(const RegistryGuard& guard);
  static bool IsCurrent(const AnswerGuard& guard);
  static bool IsCurrent(const OtherGuard& guard);

  mutable uint64_t writes_then_ = 0;  ///< DictMark::Writes() when every dict was right
  /// Set when the dict of the same number was right; apart from it, since all of them are walked at
  /// every call.
  mutable std::vector<DictMark> dict_marks_;
  std::vector<DictGuard> dicts_;
  std::vector<size_t> uncounted_;  ///< dicts whose mark is not counted
  std::vector<TypeState> type_states_;
  std::vector<TypeGuard> types_;
  std::vector<OwnerGuard> owners_;
  std::vector<FunctionGuard> functions_;
  std::vector<ListGuard> lists_;
  std::vector<CellGuard> cells_;
  std::vector<MemberGuard> members_;
  std::vector<SetGuard> sets_;
  std::vector<RegistryGuard> registries_;
  std::vector<TensorGuard> tensors_;
  std::vector<AnswerGuard> answers_;
  std::vector<OtherGuard> others_;
  boost::unordered_flat_map<PyObject*, size_t> numbers_;  ///< of dicts, types and lists
  boost::unordered_flat_set<PyObject*> met_;              ///< functions and tensors
  boost::unordered_flat_set<PyObject*> owned_;            ///< of owners_
  boost::unordered_flat_set<PyObject*> left_;
  boost::unordered_flat_set<PyObject*> borrowed_;
  std::vector<PythonRef> held_;
};

}  // namespace ingot::client
