// SPDX-License-Identifier: Apache-2.0
#include "client/native/site/compiled_module.h"

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/drop_error.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/site/call_site.h"

namespace ingot::client {
namespace {

struct ModuleCall {
  CompiledObject base;
  PyObject* site;
  PyTypeObject* kind;  ///< class of the module when this object's class was made; that keeps it
};

ModuleCall* Self(PyObject* object) { return reinterpret_cast<ModuleCall*>(object); }

PyTypeObject* KindOf(PyObject* object) { return Py_TYPE(Self(object)->base.target); }

/// The module has another class by now (a lazy one after its first call): so has this object.
bool Follow(PyObject* object) {
  PyTypeObject* kind = KindOf(object);
  const PythonRef done(CallFacade("follow", "(OO)", object, reinterpret_cast<PyObject*>(kind)));
  if (done) Self(object)->kind = kind;
  return static_cast<bool>(done);
}

PyObject* Call(PyObject* object, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  if (Self(object)->kind != KindOf(object) && !Follow(object)) return nullptr;
  return CallThrough(Self(object)->site, args, nargsf, kwnames);
}

PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*kwargs*/) {
  PyObject* site;
  if (!PyArg_ParseTuple(args, "O!", CallSiteType(), &site)) return nullptr;
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) return nullptr;
  // Python 3.11 does not pass this on to classes made in Python.
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  Self(object)->base.vectorcall = Call;
  Self(object)->base.target = Py_NewRef(CompiledTarget(site));
  Self(object)->site = Py_NewRef(site);
  Self(object)->kind = KindOf(object);
  return object;
}

void Dealloc(PyObject* object) {
  PyObject_GC_UnTrack(object);
  if (Self(object)->base.weakrefs != nullptr) PyObject_ClearWeakRefs(object);
  Py_CLEAR(Self(object)->base.target);
  Py_CLEAR(Self(object)->site);
  Py_TYPE(object)->tp_free(object);
}

int Traverse(PyObject* object, visitproc visit, void* arg) {
  Py_VISIT(Self(object)->base.target);
  Py_VISIT(Self(object)->site);
  return 0;
}

/// For attributes that nothing else has: what the module's class does, what the module alone has,
/// then Ingot's verbs. A module keeps its own `export` or `report`.
PyObject* GetMissing(PyObject* object, PyObject* name) {
  PyObject* target = Self(object)->base.target;
  const PythonRef inherited(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(target)), "__getattr__"));
  if (!inherited) DropError();
  PyObject* found = nullptr;
  if (inherited) {
    found = PyObject_CallFunctionObjArgs(inherited.get(), object, name, nullptr);
  } else {
    PyErr_SetObject(PyExc_AttributeError, name);
  }
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyObject *kind, *value, *trace;
  PyErr_Fetch(&kind, &value, &trace);
  if (!PyType_IsSubtype(Py_TYPE(object), Py_TYPE(target))) found = PyObject_GetAttr(target, name);
  if (found == nullptr) {
    DropError();
    found = FindVerb(EngineOf(Self(object)->site), name);
  }
  if (found == nullptr && !PyErr_Occurred()) {
    PyErr_Restore(kind, value, trace);
    return nullptr;
  }
  Py_XDECREF(kind);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return found;
}

PyObject* GetClass(PyObject* object, void* /*unused*/) {
  return Py_NewRef(reinterpret_cast<PyObject*>(KindOf(object)));
}

/// torch.nn.utils.parametrize gives modules a class of their own.
int SetClass(PyObject* object, PyObject* value, void* /*unused*/) {
  if (PyObject_SetAttrString(Self(object)->base.target, "__class__", value) != 0) return -1;
  return Follow(object) ? 0 : -1;
}

PyMethodDef methods[] = {{"__getattr__", GetMissing, METH_O, "What neither object nor class has."},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"__class__", GetClass, SetClass, "The module's class.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject type = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

PyObject* SiteOf(PyObject* value) {
  if (PyObject_TypeCheck(value, CallSiteType())) return value;
  return PyObject_TypeCheck(value, &type) ? Self(value)->site : nullptr;
}

int AddCompiledModuleType(PyObject* module) {
  type.tp_name = "ingot._native.ModuleCall";
  type.tp_base = CompiledType();
  type.tp_basicsize = sizeof(ModuleCall);
  type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL;
  type.tp_new = New;
  type.tp_dealloc = Dealloc;
  type.tp_traverse = Traverse;
  type.tp_methods = methods;
  type.tp_getset = properties;
  type.tp_doc = "A torch.nn.Module whose calls are served natively.";
  return PyModule_AddType(module, &type);
}

}  // namespace ingot::client
