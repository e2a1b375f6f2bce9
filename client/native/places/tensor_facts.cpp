// SPDX-License-Identifier: Apache-2.0
#include "client/native/places/tensor_facts.h"

#include <ATen/SparseTensorImpl.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "client/native/cpython/origin.h"
#include "client/native/places/dataclass_fields.h"
#include "client/native/trace/meta_results.h"
#include "client/native/trace/recorder.h"

namespace ingot::client {
namespace {

/// Mixes numbers in the order in which they come; fast, since tensors are asked at every call.
class Mixer {
 public:
  void Add(uint64_t number) {
    low_ = (low_ ^ number) * 0x9E3779B97F4A7C15ull;
    low_ ^= low_ >> 29;
    high_ = (high_ ^ number) * 0xC2B2AE3D27D4EB4Full;
    high_ ^= high_ >> 32;
  }
  template <typename Numbers>
  void AddAll(const Numbers& numbers) {
    Add(numbers.size());
    for (const int64_t one : numbers) Add(static_cast<uint64_t>(one));
  }
  Digest Finish() const { return {low_, high_}; }

 private:
  uint64_t low_ = 1, high_ = 2;
};

bool HasSizes(const at::Tensor& tensor) {
  return !tensor.is_nested() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

void AddType(const at::Tensor& tensor, Mixer& mixer) { mixer.Add(static_cast<uint64_t>(tensor.scalar_type())); }

void AddDevice(const at::Tensor& tensor, Mixer& mixer) {
  mixer.Add(static_cast<uint64_t>(tensor.device().type()) << 8 | static_cast<uint8_t>(tensor.device().index()));
}

/// Not asked of the tensor, which would be an operator to whoever listens.
void AddLayout(const at::Tensor& tensor, Mixer& mixer) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  mixer.Add(static_cast<uint64_t>(tensor.layout()));
  if (!impl->key_set().has_all(c10::sparse_ks) || impl->key_set().has(c10::DispatchKey::Python)) return;
  const auto* sparse = static_cast<const at::SparseTensorImpl*>(impl);
  mixer.Add(static_cast<uint64_t>(sparse->sparse_dim()) << 1 | (sparse->coalesced() ? 1 : 0));
}

void AddSizes(const at::Tensor& tensor, Mixer& mixer) {
  if (HasSizes(tensor)) mixer.AddAll(tensor.sizes());
}

void AddStrides(const at::Tensor& tensor, Mixer& mixer) {
  if (HasSizes(tensor) && tensor.layout() == at::kStrided) mixer.AddAll(tensor.strides());
}

/// Which kernels the dispatcher takes for it: it may be conjugated or negated when it is read, zero throughout,
/// quantized, or made in inference mode.
void AddKeys(const at::Tensor& tensor, Mixer& mixer) { mixer.Add(tensor.key_set().raw_repr()); }

void AddGrad(const at::Tensor& tensor, Mixer& mixer) {
  mixer.Add((tensor.requires_grad() ? 1 : 0) | (tensor.is_leaf() ? 2 : 0) | (tensor.retains_grad() ? 4 : 0));
}

struct TensorFact {
  std::string_view getters, methods;  ///< separated by blanks
  bool says_sizes;
  void (*add)(const at::Tensor& tensor, Mixer& mixer);
};

/// What a program can learn of a tensor without an operator that a recorder sees. A getter that is in no row is
/// refused.
constexpr TensorFact kFacts[] = {
    {"dtype itemsize is_quantized", "is_floating_point is_complex is_signed element_size type", false, AddType},
    {"device is_cuda is_cpu is_xpu is_mps is_meta is_xla is_vulkan is_ipu is_hpu is_mtia is_maia", "get_device", false,
     AddDevice},
    {"layout is_sparse is_sparse_csr is_mkldnn is_nested", "is_coalesced", false, AddLayout},
    {"ndim", "dim ndimension", false, AddSizes},
    {"shape nbytes", "size numel nelement len __len__", true, AddSizes},
    {"", "stride is_contiguous", true, AddStrides},
    {"", "is_conj is_neg _is_zerotensor is_inference", false, AddKeys},
    {"requires_grad is_leaf grad_fn retains_grad", "", false, AddGrad},
};
/// Operators make what these give.
constexpr std::string_view kViews = "T mT H mH real imag data";
/// Getters that a program may not use, or only of some tensors; none says sizes.
constexpr std::string_view kOthersWithoutSizes = "grad _grad output_nr _version _backward_hooks name";
/// Functions that say nothing of a tensor, or of its elements, which the recorder guards.
constexpr std::string_view kOtherAnswers =
    "item __bool__ __int__ __float__ __index__ is_nonzero is_tensor is_grad_enabled _is_view can_cast "
    "__torch_function__ is_pinned is_shared requires_grad_ tolist __contains__ is_distributed __complex__ "
    "promote_types _nnpack_available";

bool Holds(std::string_view names, std::string_view name) {
  for (size_t at = names.find(name); at != names.npos && !name.empty(); at = names.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || names[at - 1] == ' ') && (end == names.size() || names[end] == ' ')) return true;
  }
  return false;
}

