// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/unordered/unordered_flat_map.hpp>
#include <boost/unordered/unordered_flat_set.hpp>
#include <vector>

#include "client/native/cpython/dict_mark.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/reading.h"

namespace ingot::client {

struct PartField;

/// The places that a binding relies on and that may change inside this process: what a record read,
/// by identity. A place that holds another object now still holds when that is an equal number or
/// text. Asking costs about a nanosecond for each object, dict and class that nobody has touched.
/// Needs the GIL throughout.
class Watch {
 public:
  Watch() = default;
  Watch(Watch&&) = delete;
  Watch& operator=(Watch&&) = delete;

  /// `seen` is what the place holds now.
  void Add(PyObject* holder, Reading reading, PyObject* key, const Seen& seen);
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
  struct DictWatch {
    PyObject* dict;
    Py_ssize_t size = -1;  ///< -1: may gain and lose keys
    std::optional<Digest> keys;
    std::vector<Slot> slots;
    PyObject* owner = nullptr;
    std::optional<Digest> content;
  };
  /// Slots are what the classes of the type have under names.
  struct TypeWatch {
    std::vector<Slot> slots;
    std::vector<std::pair<PyObject*, Digest>> contents;
  };
  struct TypeState {
    PyTypeObject* type;
    mutable unsigned int then = 0;
  };
  /// An object must stay of its class and keep its dict.
  struct OwnerWatch {
    PyObject* object;
    PyTypeObject* type;
    PyObject* const* place;  ///< where the object, while of this class, keeps its dict; or null
    PyObject* dict;
  };
  struct FunctionWatch {
    PyFunctionObject* function;
    PyObject *code, *defaults, *keyword_defaults;
  };
  struct Item {
    Py_ssize_t at;
    mutable PythonRef expected;
  };
  struct ListWatch {
    PyObject* list;
    Py_ssize_t size = -1;  ///< -1: may grow and shrink
    std::vector<Item> items;
  };
  struct CellWatch {
    PyObject* cell;
    mutable PythonRef expected;
  };
  /// A member of `__slots__`, or what a part of a program keeps in itself.
  struct MemberWatch {
    PyObject* const* member;
    mutable PythonRef expected;  ///< null: not set
  };
  /// A set whose members are the same objects is the same set where they cannot change.
  struct SetWatch {
    PyObject* set;
    std::vector<PyObject*> table;
    PyObject* field;  ///< "content" or "order"
    Digest content;
  };
  /// The classes that are registered with an abstract one.
  struct RegistryWatch {
    PyObject* type;
    Digest content;
    mutable uint64_t then;
  };
  /// A tensor that is no weight: assigning its data gives it other sizes.
  struct TensorWatch {
    PyObject* tensor;
    Digest metadata;
  };
  /// Asked again at every call.
  struct AnswerWatch {
    PyObject *callable, *arguments;
    mutable PythonRef expected;
  };
  /// Read again at every call.
  struct OtherWatch {
    PyObject* holder;
    Reading reading;
    PyObject* key;
    PyObject* object;
    std::optional<Digest> content;
  };

  void Hold(PyObject* object) {
    if (object != nullptr && !borrowed_.contains(object)) held_.push_back(PythonRef::Borrow(object));
  }
  DictWatch& OfDict(PyObject* dict);
  TypeWatch& OfType(PyTypeObject* type);
  ListWatch& OfList(PyObject* list);
  void AddOwner(PyObject* object);
  void AddFunction(PyObject* function);
  void AddTensor(PyObject* tensor);
  void AddField(PyObject* holder, PyObject* key, const Seen& seen);
  void AddCell(PyObject* function, PyObject* name, const Seen& seen);
  bool AddMember(PyObject* holder, PyObject* name, const Seen& seen);
  bool AddContent(PyObject* holder, PyObject* field, const Digest& content);
  void AddPart(PyObject* part, const PartField& row, PyObject* key, const Seen& seen);
  void AddOther(PyObject* holder, Reading reading, PyObject* key, const Seen& seen);
  bool DictsHold() const;
  static bool IsCurrent(const DictWatch& watch);
  static bool IsCurrent(const TypeWatch& watch, PyTypeObject* type);
  static bool IsCurrent(const ListWatch& watch);
  static bool IsCurrent(const SetWatch& watch);
  static bool IsCurrent(const RegistryWatch& watch);
  static bool IsCurrent(const AnswerWatch& watch);
  static bool IsCurrent(const OtherWatch& watch);

  mutable uint64_t writes_then_ = 0;  ///< DictMark::Writes() when every dict was right
  /// Set when the dict of the same number was right; apart from it, since all of them are walked at
  /// every call.
  mutable std::vector<DictMark> dict_marks_;
  std::vector<DictWatch> dicts_;
  std::vector<size_t> uncounted_;  ///< dicts whose mark is not counted
  std::vector<TypeState> type_states_;
  std::vector<TypeWatch> types_;
  std::vector<OwnerWatch> owners_;
  std::vector<FunctionWatch> functions_;
  std::vector<ListWatch> lists_;
  std::vector<CellWatch> cells_;
  std::vector<MemberWatch> members_;
  std::vector<SetWatch> sets_;
  std::vector<RegistryWatch> registries_;
  std::vector<TensorWatch> tensors_;
  std::vector<AnswerWatch> answers_;
  std::vector<OtherWatch> others_;
  boost::unordered_flat_map<PyObject*, size_t> numbers_;  ///< of dicts, types and lists
  boost::unordered_flat_set<PyObject*> met_;              ///< functions and tensors
  boost::unordered_flat_set<PyObject*> owned_;            ///< of owners_
  boost::unordered_flat_set<PyObject*> left_;
  boost::unordered_flat_set<PyObject*> borrowed_;
  std::vector<PythonRef> held_;
};

}  // namespace ingot::client
