// SPDX-License-Identifier: Apache-2.0
#include "client/native/effects/effect_table.h"

#include <algorithm>

#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/origin.h"
#include "client/native/effects/escapes.h"
#include "client/native/effects/operator_names.h"

namespace ingot::client {
namespace {

struct Group {
  Effect effect;
  std::string_view owner;  ///< with its dot; empty for builtins
  std::string_view names;  ///< separated by blanks; "*" is any, kOperators below
};

/// Names that an operator of PyTorch's has.
constexpr std::string_view kOperators = "::";

// Grouped by what they belong to, the first that has a name counts. A name that is not here is refused, so an entry
// says: somebody has looked at what this reads, writes and returns. All names at once have only types whose objects
// never change and modules of functions of values.
constexpr Group kGroups[] = {
    // -- builtins
    {Effect::kPure, "", "abs all any bin chr divmod hex max min oct ord pow round sorted sum aiter"},
    {Effect::kPrint, "", "print"},
    {Effect::kClass, "", "callable isinstance issubclass"},
    {Effect::kAddress, "", "id"},
    {Effect::kHash, "", "hash"},
    {Effect::kText, "", "ascii format repr"},
    {Effect::kLength, "", "len"},
    {Effect::kGetAttribute, "", "getattr hasattr"},
    {Effect::kSetAttribute, "", "setattr"},
    {Effect::kDeleteAttribute, "", "delattr"},
    {Effect::kIterate, "", "iter"},
    {Effect::kNext, "", "next"},
    {Effect::kImport, "", "__import__"},
    {Effect::kMakeClass, "", "__build_class__"},
    {Effect::kVars, "", "vars"},
    {Effect::kGlobals, "", "globals"},
    {Effect::kHash, "str.", "__hash__"},
    {Effect::kHash, "bytes.", "__hash__"},
    {Effect::kHash, "tuple.", "__hash__"},
    {Effect::kHash, "frozenset.", "__hash__"},
    {Effect::kHash, "NoneType.", "__hash__"},
    {Effect::kHash, "object.", "__hash__"},
    {Effect::kHash, "type.", "__hash__"},
    {Effect::kText, "str.", "format format_map __mod__"},
    {Effect::kText, "object.", "__str__ __repr__ __format__"},
    // What text takes up grows when native code asks for it in UTF-8.
    {Effect::kRefused, "str.", "__sizeof__"},
    // -- values without state
    {Effect::kPure, "int.", "*"},
    {Effect::kPure, "float.", "*"},
    {Effect::kPure, "complex.", "*"},
    {Effect::kPure, "bool.", "*"},
    {Effect::kPure, "str.", "*"},
    {Effect::kPure, "bytes.", "*"},
    {Effect::kPure, "tuple.", "*"},
    {Effect::kPure, "frozenset.", "*"},
    {Effect::kPure, "range.", "*"},
    {Effect::kPure, "slice.", "*"},
    {Effect::kPure, "NoneType.", "*"},
    {Effect::kPure, "torch.Size.", "*"},
    {Effect::kPure, "torch.dtype.", "*"},
    {Effect::kPure, "torch.device.", "*"},
    {Effect::kPure, "torch.finfo.", "*"},
    {Effect::kPure, "torch.iinfo.", "*"},
    {Effect::kPure, "re.Pattern.", "*"},
    {Effect::kPure, "re.Match.", "*"},
    {Effect::kPure, "datetime.timedelta.", "*"},
    {Effect::kPure, "math.", "*"},
    {Effect::kPure, "cmath.", "*"},
    {Effect::kPure, "_string.", "formatter_field_name_split formatter_parser"},
    {Effect::kPure, "_bisect.", "bisect_left bisect_right"},
    {Effect::kPure, "unicodedata.", "*"},
    {Effect::kPure, "_sre.", "*"},
    {Effect::kPure, "_struct.", "pack unpack calcsize unpack_from"},
    {Effect::kPure, "binascii.", "*"},
    {Effect::kPure, "_json.", "encode_basestring_ascii encode_basestring scanstring"},
    // -- containers
    {Effect::kWhole, "list.", "copy __add__ __mul__ __rmul__ __iter__ __reversed__"},
    {Effect::kPure, "list.", "count index __eq__ __ne__ __lt__ __gt__ __le__ __ge__"},
    {Effect::kText, "list.", "__repr__"},
    {Effect::kLength, "list.", "__len__"},
    {Effect::kGetItem, "list.", "__getitem__"},
    {Effect::kSetItem, "list.", "__setitem__"},
    {Effect::kDeleteItem, "list.", "__delitem__"},
    {Effect::kContains, "list.", "__contains__"},
    {Effect::kAdd, "list.", "append extend insert clear __iadd__"},
    {Effect::kChange, "list.", "pop remove reverse sort __imul__"},
    {Effect::kFill, "list.", "__init__"},
    {Effect::kGetEntry, "dict.", "get"},
    {Effect::kWhole, "dict.", "keys items values copy __iter__ __or__ __ror__ __reversed__"},
    {Effect::kPure, "dict.", "fromkeys __eq__ __ne__"},
    {Effect::kText, "dict.", "__repr__"},
    {Effect::kFill, "dict.", "__init__"},
    {Effect::kLength, "dict.", "__len__"},
    {Effect::kGetItem, "dict.", "__getitem__"},
    {Effect::kSetItem, "dict.", "__setitem__"},
    {Effect::kDeleteItem, "dict.", "__delitem__"},
    {Effect::kContains, "dict.", "__contains__"},
    {Effect::kAdd, "dict.", "update clear __ior__"},
    {Effect::kChange, "dict.", "pop popitem setdefault"},
    {Effect::kWhole, "set.",
     "copy difference intersection union symmetric_difference isdisjoint issubset issuperset "
     "__contains__ "
     "__len__ __iter__ __and__ __or__ __sub__ __xor__ __eq__ __ne__ __le__ __ge__ __lt__ __gt__"},
    {Effect::kFill, "set.", "__init__"},
    {Effect::kAdd, "set.", "add discard update clear difference_update intersection_update __ior__"},
    {Effect::kChange, "set.", "pop remove symmetric_difference_update __iand__ __isub__ __ixor__"},
    {Effect::kWhole, "collections.deque.", "copy __iter__ __len__ __add__ __reversed__"},
    {Effect::kPure, "collections.deque.", "count index __contains__ __eq__"},
    {Effect::kFill, "collections.deque.", "__init__"},
    {Effect::kGetItem, "collections.deque.", "__getitem__"},
    {Effect::kSetItem, "collections.deque.", "__setitem__"},
    {Effect::kAdd, "collections.deque.", "append appendleft extend extendleft clear __iadd__"},
    {Effect::kChange, "collections.deque.", "pop popleft remove reverse rotate insert"},
    {Effect::kWhole, "collections.OrderedDict.", "keys items values copy __iter__ __reversed__"},
    {Effect::kPure, "collections.OrderedDict.", "__eq__"},
    {Effect::kText, "collections.OrderedDict.", "__repr__"},
    {Effect::kFill, "collections.OrderedDict.", "__init__"},
    {Effect::kSetItem, "collections.OrderedDict.", "__setitem__"},
    {Effect::kDeleteItem, "collections.OrderedDict.", "__delitem__"},
    {Effect::kAdd, "collections.OrderedDict.", "update clear"},
    {Effect::kChange, "collections.OrderedDict.", "pop popitem setdefault move_to_end"},
    {Effect::kPure, "collections.OrderedDict.", "fromkeys"},
    {Effect::kWhole, "collections.defaultdict.", "copy"},
    {Effect::kText, "collections.defaultdict.", "__repr__"},
    {Effect::kFill, "collections.defaultdict.", "__init__"},
    {Effect::kPure, "dict_keys.", "*"},
    {Effect::kPure, "dict_values.", "*"},
    {Effect::kPure, "dict_items.", "*"},
    {Effect::kPure, "odict_keys.", "*"},
    {Effect::kPure, "odict_values.", "*"},
    {Effect::kPure, "odict_items.", "*"},
    {Effect::kFill, "_collections.", "_count_elements"},
    {Effect::kPure, "bytearray.", "decode hex find count index"},
    {Effect::kWhole, "array.array.", "tolist tobytes count index __getitem__ __len__ __iter__"},
    // -- objects and classes
    {Effect::kGetAttribute, "object.", "__getattribute__"},
    {Effect::kGetAttribute, "type.", "__getattribute__"},
    {Effect::kGetAttribute, "module.", "__getattribute__"},
    {Effect::kSetAttribute, "object.", "__setattr__"},
    {Effect::kDeleteAttribute, "object.", "__delattr__"},
    {Effect::kSetAttribute, "type.", "__setattr__"},
    {Effect::kNothing, "object.", "__init__ __init_subclass__ __subclasshook__ __class__"},
    {Effect::kIdentity, "object.", "__eq__ __ne__"},
    {Effect::kReduce, "object.", "__reduce__ __reduce_ex__ __getstate__"},
    {Effect::kAllocate, "object.", "__new__"},
    {Effect::kNothing, "type.", "__init__ __new__ __prepare__ __or__ __ror__"},
    {Effect::kTypeHierarchy, "type.", "mro __instancecheck__ __subclasscheck__"},
    {Effect::kText, "BaseException.", "__str__ __repr__"},
    {Effect::kFill, "BaseException.", "__init__ with_traceback add_note"},
    {Effect::kFill, "Exception.", "__init__"},
    {Effect::kPure, "super.", "__init__"},
    {Effect::kCallsSelf, "function.", "__call__ __get__"},
    {Effect::kCallsSelf, "method.", "__call__"},
    {Effect::kConstruct, "type.", "__call__"},
    {Effect::kNothing, "function.", "__get__"},
    {Effect::kBind, "property.", "__get__"},
    {Effect::kNothing, "property.", "getter setter deleter"},
    {Effect::kRegistry, "_abc.", "_abc_instancecheck _abc_subclasscheck"},
    {Effect::kNothing, "_abc.", "_abc_init"},
    {Effect::kBind, "classmethod.", "__get__"},
    {Effect::kBind, "staticmethod.", "__get__"},
    {Effect::kNothing, "types.GenericAlias.", "*"},
    {Effect::kPure, "mappingproxy.", "*"},
    // -- functions
    {Effect::kPure, "_functools.", "reduce cmp_to_key"},
    {Effect::kPure, "_operator.",
     "abs add and_ eq floordiv ge gt index inv invert le lshift lt matmul mod mul ne neg not_ or_ "
     "pos pow rshift sub truediv "
     "truth xor concat countOf indexOf length_hint"},
    {Effect::kIdentity, "_operator.", "is_ is_not"},
    {Effect::kGetItem, "_operator.", "getitem"},
    {Effect::kSetItem, "_operator.", "setitem"},
    {Effect::kDeleteItem, "_operator.", "delitem"},
    {Effect::kContains, "_operator.", "contains"},
    {Effect::kPure, "itertools.", "*"},
    {Effect::kNext, "generator.", "send throw close __next__ __iter__"},
    {Effect::kContext, "_contextvars.ContextVar.", "get"},
    {Effect::kSetContext, "_contextvars.ContextVar.", "set reset"},
    {Effect::kWarn, "_warnings.", "warn warn_explicit"},
    {Effect::kNothing, "_warnings.", "_filters_mutated"},
    {Effect::kPure, "sys.", "intern"},
    {Effect::kNothing, "sys.", "is_finalizing"},
    {Effect::kReplayedQuery, "sys.", "getrecursionlimit"},
    {Effect::kReplayedQuery, "_thread.", "get_ident"},
    {Effect::kRelease, "_thread.lock.", "release __exit__"},
    {Effect::kRelease, "_thread.RLock.", "release __exit__"},
    {Effect::kAcquire, "_thread.lock.", "acquire __enter__"},
    {Effect::kAcquire, "_thread.RLock.", "acquire __enter__"},
    {Effect::kPure, "posix.", "fspath fsencode fsdecode"},
    // -- numpy: its numbers are values; arrays from outside are read by content
    {Effect::kArray, "numpy.ufunc.", "reduce accumulate outer __call__"},
    {Effect::kPure, "numpy.generic.", "*"},
    {Effect::kPure, "numpy.", "float32 float64 int64 int32 dtype array asarray arange zeros ones"},
    {Effect::kWhole, "numpy.ndarray.", "item tolist copy astype reshape __getitem__ __len__ __iter__"},
    {Effect::kArray, "numpy.ndarray.", "sum mean min max all any"},
    // Getters, of which all is in the content.
    {Effect::kWhole, "numpy.ndarray.", "shape strides ndim size itemsize nbytes dtype T mT real imag flat"},
    // -- PyTorch's operators
    // No operator, though there is one of the name; or one that says where a tensor lies, which is another place in
    // every call.
    {Effect::kRefused, "torch._C.TensorBase.", "is_set_to storage_offset"},
    {Effect::kRefused, "torch._VariableFunctions.", "from_file _has_compatible_shallow_copy_type"},
    {Effect::kMakeTensor, "torch._C.TensorBase.", "new_tensor new __new__"},
    {Effect::kToList, "torch._C.TensorBase.", "tolist"},
    {Effect::kOperator, "torch._C.TensorBase.", kOperators},
    // Each runs an operator of another name, or reads the one element as `item` does.
    {Effect::kOperator, "torch._C.TensorBase.",
     "__add__ __radd__ __iadd__ __sub__ __isub__ __mul__ __rmul__ __imul__ __div__ __truediv__ __idiv__ __floordiv__ "
     "__ifloordiv__ __mod__ __imod__ __matmul__ __invert__ __rand__ __ror__ __rxor__ "
     "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __getitem__ __setitem__ "
     "__bool__ __nonzero__ __int__ __long__ __float__ __complex__ __index__"},
    // The operator is `to`.
    {Effect::kOperator, "torch._C.TensorBase.",
     "bfloat16 bool byte cdouble cfloat char cpu cuda double float half int long short type"},
    // What the guards of inputs hold.
    {Effect::kOperator, "torch._C.TensorBase.", "__len__ element_size ndimension nelement"},
    {Effect::kMakeTensor, "torch._VariableFunctions.", "tensor as_tensor asarray"},
    {Effect::kOperator, "torch._VariableFunctions.", kOperators},
    // Old names of `mm` and `addmm`.
    {Effect::kOperator, "torch._VariableFunctions.", "dsmm hsmm saddmm spmm"},
    {Effect::kOperator, "torch._C._nn.", kOperators},
    {Effect::kPure, "torch._C._nn.", "_parse_to"},
    {Effect::kOperator, "torch._C._fft.", kOperators},
    {Effect::kOperator, "torch._C._linalg.", kOperators},
    {Effect::kOperator, "torch._C._special.", kOperators},
    {Effect::kOperator, "torch._C._sparse.", kOperators},
    // What torch.ops holds, which are operators all.
    {Effect::kOperator, "torch._ops.*", "*"},
    {Effect::kApply, "torch._C._FunctionBase.", "apply"},
    {Effect::kOperator, "torch._C.", "_jit_invoke _PyObjectDispatchFunc"},
    // -- settings of the thread that the shape or the key of a call holds, or that have one value
    // where a recording runs
    {Effect::kState, "torch.",
     "get_default_dtype is_grad_enabled is_inference_mode_enabled is_autocast_enabled "
     "is_autocast_cpu_enabled"},
    {Effect::kState, "torch._C.",
     "get_default_dtype is_grad_enabled is_inference_mode_enabled is_autocast_enabled "
     "_get_tracing_state _is_tracing "
     "_is_torch_function_enabled _is_torch_function_mode_enabled _is_torch_function_all_disabled "
     "_len_torch_function_stack "
     "_len_torch_dispatch_stack _has_torch_function _has_torch_function_unary "
     "_has_torch_function_variadic _get_dispatch_mode "
     "_is_any_autocast_enabled _are_functorch_transforms_active "
     "_dispatch_tls_is_dispatch_key_included _dispatch_tls_is_dispatch_key_excluded"},
    // The recorder refuses transforms by their name, at the first operator in them.
    {Effect::kNothing, "torch._C._functorch.",
     "_grad_increment_nesting _grad_decrement_nesting _vmap_increment_nesting _vmap_decrement_nesting "
     "_jvp_increment_nesting _jvp_decrement_nesting _func_increment_nesting _func_decrement_nesting "
     "_wrap_for_grad _unwrap_for_grad _add_batch_dim _remove_batch_dim _wrap_functional_tensor "
     "_unwrap_functional_tensor"},
    // Of a tensor that no transform has made, the tensor.
    {Effect::kNothing, "torch._C._functorch.", "unwrap_if_dead"},
    {Effect::kContent, "torch._C._distributed_c10d.", "size rank name group_name group_desc"},
    // Collectives are operators, and what they are told is made for them.
    {Effect::kOperator, "torch._C._distributed_c10d.",
     "__init__ allgather allgather_coalesced allgather_into_tensor_coalesced _allgather_base allreduce "
     "allreduce_coalesced alltoall alltoall_base barrier broadcast gather recv recv_anysource reduce reduce_scatter "
     "_reduce_scatter_base reduce_scatter_tensor_coalesced scatter send wait _resolve_process_group"},
    {Effect::kReplayedQuery, "torch.",
     "is_autocast_cache_enabled get_autocast_dtype get_autocast_cpu_dtype get_autocast_gpu_dtype "
     "is_anomaly_enabled get_num_threads "
     "get_num_interop_threads"},
    {Effect::kReplayedQuery, "torch._C.",
     "_get_default_device _get_cudnn_enabled _get_mkldnn_enabled _get_deterministic_algorithms "
     "_get_deterministic_algorithms_warn_only _get_math_sdp_enabled _get_flash_sdp_enabled "
     "_get_mem_efficient_sdp_enabled "
     "_get_cudnn_sdp_enabled _get_overrideable_sdp_enabled _get_cublas_allow_tf32 "
     "_get_cudnn_allow_tf32 _cuda_isInBadFork _cuda_isCurrentStreamCapturing "
     "_cuda_getDeviceCount _cuda_isDriverSufficient _cuda_getCompiledVersion _cuda_hasPrimaryContext "
     "_get_privateuse1_backend_name _accelerator_getAccelerator _get_float32_matmul_precision "
     "get_num_threads"},
    // What these switch off is on again when the call ends, which is looked at then.
    {Effect::kNothing, "torch._C.",
     "_set_grad_enabled _push_on_torch_function_stack _pop_torch_function_stack "
     "_log_api_usage_once _set_torch_function_mode"},
    {Effect::kMode, "torch._C.", "__enter__ __exit__"},
    {Effect::kPure, "torch._C.", "_get_tensor_type_dummy _jit_is_script_object parse_schema"},
};

constexpr Group kTypeGroups[] = {
    {Effect::kPure, "",
     "bool bytearray bytes complex dict enumerate filter float frozenset int list map "
     "object range reversed set slice "
     "str tuple zip property staticmethod classmethod mappingproxy"},
    {Effect::kPure, "weakref.", "ReferenceType"},
    {Effect::kNothing, "", "type super method"},
    {Effect::kPure, "collections.", "deque OrderedDict defaultdict"},
    {Effect::kPure, "functools.", "partial"},
    {Effect::kPure, "itertools.",
     "accumulate chain combinations combinations_with_replacement compress count cycle dropwhile "
     "filterfalse groupby islice pairwise permutations product repeat starmap takewhile "
     "zip_longest"},
    {Effect::kPure, "operator.", "attrgetter itemgetter methodcaller"},
    {Effect::kPure, "types.", "SimpleNamespace GenericAlias MappingProxyType UnionType"},
    {Effect::kPure, "torch.", "Size device dtype finfo iinfo"},
    {Effect::kPure, "datetime.", "timedelta date time datetime"},
    {Effect::kPure, "array.", "array"},
    {Effect::kPure, "numpy.", "float32 float64 float16 int64 int32 int16 int8 uint8 bool_ dtype"},
    {Effect::kNothing, "torch._C.",
     "DisableTorchFunction DisableTorchFunctionSubclass _DisableTorchDispatch _InferenceMode "
     "_AutoDispatchBelowAutograd"},
};

bool Holds(std::string_view names, std::string_view name) {
  if (names == "*") return true;
  if (names == kOperators) return IsOperatorName(name);
  for (size_t at = names.find(name); at != names.npos; at = names.find(name, at + 1)) {
    const bool begins = at == 0 || names[at - 1] == ' ';
    const size_t end = at + name.size();
    if (begins && (end == names.size() || names[end] == ' ')) return true;
  }
  return false;
}

template <size_t N>
Effect Find(const Group (&groups)[N], std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view owner = dot == name.npos ? std::string_view() : name.substr(0, dot + 1);
  const std::string_view last = name.substr(owner.size());
  for (const Group& group : groups) {
    const bool is_owner = group.owner.ends_with('*') ? owner.starts_with(group.owner.substr(0, group.owner.size() - 1))
                                                     : group.owner == owner;
    if (is_owner && Holds(group.names, last)) return group.effect;
  }
  return Effect::kRefused;
}

std::string Joined(std::string_view owner, std::string_view name) {
  std::string out(owner);
  if (!out.empty()) out += '.';
  return out += name;
}

/// `collections.deque`; types of builtins without their module.
std::string OwnerName(PyTypeObject* type) {
  const std::string_view module = ModuleOf(type);
  return module == "builtins" ? std::string(QualnameOf(type)) : Joined(module, QualnameOf(type));
}

const PyMethodDef* DefinitionOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  const bool is_method = Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyClassMethodDescr_Type;
  return is_method ? reinterpret_cast<PyMethodDescrObject*>(callable)->d_method : nullptr;
}

/// The class that brought a method which is bound to `self`.
PyTypeObject* DefiningType(PyTypeObject* type, const PyMethodDef* definition, PyTypeObject* otherwise) {
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* entry = DictOf(base) == nullptr ? nullptr : PyDict_GetItemString(DictOf(base), definition->ml_name);
    if (entry != nullptr && DefinitionOf(entry) == definition) return base;
    if (entry != nullptr && PyObject_TypeCheck(entry, &PyStaticMethod_Type)) return base;
  }
  return otherwise;
}