const TensorFact* FactOf(std::string_view name, std::string_view TensorFact::* column) {
  const auto* found = std::ranges::find_if(kFacts, [&](const TensorFact& fact) { return Holds(fact.*column, name); });
  return found == std::end(kFacts) ? nullptr : found;
}

}  // namespace

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
    if (!IsMark(key)) return true;
  }
  return false;
}

bool HasTextNames(PyObject* object) {
  PyObject* const* place = _PyObject_GetDictPtr(object);
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (place != nullptr && *place != nullptr && PyDict_Next(*place, &at, &key, &value)) {
    if (!PyUnicode_CheckExact(key)) return false;
  }
  return true;
}

bool IsMark(PyObject* name) {
  const std::string_view text = ViewOf(name);
  return text.starts_with("_ingot_") || text.starts_with("_dynamo_") || text == "_specialize_on" ||
         text == "_has_dynamo_dim_marking";
}

std::array<PyTypeObject*, 2> TensorTypes() {
  return {reinterpret_cast<PyTypeObject*>(THPVariableClass), reinterpret_cast<PyTypeObject*>(ParameterClass)};
}

bool RequiresGrad(PyObject* tensor) { return THPVariable_Unpack(tensor).requires_grad(); }

Digest MetadataOf(PyObject* value) {
  const at::Tensor& tensor = THPVariable_Unpack(value);
  Mixer mixer;
  for (const TensorFact& fact : kFacts) fact.add(tensor, mixer);
  return mixer.Finish();
}

Digest GradOf(PyObject* tensor) {
  Mixer mixer;
  AddGrad(THPVariable_Unpack(tensor), mixer);
  return mixer.Finish();
}

bool IsLeaf(PyObject* tensor) { return THPVariable_Unpack(tensor).is_leaf(); }

bool IsPlainlyRead(PyObject* tensor) {
  const at::Tensor& one = THPVariable_Unpack(tensor);
  return one.layout() == at::kStrided && !one.is_conj() && !one.is_neg() && !one._is_zerotensor();
}

bool HasPlainMetadata(PyObject* tensor) { return HasSizes(THPVariable_Unpack(tensor)); }

bool IsTensorProperty(std::string_view name) {
  return FactOf(name, &TensorFact::getters) != nullptr || Holds(kViews, name);
}

bool IsPropertyWithoutSizes(std::string_view name) {
  const TensorFact* fact = FactOf(name, &TensorFact::getters);
  return fact != nullptr ? !fact->says_sizes : Holds(kViews, name) || Holds(kOthersWithoutSizes, name);
}

bool AnswersWithoutSizes(std::string_view name) {
  const TensorFact* fact = FactOf(name, &TensorFact::methods);
  return fact != nullptr ? !fact->says_sizes : Holds(kOtherAnswers, name);
}

bool IsToldByGuards(std::string_view method) {
  // Of an element or two, which the recorder guards.
  return FactOf(method, &TensorFact::methods) != nullptr ||
         Holds("is_same_size item is_nonzero equal allclose _local_scalar_dense", method);
}

bool IsTorchAtom(PyObject* value) {
  return THPDtype_Check(value) || THPDevice_Check(value) || THPLayout_Check(value) || THPMemoryFormat_Check(value);
}

bool IsInOperator() { return Recorder::IsInsideOperator(); }

bool IsInMetaKernel() { return MetaKernels::IsAsking(); }

}  // namespace ingot::client
