// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "client/native/cpython/compiled.h"
#include "client/native/cpython/python_ref.h"
#include "client/native/site/arguments.h"
#include "client/native/site/rank_vote.h"
#include "client/native/site/retries.h"
#include "client/native/site/variant_table.h"

namespace ingot::client {

/// A signature whose calls run the target, or what stands in its place.
struct Refused {
  Retries retries;
  bool has_parts = false;  ///< parts of the target may be served all the same
  PythonRef in_pieces;     ///< what is called in the target's place, or null
};

struct CallSite {
  CompiledObject base;
  PyObject* paces;   ///< the engine's, where the plain function may run instead, or null
  PyObject* owner;   ///< the Python engine behind it
  VariantTable variants;
  std::unordered_map<std::string, Refused> refused;     ///< signatures that no variant here serves
  std::unordered_set<std::string> waiting;  ///< signatures for which a variant of other sizes is on its way
  std::unordered_set<std::string> said;     ///< why arguments are not taken, where that has been said already
  DynamicScalars varying;
  uint64_t passed_over;   ///< so many calls of new signatures run eagerly before the next is looked at
  bool hides_parts;       ///< a piece of a program: what it calls while it is not native need not be native itself
  uint64_t verify_every;  ///< 0: never
  uint64_t served;
  std::unique_ptr<const RankConsensus> consensus;  ///< its ranks run the same, or all run eagerly

  bool VerifiesNext() const { return verify_every != 0 && (served + 1) % verify_every == 0; }
};

/// Its `_serve(args, kwargs)`: (None, result) of a call by native code, or (why nothing here serves it, None).
PyObject* ServeNow(PyObject* object, PyObject* parts);

/// What engines and Python's protocols call on it; ends with nulls.
extern PyMethodDef kCallSiteMethods[];

}  // namespace ingot::client
