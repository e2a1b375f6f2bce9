// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>

#include <boost/smart_ptr/local_shared_ptr.hpp>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/native/site/bound_variant.h"
#include "client/native/site/trials.h"

namespace ingot::client {

/// The variants of every argument signature one call site has met, and what they rely on of the process. Needs the GIL.
///
/// What goes does so when the table is whole again: what a variant lets go may give up the GIL (a tensor does), and
/// another thread then looks at the table.
class VariantTable {
 public:
  using Variants = std::vector<std::shared_ptr<BoundVariant>>;
  struct OfSignature {
    Variants variants;  ///< in the order in which they are tried
    Trials trials;
  };

  /// What a signature has; null where there are no variants.
  /// A call that holds it may go on with it whatever another thread does to the table. The GIL counts who does.
  boost::local_shared_ptr<OfSignature> Of(const std::string& signature) const;
  /// Whether calls of a signature are to be served at all, which may be known before there are variants.
  boost::local_shared_ptr<Trials> TrialsOf(const std::string& signature);
  /// Puts a variant in front; of too many, bound to ever new objects, the last goes. Returns how many the signature
  /// has.
  size_t Install(const std::string& signature, std::shared_ptr<BoundVariant> variant);
  /// Forgets a program's variants in every signature; returns how many.
  size_t Remove(const Program& program);
  /// Drops the bindings of a signature to these very objects, of one program or, null, of all.
  void Forget(const std::string& signature, const std::vector<PyObject*>& objects, const Program* program);
  void Clear();

  /// For Python's collector of cycles: each reference that this alone owns.
  int Traverse(visitproc visit, void* arg) const;

 private:
  void Keep(const std::shared_ptr<const ValidatedRecord>& validated);

  const boost::local_shared_ptr<OfSignature>& MakeOf(const std::string& signature);

  std::unordered_map<std::string, boost::local_shared_ptr<OfSignature>> of_signatures_;
  std::vector<std::shared_ptr<const ValidatedRecord>>
      all_validated_;  ///< for the next objects: variants of others may be gone
};

}  // namespace ingot::client
