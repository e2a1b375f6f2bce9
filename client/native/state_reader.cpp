// SPDX-License-Identifier: Apache-2.0
#include "client/native/state_reader.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "client/native/code_names.h"
#include "client/native/module_tables.h"
#include "client/native/origin.h"

namespace ingot::client {
namespace {

constexpr size_t kItemsMax = 20'000;

std::string ClassName(PyTypeObject* type) {
  return std::string(ModuleOf(type)) + ":" + std::string(QualnameOf(type));
}

/// Called by Python when a class is made, printed, pickled or freed: never on the way to an answer.
bool IsCeremony(std::string_view name) {
  constexpr std::array<std::string_view, 14> kNames = {
      "__init_subclass__", "__class_getitem__", "__set_name__", "__subclasshook__", "__repr__",
      "__str__",           "__del__",           "__dir__",      "__reduce__",       "__reduce_ex__",
      "__getstate__",      "__setstate__",      "__deepcopy__", "__sizeof__"};
  return std::ranges::find(kNames, name) != kNames.end();
}

bool IsGenerated(PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  return ViewOf(code->co_filename) == "<string>";
}

Digest BasesOf(PyTypeObject* type) {
  Hasher hasher;
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    hasher.AddField(ClassName(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))));
  }
  return hasher.Finish();
}

/// A function or class of PyTorch's under its own name, as `torch.relu` in code says it.
bool SaysItself(PyObject* name, PyObject* value) {
  // Operators come into torch.ops when they are first asked for.
  if (ModuleOf(Py_TYPE(value)) == "torch._ops") return true;
  if (PyFunction_Check(value) && !IsTorchs(reinterpret_cast<PyFunctionObject*>(value))) return false;
  if (!PyFunction_Check(value) && !PyCFunction_Check(value) && !PyType_Check(value)) return false;
  const PythonRef own(PyObject_GetAttrString(value, "__name__"));
  PyErr_Clear();
  return ViewOf(own.get()) == ViewOf(name);
}

}  // namespace

void StateReader::AddRoot(const std::string& name, PyObject* root) {
  if (ModuleDict(root) != nullptr) return Enqueue("attribute", name, root, true);
  AddValue("attribute", name, root);
}

void StateReader::Enqueue(const std::string& kind, const std::string& path, PyObject* object, bool in_key) {
  if (!seen_.insert(object).second) return;
  waiting_.push_back({kind, path, PythonRef::Borrow(object), in_key});
  held_.push_back(PythonRef::Borrow(object));
}

void StateReader::AddCode(PyObject* globals, PyObject* code) {
  if (ran_.insert(code).second) held_.push_back(PythonRef::Borrow(code));
  PyObject* names = reinterpret_cast<PyCodeObject*>(code)->co_names;
  std::vector<PyObject*> modules;
  const auto add = [&](PyObject* space, PyObject* name, PyObject* value, bool of_torch) {
    AddGlobal(space, name, value, of_torch);
    const bool is_new = PyModule_Check(value) && std::ranges::find(modules, value) == modules.end();
    if (is_new) modules.push_back(value);
  };
  for (PyObject* name : GlobalNames(code)) {
    // What is absent is a builtin; a global that hides it later is one item more.
    if (PyObject* value = PyDict_GetItemWithError(globals, name)) add(globals, name, value, false);
  }
  // Calls such as torch.nn.functional.relu: any name may be an attribute of any module on the way.
  for (size_t m = 0; m < modules.size(); ++m) {
    PyObject* attributes = PyModule_GetDict(modules[m]);
    const bool of_torch = IsTorchName(ViewOf(PyDict_GetItemString(attributes, "__name__")));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
      PyObject* name = PyTuple_GET_ITEM(names, k);
      if (PyObject* value = PyDict_GetItemWithError(attributes, name)) add(attributes, name, value, of_torch);
    }
  }
}

void StateReader::AddGlobal(PyObject* space, PyObject* name) {
  if (PyObject* value = PyDict_GetItemWithError(space, name)) AddGlobal(space, name, value, false);
}

