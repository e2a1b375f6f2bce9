// SPDX-License-Identifier: Apache-2.0
#include "cache/net/certificate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>

namespace ingot::cache {
namespace {

int64_t SecondsOf(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string AddressOf(const ASN1_OCTET_STRING& bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = ASN1_STRING_length(&bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET6 && ASN1_STRING_length(&bytes) != 16) return {};
  return inet_ntop(family, ASN1_STRING_get0_data(&bytes), text, sizeof text) != nullptr ? text : "";
}

}  // namespace

Result<Certificate> ReadCertificate(const std::string& path) {
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(BIO_new_file(path.c_str(), "r"), BIO_free_all);
  const std::unique_ptr<X509, decltype(&X509_free)> found(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  if (found == nullptr) return Error(Code::kInvalid, fmt::format("'{}' holds no certificate that can be read", path));
  Certificate out;
  out.begins_s = SecondsOf(X509_get0_notBefore(found.get()));
  out.ends_s = SecondsOf(X509_get0_notAfter(found.get()));
  auto* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(found.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    std::string text;
    if (name->type == GEN_DNS) {
      text.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      text = AddressOf(*name->d.iPAddress);
    }
    if (!text.empty()) out.names.push_back(std::move(text));
  }
  GENERAL_NAMES_free(names);
  return out;
}

}  // namespace ingot::cache
