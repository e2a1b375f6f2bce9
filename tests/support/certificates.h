// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace ingot::support {

/// Certificates of a test, made when it runs: an authority and what it signs, as PEM files.
class Certificates {
 public:
  explicit Certificates(std::string dir) : dir_(std::move(dir)) {
    key_.reset(EVP_EC_gen("P-256"));
    certificate_ = Make("an authority", "", key_.get(), nullptr, 0, 3600);
    Write("ca.pem", certificate_.get());
  }
  std::string ca() const { return dir_ + "/ca.pem"; }
  std::string cert(const std::string& name) const { return dir_ + "/" + name + ".pem"; }
  std::string key(const std::string& name) const { return dir_ + "/" + name + ".key"; }

  /// Signs a certificate for `names` ("DNS:localhost,IP:127.0.0.1"), valid from and until so many seconds from now.
  void Issue(const std::string& name, const std::string& names, long from_s = -60, long until_s = 3600) {
    const Key key(EVP_EC_gen("P-256"));
    const X509Ref made = Make(name, names, key.get(), certificate_.get(), from_s, until_s);
    Write(name + ".pem", made.get());
    FILE* const file = Open(name + ".key");
    if (PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1) std::abort();
    std::fclose(file);
    chmod(this->key(name).c_str(), 0600);
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* at) const { EVP_PKEY_free(at); }
    void operator()(X509* at) const { X509_free(at); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using X509Ref = std::unique_ptr<X509, Free>;

  X509Ref Make(const std::string& subject, const std::string& names, EVP_PKEY* key, X509* issuer, long from_s,
               long until_s) {
    X509Ref made(X509_new());
    X509* const x = made.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(x), from_s);
    X509_gmtime_adj(X509_getm_notAfter(x), until_s);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(subject.c_str()), -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(issuer == nullptr ? x : issuer));
    const bool is_ca = issuer == nullptr;
    Extend(x, is_ca ? x : issuer, NID_basic_constraints, is_ca ? "critical,CA:TRUE" : "CA:FALSE");
    if (!names.empty()) Extend(x, issuer, NID_subject_alt_name, names);
    if (X509_sign(x, key_.get(), EVP_sha256()) == 0) std::abort();
    return made;
  }
  static void Extend(X509* x, X509* issuer, int what, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, x, nullptr, nullptr, 0);
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str());
    if (extension == nullptr || X509_add_ext(x, extension, -1) != 1) std::abort();
    X509_EXTENSION_free(extension);
  }
  FILE* Open(const std::string& name) const {
    FILE* const file = std::fopen((dir_ + "/" + name).c_str(), "we");
    if (file == nullptr) std::abort();
    return file;
  }
  void Write(const std::string& name, X509* x) const {
    FILE* const file = Open(name);
    if (PEM_write_X509(file, x) != 1) std::abort();
    std::fclose(file);
  }

  const std::string dir_;
  long serial_ = 0;
  Key key_;
  X509Ref certificate_;
};

}  // namespace ingot::support