std::string NameOfFunction(PyObject* callable) {
  const auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  const char* name = function->m_ml->ml_name;
  PyObject* self = PyCFunction_GET_SELF(callable);
  if (self != nullptr && PyType_Check(self)) {
    // A class method, or a method of the class's own class.
    PyTypeObject* of_meta = DefiningType(Py_TYPE(self), function->m_ml, reinterpret_cast<PyTypeObject*>(self));
    return Joined(OwnerName(DefiningType(reinterpret_cast<PyTypeObject*>(self), function->m_ml, of_meta)), name);
  }
  if (self != nullptr && PyModule_Check(self)) {
    const char* module = PyModule_GetName(self);
    if (module == nullptr) DropError();
    const std::string_view text = module == nullptr ? "?" : module;
    return text == "builtins" ? std::string(name) : Joined(text, name);
  }
  if (function->m_module != nullptr && PyUnicode_Check(function->m_module)) {
    const std::string_view module = ViewOf(function->m_module);
    const bool is_operator = module == "torch" && (function->m_ml->ml_flags & METH_STATIC) != 0;
    if (is_operator) return Joined("torch._VariableFunctions", name);
    return module == "builtins" ? std::string(name) : Joined(module, name);
  }
  return self == nullptr ? std::string(name)
                         : Joined(OwnerName(DefiningType(Py_TYPE(self), function->m_ml, Py_TYPE(self))), name);
}

