// SPDX-License-Identifier: Apache-2.0
#include "cache/trust/signing_key.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/temp_dir.h"
#include "tests/support/cache/fake_provenance.h"

namespace ingot::cache {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string ReadFile(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

void WriteFile(const std::string& path, Bytes bytes, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

Buffer FromHex(std::string_view hex) {
  Buffer out(hex.size() / 2);
  EXPECT_TRUE(ReadHex(hex, out));
  return out;
}

/// Seeds and public keys of RFC 8032, section 7.1.
struct Vector {
  std::string_view seed, key;
};
constexpr Vector kVectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"},
};

TEST(SigningKeyTest, PublicKeysAreThoseOfTheStandard) {
  for (const Vector& vector : kVectors) {
    const auto key = SigningKey::FromSeed(FromHex(vector.seed), "rfc");
    ASSERT_TRUE(key);
    EXPECT_EQ(HexOf(key->public_key().bytes), vector.key);
  }
}

TEST(Sha256Test, IsThatOfTheStandard) {
  EXPECT_EQ(Sha256Of(AsBytes("abc")).ToHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Of({}).ToHex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/// Another implementation signs, and verifies what was signed here.
TEST(SigningKeyTest, AgreesWithOpenssl) {
  ASSERT_EQ(std::system("openssl version >/dev/null 2>&1"), 0) << "needs the Debian package openssl";
  const TempDir dir;
  for (const Vector& vector : kVectors) {
    const Buffer seed = FromHex(vector.seed);
    const auto key = SigningKey::FromSeed(seed, "rfc");
    // RFC 8410: what stands before the seed, and before the public key.
    Buffer private_der = FromHex("302e020100300506032b657004220420");
    private_der.insert(private_der.end(), seed.begin(), seed.end());
    Buffer public_der = FromHex("302a300506032b6570032100");
    const auto& public_bytes = key->public_key().bytes;
    public_der.insert(public_der.end(), public_bytes.begin(), public_bytes.end());
    WriteFile(dir / "private.der", private_der);
    WriteFile(dir / "public.der", public_der);
    const Buffer message = {0, 1, 2, 250, 'x'};
    Buffer in_context(message);
    const Bytes context = AsBytes("ingot provenance 1\n");
    in_context.insert(in_context.begin(), context.begin(), context.end());
    WriteFile(dir / "message", in_context);

    const std::string pkeyutl = fmt::format("cd {} && openssl pkeyutl -rawin -in message -keyform DER ", dir.path());
    ASSERT_EQ(std::system((pkeyutl + "-sign -inkey private.der -out theirs").c_str()), 0);
    const std::string theirs = ReadFile(dir / "theirs");
    Signature signature;
    ASSERT_EQ(theirs.size(), signature.bytes.size());
    std::copy(theirs.begin(), theirs.end(), signature.bytes.begin());
    EXPECT_TRUE(key->public_key().Verifies(Statement::kProvenance, message, signature));
    EXPECT_FALSE(key->public_key().Verifies(Statement::kRotation, message, signature));

    const Signature ours = key->Sign(Statement::kProvenance, message);
    EXPECT_EQ(ours, signature);
    WriteFile(dir / "ours", ours.view());
    EXPECT_EQ(std::system((pkeyutl + "-verify -pubin -inkey public.der -sigfile ours >/dev/null").c_str()), 0);
    Signature changed = ours;
    changed.bytes[10] ^= 1;
    WriteFile(dir / "ours", changed.view());
    EXPECT_NE(std::system((pkeyutl + "-verify -pubin -inkey public.der -sigfile ours >/dev/null 2>&1").c_str()), 0);
    EXPECT_FALSE(key->public_key().Verifies(Statement::kProvenance, message, changed));
  }
}

TEST(PublicKeyTest, IsALineOfText) {
  const auto key = SigningKey::FromSeed(FromHex(kVectors[0].seed), "ci-2024");
  ASSERT_TRUE(key);
  const std::string line = key->public_key().ToLine();
  EXPECT_EQ(line, "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= ci-2024");
  const auto back = PublicKey::FromLine(line + "\n");
  ASSERT_TRUE(back) << back.error().ToText();
  EXPECT_EQ(*back, key->public_key());
  EXPECT_EQ(back->id().ToHex(), "42ce6c7b0ea380ba0018b27ec2d7df65");
  for (const std::string_view wrong :
       {"", "ingot-ed25519", "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        "ssh-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= a",
        "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo a",
        "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURp= a",
        "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= a b",
        "ingot-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo= \x1b[2J",
           // A point of order 1, for which signatures verify that nobody made.
        "ingot-ed25519 AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= a",
        "ingot-ed25519 //////////////////////////////////////////8= a"}) {
    EXPECT_FALSE(PublicKey::FromLine(wrong)) << wrong;
  }
}

TEST(SigningKeyTest, IsKeptInAFileOfItsOwner) {
  const TempDir dir;
  const auto key = SigningKey::Generate("ci");
  ASSERT_TRUE(key);
  const std::string path = dir / "signing.key";
  // Whatever the umask lets through.
  const mode_t before = umask(0);
  const Status saved = key->Save(path);
  umask(before);
  ASSERT_TRUE(saved) << saved.error().ToText();
  struct stat found{};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  EXPECT_EQ(found.st_nlink, 1u);
  const auto back = SigningKey::Load(path);
  ASSERT_TRUE(back) << back.error().ToText();
  EXPECT_EQ(back->public_key(), key->public_key());
  EXPECT_EQ(back->Sign(Statement::kRotation, AsBytes("x")), key->Sign(Statement::kRotation, AsBytes("x")));

  const std::string text = ReadFile(path);
  const auto other = SigningKey::Generate("other");
  const Status again = other->Save(path);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kInvalid);
  EXPECT_EQ(ReadFile(path), text);
  EXPECT_NE(other->public_key(), key->public_key());
}

TEST(SigningKeyTest, FileThatOthersReadOrWriteIsRefused) {
  const TempDir dir;
  const std::string path = dir / "signing.key";
  ASSERT_TRUE(FakeKey(1, "ci").Save(path));
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0644, 0666}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    const auto key = SigningKey::Load(path);
    ASSERT_FALSE(key) << mode;
    EXPECT_EQ(key.error().code(), Code::kUnavailable);
    EXPECT_THAT(key.error().message(), HasSubstr("chmod 600"));
  }
  ASSERT_EQ(chmod(path.c_str(), 0400), 0);
  EXPECT_TRUE(SigningKey::Load(path));
  EXPECT_EQ(SigningKey::Load(dir / "none").error().code(), Code::kNotFound);
  EXPECT_EQ(SigningKey::Load(dir.path()).error().code(), Code::kUnavailable);
}

TEST(SigningKeyTest, DamagedFileIsRefusedWithoutShowingIt) {
  const TempDir dir;
  const std::string path = dir / "signing.key";
  ASSERT_TRUE(FakeKey(1, "ci").Save(path));
  const std::string text = ReadFile(path);
  const std::string secret = Base64Of(Buffer(32, 1));
  ASSERT_THAT(text, HasSubstr(secret));
  for (size_t size = 0; size < text.size(); ++size) {
    WriteFile(path, AsBytes(text).first(size));
    const auto key = SigningKey::Load(path);
    ASSERT_FALSE(key) << size;
    EXPECT_EQ(key.error().code(), Code::kCorrupt);
    EXPECT_THAT(key.error().message(), Not(HasSubstr(secret.substr(0, 8))));
  }
  WriteFile(path, AsBytes("ingot-ed25519-private " + secret + secret + " ci\n"));
  EXPECT_EQ(SigningKey::Load(path).error().code(), Code::kCorrupt);
  WriteFile(path, Buffer(5000, 'a'));
  EXPECT_EQ(SigningKey::Load(path).error().code(), Code::kCorrupt);
}

TEST(SigningKeyTest, IsInNoCoreDump) {
  const SigningKey key = FakeKey(1, "ci");
  const auto at = reinterpret_cast<uintptr_t>(key.address());
  std::ifstream maps("/proc/self/smaps");
  bool inside = false, found = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &last) == 2) inside = first <= at && at < last;
    if (!inside || !line.starts_with("VmFlags:")) continue;
    found = true;
    EXPECT_THAT(line + " ", HasSubstr(" dd ")) << "not kept out of core dumps";
  }
  EXPECT_TRUE(found);
}

TEST(SigningKeyTest, NamesAreShortWords) {
  EXPECT_TRUE(CheckKeyName("ci@build-7.example:2024_a+b"));
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a\n"), std::string("\xc3\xbc"), std::string(65, 'a')}) {
    EXPECT_EQ(SigningKey::Generate(name).error().code(), Code::kInvalid) << name;
  }
}

TEST(Base64Test, HasOneWayToWriteBytes) {
  for (size_t size = 0; size < 10; ++size) {
    const Buffer bytes(size, 0xAB);
    const Result<Buffer> back = BytesOfBase64(Base64Of(bytes), size);
    ASSERT_TRUE(back) << size;
    EXPECT_EQ(*back, bytes);
  }
  for (const std::string_view wrong : {"=", "==", "====", "A===", "AA", "AB==", "AAA=A", "AA=\n", "A A="}) {
    EXPECT_FALSE(BytesOfBase64(wrong, 10)) << wrong;
  }
  EXPECT_FALSE(BytesOfBase64(Base64Of(Buffer(20)), 10));
}

}  // namespace
}  // namespace ingot::cache
