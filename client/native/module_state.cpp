// SPDX-License-Identifier: Apache-2.0
#include "client/native/module_state.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "client/native/value_digest.h"

namespace ingot::client {
namespace {

std::string Text(PyObject* str) {
  const char* text = PyUnicode_Check(str) ? PyUnicode_AsUTF8(str) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return text;
}

std::string AttributeText(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) {
    PyErr_Clear();
    return "?";
  }
  const std::string text = Text(value);
  Py_DECREF(value);
  return text;
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// The function inside a class attribute: plain, static, class method or property getter.
PyObject* FunctionOf(PyObject* attribute) {
  if (PyFunction_Check(attribute)) return attribute;
  PyObject* inner = nullptr;
  for (const char* name : {"__func__", "fget"}) {
    inner = PyObject_GetAttrString(attribute, name);
    if (inner != nullptr && PyFunction_Check(inner)) break;
    Py_CLEAR(inner);
    PyErr_Clear();
  }
  // The attribute keeps its function alive.
  Py_XDECREF(inner);
  return inner;
}

class Walk {
 public:
  ModuleState Run(PyObject* root, const std::string& name) {
    VisitModule(root, name);
    return std::move(state_);
  }

 private:
  void VisitModule(PyObject* module, const std::string& path) {
    // A module reached twice is aliasing, which the trace can see.
    const auto [it, fresh] = modules_.emplace(module, path);
    if (!fresh) {
      state_.items.push_back({path, DigestOf("same as " + it->second), "same as " + it->second});
      return;
    }
    VisitClass(Py_TYPE(module));
    PyObject** slot = _PyObject_GetDictPtr(module);
    PyObject* dict = slot == nullptr ? nullptr : *slot;
    Buffer bytes;
    std::string text;
    PyObject* children = nullptr;
    if (dict != nullptr) {
      Py_ssize_t at = 0;
      PyObject *key, *value;
      while (PyDict_Next(dict, &at, &key, &value)) {
        const std::string name = Text(key);
        if (name == "_modules") {
          children = value;
        } else if (name == "_parameters" || name == "_buffers") {
          AddTensors(bytes, value);
        } else if (!IsBookkeeping(name, value)) {
          AddAttribute(bytes, text, path, name, value);
        }
      }
    }
    const std::string type = Py_TYPE(module)->tp_name;
    Hasher hasher;
    hasher.AddField(AttributeText(reinterpret_cast<PyObject*>(Py_TYPE(module)), "__module__"));
    hasher.AddField(AttributeText(reinterpret_cast<PyObject*>(Py_TYPE(module)), "__qualname__"));
    hasher.AddField(Bytes(bytes));
    state_.items.push_back({path, hasher.Finish(), type + "(" + text + ")"});
    VisitChildren(children, path);
  }

  void VisitChildren(PyObject* children, const std::string& path) {
    if (children == nullptr || !PyDict_Check(children)) return;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(children, &at, &key, &value)) {
      const std::string child = path.empty() ? Text(key) : path + "." + Text(key);
      if (value == Py_None) {
        state_.items.push_back({child, DigestOf("None"), "None"});
      } else {
        VisitModule(value, child);
      }
    }
  }

  /// Empty hook tables and nn.Module's own switches say nothing; filled ones are digested.
  static bool IsBookkeeping(const std::string& name, PyObject* value) {
    if (!StartsWith(name, "_") || name == "_forward_hooks" || name == "_forward_pre_hooks") {
      return PyDict_Check(value) && PyDict_GET_SIZE(value) == 0 && StartsWith(name, "_");
    }
    static const std::unordered_set<std::string> kNames = {
        "_non_persistent_buffers_set", "_backward_pre_hooks", "_backward_hooks",
        "_is_full_backward_hook", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
        "_forward_pre_hooks_with_kwargs", "_state_dict_hooks", "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"};
    return kNames.count(name) > 0;
  }

  void AddAttribute(Buffer& bytes, std::string& text, const std::string& path,
                    const std::string& name, PyObject* value) {
    const Digest digest = ValueDigest(value, path + "." + name);
    bytes.insert(bytes.end(), name.begin(), name.end());
    AppendLittle(bytes, digest.low);
    AppendLittle(bytes, digest.high);
    if (!StartsWith(name, "_") && text.size() < 160) {
      if (!text.empty()) text += ", ";
      text += name + "=" + ShortText(value);
    }
  }

  /// Objects shared by many modules (a model's config) are digested once.
  Digest ValueDigest(PyObject* value, const std::string& path) {
    const bool shared = Py_REFCNT(value) > 1 && _PyObject_GetDictPtr(value) != nullptr &&
                        !PyFunction_Check(value);
    if (shared) {
      if (const auto it = values_.find(value); it != values_.end()) return it->second;
    }
    ValueWriter writer;
    writer.Write(value);
    for (const std::string& type : writer.opaque()) state_.opaque.push_back(path + ": " + type);
    if (shared) values_.emplace(value, writer.Finish());
    return writer.Finish();
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

  /// torch's classes belong to the torch version, which the environment component names.
  void VisitClass(PyTypeObject* type) {
    if (!classes_.insert(type).second) return;
    const std::string module = AttributeText(reinterpret_cast<PyObject*>(type), "__module__");
    if (module == "torch" || StartsWith(module, "torch.") || module == "builtins") return;
    if (type->tp_bases != nullptr) {
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_bases); ++i) {
        VisitClass(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_bases, i)));
      }
    }
    // The library's wide base classes are covered by the dependency record, which holds only
    // what ran; a user's own class is digested whole so that a difference is found before a trace.
    PyObject* forward = PyDict_GetItemString(type->tp_dict, "forward");
    if (forward == nullptr) return;
    const std::string name = module + "." + AttributeText(reinterpret_cast<PyObject*>(type), "__qualname__");
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(type->tp_dict, &at, &key, &value)) {
      PyObject* function = FunctionOf(value);
      // What __init__ did is in the attributes.
      if (function == nullptr || PyUnicode_CompareWithASCIIString(key, "__init__") == 0) continue;
      ValueWriter writer;
      writer.Write(PyFunction_GET_CODE(function));
      if (PyObject* defaults = PyFunction_GET_DEFAULTS(function)) writer.Write(defaults);
      state_.items.push_back({"code " + name + "." + Text(key), writer.Finish(), ""});
    }
  }

  ModuleState state_;
  std::unordered_map<PyObject*, std::string> modules_;
  std::unordered_map<PyObject*, Digest> values_;
  std::unordered_map<PyObject*, size_t> tensors_;
  std::unordered_set<PyTypeObject*> classes_;
};

}  // namespace

ModuleState StateOf(PyObject* root, const std::string& name) { return Walk().Run(root, name); }

}  // namespace ingot::client