/// What stays the same from one bound object to the next.
const void* IdentityOf(PyObject* callable) {
  if (const PyMethodDef* definition = DefinitionOf(callable)) return definition;
  return callable;
}

}  // namespace

Effect EffectOfName(std::string_view name) {
  constexpr std::string_view kOfTensors = "torch._C.TensorBase.";
  if (name.starts_with(kOfTensors) && !EscapeOf(name.substr(kOfTensors.size())).empty()) return Effect::kEscape;
  return Find(kGroups, name);
}

PyTypeObject* BoundSlotType() {
  static PyTypeObject* const type = [] {
    const PythonRef slot(PyObject_GetAttrString(Py_None, "__repr__"));
    return Py_TYPE(slot.get());
  }();
  return type;
}

EffectTable& EffectTable::Shared() {
  static auto* shared = new EffectTable;
  return *shared;
}

bool EffectTable::IsNative(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  return PyCFunction_Check(callable) || type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type ||
         type == &PyWrapperDescr_Type || type == BoundSlotType() || type == &PyGetSetDescr_Type;
}

bool EffectTable::IsGetter(PyObject* value) {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return name == "operator.attrgetter" || name == "operator.itemgetter";
}

std::string_view EffectTable::ShortNameOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  const PyTypeObject* type = Py_TYPE(callable);
  const bool is_descriptor = type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type ||
                             type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type;
  return is_descriptor ? ViewOf(reinterpret_cast<PyDescrObject*>(callable)->d_name) : std::string_view();
}

