// SPDX-License-Identifier: Apache-2.0
#include "client/native/tensor_facts.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include "client/native/meta_results.h"
#include "client/native/recorder.h"

namespace ingot::client {

bool IsTensor(PyObject* value) { return THPVariable_Check(value); }

bool IsPlainTensor(PyObject* value) { return THPVariable_CheckExact(value); }

bool RequiresGrad(PyObject* tensor) { return THPVariable_Unpack(tensor).requires_grad(); }

bool IsTorchAtom(PyObject* value) {
  return THPDtype_Check(value) || THPDevice_Check(value) || THPLayout_Check(value) || THPMemoryFormat_Check(value);
}

bool IsInOperator() { return Recorder::IsInsideOperator(); }

bool IsInMetaKernel() { return MetaKernels::IsAsking(); }

}  // namespace ingot::client
