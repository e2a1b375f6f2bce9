// SPDX-License-Identifier: Apache-2.0
#include "client/native/impure_calls.h"

#include "client/native/python_ref.h"

namespace ingot::client {
namespace {

const PyMethodDef* DefinitionOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  }
  if (Py_TYPE(callable) == &PyMethodDescr_Type || Py_TYPE(callable) == &PyClassMethodDescr_Type) {
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  }
  return nullptr;
}

std::string TextOf(PyObject* object) {
  if (object == nullptr || !PyUnicode_Check(object)) return {};
  const char* text = PyUnicode_AsUTF8(object);
  if (text == nullptr) PyErr_Clear();
  return text == nullptr ? std::string() : std::string(text);
}

std::string ModuleOfType(PyTypeObject* type) {
  const PythonRef module(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__module__"));
  PyErr_Clear();
  std::string name = TextOf(module.get());
  // Extensions that name no module seem to live in builtins, where every real type is static.
  if (name == "builtins" && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0) return type->tp_name;
  return name;
}

// The class that brought a method, which for an object of a Python class is one of its bases.
PyTypeObject* OwnerOf(const PyCFunctionObject* function, PyTypeObject* type) {
  for (Py_ssize_t i = 0; type->tp_mro != nullptr && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(type->tp_mro, i);
    const PythonRef table(PyObject_GetAttrString(base, "__dict__"));
    const PythonRef entry(table ? PyMapping_GetItemString(table.get(), function->m_ml->ml_name)
                                : nullptr);
    PyErr_Clear();
    if (entry && DefinitionOf(entry.get()) == function->m_ml) {
      return reinterpret_cast<PyTypeObject*>(base);
    }
  }
  return nullptr;
}

// The module that defines a C function: its own note, else the module or class it belongs to.
std::string ModuleOf(const PyCFunctionObject* function) {
  if (function->m_module != nullptr) return TextOf(function->m_module);
  PyObject* self = function->m_self;
  if (self == nullptr) return {};
  if (PyModule_Check(self)) {
    const char* name = PyModule_GetName(self);
    if (name == nullptr) PyErr_Clear();
    return name == nullptr ? std::string() : std::string(name);
  }
  PyTypeObject* owner = nullptr;
  if (PyType_Check(self)) owner = OwnerOf(function, reinterpret_cast<PyTypeObject*>(self));
  if (owner == nullptr) owner = OwnerOf(function, Py_TYPE(self));
  return ModuleOfType(owner != nullptr ? owner : Py_TYPE(self));
}

}  // namespace

void ImpureCalls::Add(PyObject* callable, std::string name) {
  if (const PyMethodDef* definition = DefinitionOf(callable)) {
    impure_.emplace(definition, std::move(name));
  }
}

void ImpureCalls::AddFunctions(const char* module, std::initializer_list<const char*> names) {
  const PythonRef object(PyImport_ImportModule(module));
  for (const char* name : names) {
    const PythonRef function(object ? PyObject_GetAttrString(object.get(), name) : nullptr);
    // Absent ones belong to another platform or version.
    PyErr_Clear();
    const char* shown = std::string_view(module) == "posix" ? "os" : module;
    if (function) Add(function.get(), std::string(shown) + "." + name);
  }
}

void ImpureCalls::AddMethods(const char* module, const char* type,
                             std::initializer_list<const char*> names) {
  const PythonRef object(PyImport_ImportModule(module));
  const PythonRef cls(object ? PyObject_GetAttrString(object.get(), type) : nullptr);
  for (const char* name : names) {
    const PythonRef method(cls ? PyObject_GetAttrString(cls.get(), name) : nullptr);
    PyErr_Clear();
    if (method) Add(method.get(), std::string(type) + "." + name);
  }
}

void ImpureCalls::Prepare() {
  harmless_.clear();
  if (impure_.empty()) {
    AddFunctions("time", {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter",
                          "perf_counter_ns", "process_time", "process_time_ns", "thread_time",
                          "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime",
                          "gmtime", "ctime", "strftime"});
    AddMethods("datetime", "datetime", {"now", "utcnow", "today"});
    AddMethods("datetime", "date", {"today"});
    AddMethods("_random", "Random", {"random", "getrandbits", "seed", "setstate"});
    AddFunctions("posix", {"urandom", "getrandom", "open", "read", "write", "stat", "lstat",
                           "listdir", "scandir", "system", "fork", "posix_spawn"});
    AddFunctions("_io", {"open", "open_code"});
    AddFunctions("builtins", {"input"});
    AddFunctions("_uuid", {"generate_time_safe"});
    AddFunctions("_socket", {"getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostname"});
    AddMethods("_socket", "socket",
               {"connect", "connect_ex", "bind", "listen", "accept", "_accept", "send", "sendall",
                "sendto", "recv", "recv_into", "recvfrom"});
    AddFunctions("_posixsubprocess", {"fork_exec"});
    AddFunctions("_thread", {"start_new_thread", "start_new", "start_joinable_thread"});
    AddMethods("_queue", "SimpleQueue", {"put", "get", "put_nowait", "get_nowait"});
    AddFunctions("torch", {"from_numpy", "frombuffer", "to_dlpack"});
    AddFunctions("torch._C", {"_from_dlpack"});
    AddMethods("torch._C", "Generator", {"manual_seed", "seed", "set_state", "get_state"});
    const PythonRef sys(PyImport_ImportModule("sys"));
    const PythonRef names(sys ? PyObject_GetAttrString(sys.get(), "stdlib_module_names") : nullptr);
    const PythonRef iterator(names ? PyObject_GetIter(names.get()) : nullptr);
    while (iterator) {
      const PythonRef name(PyIter_Next(iterator.get()));
      if (!name) break;
      standard_.insert(TextOf(name.get()));
    }
    PyErr_Clear();
  }
}

bool ImpureCalls::IsKnownModule(const std::string& module) const {
  if (module.empty() || trusted_.contains(module)) return true;
  const std::string top = module.substr(0, module.find('.'));
  // numpy sees no tensor's elements unless an escape showed them, and escapes are refused.
  return standard_.contains(top) || top == "torch" || top == "numpy" || top == "ingot" ||
         top == "pybind11_builtins";
}

const std::string* ImpureCalls::Find(PyObject* object) {
  const auto* function = reinterpret_cast<PyCFunctionObject*>(object);
  if (harmless_.contains(function->m_ml)) return nullptr;
  const auto found = impure_.find(function->m_ml);
  if (found != impure_.end()) return &found->second;
  const std::string module = ModuleOf(function);
  if (IsKnownModule(module)) {
    harmless_.insert(function->m_ml);
    return nullptr;
  }
  last_native_ = "native " + module + "." + function->m_ml->ml_name;
  return &last_native_;
}

}  // namespace ingot::client
