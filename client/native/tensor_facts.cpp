// SPDX-License-Identifier: Apache-2.0
#include "client/native/tensor_facts.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include "client/native/dataclass_fields.h"
#include "client/native/meta_results.h"
#include "client/native/origin.h"
#include "client/native/recorder.h"

namespace ingot::client {

// By type, where torch's own check asks the object for its class, which runs a user's code.
bool IsTensor(PyObject* value) { return PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(THPVariableClass)); }

bool IsPlainTensor(PyObject* value) { return THPVariable_CheckExact(value); }

bool HasOwnAttributes(PyObject* object) {
  PyObject* const* place = _PyObject_GetDictPtr(object);
  PyObject* dict = place == nullptr ? nullptr : *place;
  if (dict == nullptr || PyDict_GET_SIZE(dict) == 0) return false;
  PyObject* fields = FieldsOf(Py_TYPE(object));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict, &at, &key, &value)) {
    if (fields != nullptr && PySequence_Contains(fields, key) == 1) continue;
    const std::string_view name = ViewOf(key);
    const bool is_mark = name.starts_with("_ingot_") || name.find("_dynamo_") != name.npos || name == "_specialize_on";
    if (!is_mark) return true;
  }
  return false;
}

std::array<PyTypeObject*, 2> TensorTypes() {
  return {reinterpret_cast<PyTypeObject*>(THPVariableClass), reinterpret_cast<PyTypeObject*>(ParameterClass)};
}

bool RequiresGrad(PyObject* tensor) { return THPVariable_Unpack(tensor).requires_grad(); }

uint64_t MetadataOf(PyObject* value) {
  const at::Tensor& tensor = THPVariable_Unpack(value);
  uint64_t hash = static_cast<uint64_t>(tensor.scalar_type());
  const auto add = [&hash](uint64_t number) { hash = (hash ^ number) * 0x9E3779B97F4A7C15ull + (hash >> 29); };
  add(static_cast<uint64_t>(tensor.layout()) << 16 | static_cast<uint64_t>(tensor.device().type()) << 8 |
      static_cast<uint64_t>(tensor.requires_grad()));
  if (tensor.layout() != at::kStrided) return hash;
  add(static_cast<uint64_t>(tensor.dim()));
  for (const int64_t size : tensor.sizes()) add(static_cast<uint64_t>(size));
  for (const int64_t stride : tensor.strides()) add(static_cast<uint64_t>(stride));
  add(tensor.is_inference() ? 1 : 0);
  return hash;
}

bool IsTorchAtom(PyObject* value) {
  return THPDtype_Check(value) || THPDevice_Check(value) || THPLayout_Check(value) || THPMemoryFormat_Check(value);
}

bool IsInOperator() { return Recorder::IsInsideOperator(); }

bool IsInMetaKernel() { return MetaKernels::IsAsking(); }

}  // namespace ingot::client
