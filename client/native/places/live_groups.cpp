// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/live_groups.h"
#include "client/native/cpython/drop_error.h"

#include <utility>

namespace ingot::client {
namespace {

LiveGroups& Table() {
  static auto* table = new LiveGroups;
  return *table;
}

/// The text of `str(object.name)`, or nullopt.
std::optional<std::string> TextOf(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  PyObject* text = value == nullptr ? nullptr : PyObject_Str(value);
  const char* utf8 = text == nullptr ? nullptr : PyUnicode_AsUTF8(text);
  std::optional<std::string> found;
  if (utf8 != nullptr) found = utf8;
  DropError();
  Py_XDECREF(text);
  Py_XDECREF(value);
  return found;
}

bool IsOfDistributed(PyTypeObject* type, std::string_view name) {
  // As `class torch.distributed.distributed_c10d.ProcessGroup` says of itself.
  const auto module = TextOf(reinterpret_cast<PyObject*>(type), "__module__");
  const auto bare = TextOf(reinterpret_cast<PyObject*>(type), "__qualname__");
  return bare == name && module &&
         (module->starts_with("torch.distributed") || module->starts_with("torch._C._distributed"));
}

std::optional<std::string> IdentityOfMesh(PyObject* mesh) {
  std::string text = "mesh";
  PyObject* ranks = PyObject_GetAttrString(mesh, "mesh");
  PyObject* list = ranks == nullptr ? nullptr : PyObject_CallMethod(ranks, "tolist", nullptr);
  PyObject* shown = list == nullptr ? nullptr : PyObject_Str(list);
  const char* utf8 = shown == nullptr ? nullptr : PyUnicode_AsUTF8(shown);
  const bool known = utf8 != nullptr;
  if (known) text += std::string(" ") + utf8;
  DropError();
  Py_XDECREF(shown);
  Py_XDECREF(list);
  Py_XDECREF(ranks);
  if (!known) return std::nullopt;
  for (const char* name : {"device_type", "mesh_dim_names"}) {
    const auto value = TextOf(mesh, name);
    if (!value) return std::nullopt;
    text += " " + *value;
  }
  PyObject* groups = PyObject_GetAttrString(mesh, "_dim_group_names");
  for (Py_ssize_t i = 0; groups != nullptr && PyList_Check(groups) && i < PyList_GET_SIZE(groups); ++i) {
    const char* name = PyUnicode_AsUTF8(PyList_GET_ITEM(groups, i));
    const std::string* identity = name == nullptr ? nullptr : IdentityOfGroup(name);
    text += "; " + (identity == nullptr ? std::string("no group") : *identity);
  }
  DropError();
  Py_XDECREF(groups);
  return text;
}

}  // namespace

void SetLiveGroups(LiveGroups groups) { Table() = std::move(groups); }

const std::string* IdentityOfGroup(std::string_view name) {
  if (Table().empty()) return nullptr;
  const auto at = Table().find(std::string(name));
  return at == Table().end() ? nullptr : &at->second;
}

std::optional<std::string> IdentityOfGroupObject(PyObject* object) {
  if (Table().empty()) return std::nullopt;
  if (IsOfDistributed(Py_TYPE(object), "DeviceMesh")) return IdentityOfMesh(object);
  if (!IsOfDistributed(Py_TYPE(object), "ProcessGroup")) return std::nullopt;
  const auto name = TextOf(object, "group_name");
  const std::string* identity = name ? IdentityOfGroup(*name) : nullptr;
  if (identity == nullptr) return std::nullopt;
  return "process group " + *identity;
}

}  // namespace ingot::client
