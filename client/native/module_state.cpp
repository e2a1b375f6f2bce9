// SPDX-License-Identifier: Apache-2.0
#include "client/native/module_state.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "client/native/module_tables.h"
#include "client/native/origin.h"
#include "client/native/python_ref.h"
#include "client/native/value_digest.h"

namespace ingot::client {
namespace {

constexpr size_t kTextMax = 160;

std::string NameOf(PyTypeObject* type) { return std::string(ModuleOf(type)) + "." + std::string(QualnameOf(type)); }

void AddText(std::string& text, const std::string& name, PyObject* value) {
  if (name.starts_with("_") || text.size() >= kTextMax) return;
  if (!text.empty()) text += ", ";
  text += name + "=" + ShortText(value);
}

void AddPatched(PyObject* table, const std::string& owner, std::vector<StateItem>& items) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (table != nullptr && PyDict_Next(table, &at, &key, &value)) {
    if (!PyFunction_Check(value) || IsTorchs(reinterpret_cast<PyFunctionObject*>(value))) continue;
    ValueWriter writer;
    writer.Write(value);
    items.push_back({"", "patched " + owner + "." + std::string(ViewOf(key)), writer.Finish(), ShortText(value)});
  }
}

class StructureWalk {
 public:
  ModuleState Run(PyObject* root, const std::string& name) {
    if (ModuleDict(root) != nullptr) {
      Visit(root, name);
    } else {
      AddClass(root, name, {}, "");
    }
    return std::move(state_);
  }

 private:
  void Visit(PyObject* module, const std::string& path) {
    // A module reached twice is aliasing, which the trace can see.
    const auto [it, fresh] = modules_.emplace(module, path);
    if (!fresh) {
      state_.items.push_back({"", path, DigestOf("same as " + it->second), "same as " + it->second});
      return;
    }
    PyObject* dict = ModuleDict(module);
    if (dict == nullptr) return AddClass(module, path, {}, "");
    AddPatchedMethods(Py_TYPE(module));
    Buffer bytes;
    std::string text;
    AddTables(dict, path, HasTorchBehaviour(Py_TYPE(module)), bytes, text);
    AddClass(module, path, bytes, text);
    VisitChildren(PyDict_GetItemString(dict, "_modules"), path);
  }

  void VisitChildren(PyObject* children, const std::string& path) {
    if (children == nullptr || !PyDict_Check(children)) return;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(children, &at, &key, &value)) {
      const std::string child = ChildPath(path, key);
      if (value == Py_None) {
        state_.items.push_back({"", child, DigestOf("None"), "None"});
      } else {
        Visit(value, child);
      }
    }
  }

  void AddTables(PyObject* dict, const std::string& path, bool all, Buffer& bytes, std::string& text) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value)) {
      const std::string name(ViewOf(key));
      const bool is_hooks = name == "_forward_hooks" || name == "_forward_pre_hooks";
      if (name == "_parameters" || name == "_buffers") {
        AddTensors(bytes, value);
      } else if (name == "training" || ((all || is_hooks) && !IsBookkeeping(name, value))) {
        AddAttribute(bytes, path, name, value);
        if (name != "training") AddText(text, name, value);
      }
    }
  }

  void AddClass(PyObject* value, const std::string& path, const Buffer& bytes, const std::string& text) {
    Hasher hasher;
    hasher.AddField(NameOf(Py_TYPE(value)));
    hasher.AddField(Bytes(bytes));
    state_.items.push_back({"", path, hasher.Finish(), std::string(Py_TYPE(value)->tp_name) + "(" + text + ")"});
  }

  void AddAttribute(Buffer& bytes, const std::string& path, const std::string& name, PyObject* value) {
    ValueWriter writer;
    writer.Write(value);
    for (const std::string& type : writer.opaque()) state_.opaque.push_back(path + "." + name + ": " + type);
    const Digest digest = writer.Finish();
    bytes.insert(bytes.end(), name.begin(), name.end());
    AppendLittle(bytes, digest.low);
    AppendLittle(bytes, digest.high);
  }

  void AddTensors(Buffer& bytes, PyObject* table) {
    if (!PyDict_Check(table)) return;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    ValueWriter writer;
    while (PyDict_Next(table, &at, &key, &value)) {
      writer.Write(key);
      if (value == Py_None) {
        writer.Write(value);
        continue;
      }
      const auto [it, fresh] = tensors_.emplace(value, tensors_.size());
      writer.Write(value);
      if (!fresh) AppendLittle(bytes, static_cast<uint64_t>(it->second));
    }
    const Digest digest = writer.Finish();
    AppendLittle(bytes, digest.low);
    AppendLittle(bytes, digest.high);
  }

  void AddPatchedMethods(PyTypeObject* type) {
    for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
      auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
      if (!classes_.insert(base).second || !IsTorchName(ModuleOf(base))) continue;
      AddPatched(DictOf(base), NameOf(base), state_.items);
    }
  }

  ModuleState state_;
  std::unordered_map<PyObject*, std::string> modules_;
  std::unordered_map<PyObject*, size_t> tensors_;
  std::unordered_set<PyTypeObject*> classes_;
};

}  // namespace

ModuleState StructureOf(PyObject* root, const std::string& name) { return StructureWalk().Run(root, name); }

std::vector<StateItem> PatchedIn(PyObject* namespaces) {
  std::vector<StateItem> items;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(namespaces, &at, &key, &value)) {
    PyObject* table = PyType_Check(value) ? DictOf(reinterpret_cast<PyTypeObject*>(value)) : value;
    AddPatched(table, std::string(ViewOf(key)), items);
  }
  return items;
}

}  // namespace ingot::client