std::string EffectTable::NameOf(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable)) return NameOfFunction(callable);
  if (type == BoundSlotType()) {
    const PythonRef name(PyObject_GetAttrString(callable, "__qualname__"));
    const PythonRef self(PyObject_GetAttrString(callable, "__objclass__"));
    DropError();
    if (self && PyType_Check(self.get())) {
      const std::string_view qualified = ViewOf(name.get());
      return Joined(OwnerName(reinterpret_cast<PyTypeObject*>(self.get())), qualified.substr(qualified.rfind('.') + 1));
    }
    return std::string(ViewOf(name.get()));
  }
  if (IsNative(callable)) {
    const auto* descriptor = reinterpret_cast<PyDescrObject*>(callable);
    return Joined(OwnerName(descriptor->d_type), ViewOf(descriptor->d_name));
  }
  return OwnerName(type);
}

Effect EffectTable::EffectOf(PyObject* callable) {
  if (IsMarkedPure(callable)) return Effect::kPure;
  if (Py_TYPE(callable) == BoundSlotType()) return EffectOfName(NameOf(callable));
  const void* identity = IdentityOf(callable);
  if (const auto it = known_.find(identity); it != known_.end()) return it->second.effect;
  // An overload of an operator as Python holds it has no name.
  const bool is_overload =
      PyCFunction_Check(callable) && *reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name == 0;
  const Effect effect = is_overload ? Effect::kOperator : EffectOfName(NameOf(callable));
  known_.emplace(identity, Known{PythonRef::Borrow(callable), effect});
  return effect;
}

Effect EffectTable::EffectOfType(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (IsMarkedPure(object)) return Effect::kPure;
  if (PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) return Effect::kPure;
  if (const auto it = known_.find(type); it != known_.end()) return it->second.effect;
  const Effect effect = Find(kTypeGroups, OwnerName(type));
  known_.emplace(type, Known{PythonRef::Borrow(object), effect});
  return effect;
}

void EffectTable::MarkPure(PyObject* callable) { marked_.emplace(callable, PythonRef::Borrow(callable)); }

std::set<std::string> EffectTable::MarkedPure() const {
  std::set<std::string> names;
  for (const auto& [callable, holder] : marked_) names.insert(NameOf(callable));
  return names;
}

}  // namespace ingot::client