void StateReader::AddGlobal(PyObject* space, PyObject* name, PyObject* value, bool of_torch) {
  static PyObject* const own_name = PyUnicode_InternFromString("__name__");
  const std::string_view module = ViewOf(PyDict_GetItemWithError(space, own_name));
  if (module != "__main__" && IsStandardName(module)) return;
  if (of_torch && (PyModule_Check(value) || SaysItself(name, value))) return;
  const std::string where = std::string(module) + ":" + std::string(ViewOf(name));
  if (globals_.insert(where).second) AddValue("global", where, value);
}

/// One item; what the value leads to waits for its turn.
void StateReader::AddValue(const std::string& kind, const std::string& path, PyObject* value) {
  Reached reached;
  ValueWriter writer(&reached);
  writer.Write(value);
  state_.items.push_back({kind, path, writer.Finish(), with_text_ ? ShortText(value) : std::string()});
  for (const std::string& type : writer.opaque()) state_.opaque.push_back(path + ": " + type);
  // A table may list many classes of which a program takes one: that one's code ran.
  for (PyTypeObject* type : reached.classes) {
    const auto* object = reinterpret_cast<PyObject*>(type);
    if (object == value || Py_TYPE(value) == type || HasRun(type)) AddClass(type);
  }
  state_.codes.insert(state_.codes.end(), reached.codes.begin(), reached.codes.end());
  size_t number = 0;
  for (PyObject* object : reached.objects) {
    // Inside a container the place is a number; alone it is the value itself.
    Enqueue(kind, object == value ? path : path + "[" + std::to_string(number) + "]", object, false);
    ++number;
  }
}

void StateReader::AddClass(PyTypeObject* type) {
  if (!IsUsers(type) || !seen_.insert(reinterpret_cast<PyObject*>(type)).second) return;
  held_.push_back(PythonRef::Borrow(reinterpret_cast<PyObject*>(type)));
  classes_.push_back(type);
  for (Py_ssize_t i = 0; type->tp_bases != nullptr && i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
    AddClass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
  }
}

/// A class that answers for attributes it does not have: which ones it reads then, no name tells.
bool StateReader::MakesAttributes(PyTypeObject* type) {
  const auto [it, fresh] = makes_.emplace(type, false);
  if (!fresh) return it->second;
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!IsUsers(base) || base->tp_dict == nullptr) continue;
    static PyObject* const names[] = {PyUnicode_InternFromString("__getattr__"),
                                      PyUnicode_InternFromString("__getattribute__")};
    for (PyObject* name : names) {
      if (PyDict_GetItemWithError(base->tp_dict, name) != nullptr) return it->second = true;
    }
  }
  return false;
}

/// A method reads `self.__dict__`; every attribute of such objects counts.
bool StateReader::IsReadWhole(PyTypeObject* type) {
  if (names_.is_all()) return true;
  if (const auto it = read_whole_.find(type); it != read_whole_.end()) return it->second;
  bool whole = false;
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro) && !whole; ++i) {
    const std::string name = "*" + ClassName(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i)));
    const PythonRef text(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    whole = text && names_.Has(text.get());
  }
  return read_whole_.emplace(type, whole).first->second;
}

void StateReader::Visit(const Place& place) {
  AddClass(Py_TYPE(place.value.get()));
  if (PyObject* dict = ModuleDict(place.value.get())) return VisitModule(place, dict);
  VisitAttributes(place, IsReadWhole(Py_TYPE(place.value.get())));
}

void StateReader::VisitModule(const Place& place, PyObject* dict) {
  PyTypeObject* type = Py_TYPE(place.value.get());
  // Of PyTorch's own modules the structure holds everything.
  const bool is_torchs = HasTorchBehaviour(type);
  if (!(is_torchs && place.in_key)) VisitAttributes(place, is_torchs || IsReadWhole(type));
  for (const char* table : {"_modules", "_parameters", "_buffers"}) {
    PyObject* children = PyDict_GetItemString(dict, table);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (children != nullptr && PyDict_Check(children) && PyDict_Next(children, &at, &key, &value)) {
      const bool is_module = ModuleDict(value) != nullptr;
      if (place.in_key && is_module) Enqueue(place.kind, ChildPath(place.path, key), value, true);
      if (!place.in_key) AddValue(place.kind, ChildPath(place.path, key), value);
    }
  }
}

