// SPDX-License-Identifier: Apache-2.0
#include "client/native/guards/module_state.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <unordered_map>

#include "client/native/cpython/exact_text.h"
#include "client/native/cpython/origin.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/places/module_tables.h"
#include "client/native/places/value_digest.h"

namespace ingot::client {
namespace {

class StructureWalk {
 public:
  ModuleState Run(PyObject* root, const std::string& name) {
    if (ModuleDict(root) != nullptr) {
      Visit(root, name);
    } else {
      AddClass(root, name, {});
    }
    return std::move(state_);
  }

 private:
  void Visit(PyObject* module, const std::string& path) {
    // A module reached twice is aliasing, which the trace can see.
    const auto [it, fresh] = modules_.emplace(module, path);
    if (!fresh) {
      state_.items.push_back({path, DigestOf("same as " + it->second), "same as " + it->second});
      return;
    }
    PyObject* dict = ModuleDict(module);
    if (dict == nullptr) return AddClass(module, path, {});
    Buffer bytes;
    AddTables(dict, bytes);
    AddClass(module, path, bytes);
    VisitChildren(PyDict_GetItemString(dict, "_modules"), path);
  }

  void VisitChildren(PyObject* children, const std::string& path) {
    if (children == nullptr || !PyDict_Check(children)) return;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(children, &at, &key, &value)) {
      const std::string child = ChildPath(path, key);
      if (value == Py_None) {
        state_.items.push_back({child, DigestOf("None"), "None"});
      } else {
        Visit(value, child);
      }
    }
  }

  void AddTables(PyObject* dict, Buffer& bytes) {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(dict, &at, &key, &value)) {
      const std::string_view name = ViewOf(key);
      if (name == "_parameters" || name == "_buffers") AddTensors(bytes, value);
      if (name == "training") bytes.push_back(value == Py_True ? 1 : 0);
    }
  }

  void AddClass(PyObject* value, const std::string& path, const Buffer& bytes) {
    Hasher hasher;
    AddClassName(hasher, Py_TYPE(value));
    hasher.AddField(Bytes(bytes));
    state_.items.push_back({path, hasher.Finish(), Py_TYPE(value)->tp_name});
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
    const Digest digest = writer.FinishOrUntold();
    AppendLittle(bytes, digest.low);
    AppendLittle(bytes, digest.high);
  }

  ModuleState state_;
  std::unordered_map<PyObject*, std::string> modules_;
  std::unordered_map<PyObject*, size_t> tensors_;
};

}  // namespace

ModuleState StructureOf(PyObject* root, const std::string& name) { return StructureWalk().Run(root, name); }

}  // namespace ingot::client