/// `all`: every attribute counts, because code that nobody records reads them.
void StateReader::VisitAttributes(const Place& place, bool all) {
  PyObject* value = place.value.get();
  const bool is_module = ModuleDict(value) != nullptr;
  const bool makes = MakesAttributes(Py_TYPE(value));
  const auto attributes = AttributesOf(value);
  for (const auto& [key, attribute] : attributes) {
    const std::string name(ViewOf(key.get()));
    const bool is_switch = name == "training" && !place.in_key;
    if (is_module && !is_switch && IsBookkeeping(name, attribute.get())) continue;
    const bool counts = all || is_switch || names_.Has(key.get()) || (makes && !name.starts_with("_"));
    if (counts) AddValue(place.kind, place.path + "." + name, attribute.get());
  }
}

/// Whether any function in a class's own table is code that ran.
bool StateReader::HasRun(PyTypeObject* type) const {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (IsUsers(type) && type->tp_dict != nullptr && PyDict_Next(type->tp_dict, &at, &key, &value)) {
    if (PyFunction_Check(value) && ran_.contains(PyFunction_GET_CODE(value))) return true;
  }
  return false;
}

/// Whether the code of a call makes objects of a class or of one that shares its __init__.
bool StateReader::MakesDuringCalls(PyTypeObject* type) const {
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    static PyObject* const name = PyUnicode_InternFromString("__init__");
    PyObject* init = base->tp_dict == nullptr ? nullptr : PyDict_GetItemWithError(base->tp_dict, name);
    if (init != nullptr && PyFunction_Check(init) && ran_.contains(PyFunction_GET_CODE(init))) return true;
  }
  return false;
}

void StateReader::VisitClass(PyTypeObject* type, const std::string& name) {
  state_.items.push_back({"class", name, BasesOf(type), "bases"});
  const bool is_dataclass =
      type->tp_dict != nullptr && PyDict_GetItemString(type->tp_dict, "__dataclass_fields__") != nullptr;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (type->tp_dict != nullptr && PyDict_Next(type->tp_dict, &at, &key, &value)) {
    const std::string_view text = ViewOf(key);
    if (text.starts_with("__") && text.ends_with("__")) {
      if (!PyFunction_Check(value) || IsCeremony(text)) continue;
      // What __init__ did before the call is in the attributes; what dataclasses generate follows
      // from the fields, which __init__ has as its arguments.
      if (text == "__init__" ? !is_dataclass && !MakesDuringCalls(type) : IsGenerated(value)) continue;
    } else if (!names_.Has(key)) {
      continue;
    }
    if (PyObject_TypeCheck(value, &PyMemberDescr_Type)) continue;
    PyObject* function = FunctionOf(value);
    AddValue("class", name + "." + std::string(text), function != nullptr ? function : value);
  }
}

void StateReader::VisitClasses() {
  std::unordered_map<std::string, size_t> numbers;
  // Classes and objects lead to each other.
  for (size_t i = 0; i < classes_.size() || !waiting_.empty();) {
    while (!waiting_.empty() && state_.items.size() < kItemsMax) {
      const Place place = std::move(waiting_.front());
      waiting_.pop_front();
      Visit(place);
    }
    if (i == classes_.size() || state_.items.size() >= kItemsMax) break;
    // Two local classes may have one name.
    std::string name = ClassName(classes_[i]);
    const size_t number = numbers[name]++;
    if (number > 0) name += "#" + std::to_string(number);
    VisitClass(classes_[i++], name);
  }
  if (state_.items.size() >= kItemsMax) state_.opaque.push_back("state beyond " + std::to_string(kItemsMax) + " items");
}

ModuleState StateReader::Finish() {
  VisitClasses();
  return std::move(state_);
}

}  // namespace ingot::client
