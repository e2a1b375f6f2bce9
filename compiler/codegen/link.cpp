// SPDX-License-Identifier: Apache-2.0
#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>

#include "compiler/codegen/codegen.h"

LLD_HAS_DRIVER(elf)

namespace ingot::compiler {
namespace {

/// An unnamed file in memory that lld can open by path.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() {
    if (fd_ >= 0) close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  Status Write(Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Fail("writing");
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }
  Result<Buffer> ReadAll() const {
    const off_t size = lseek(fd_, 0, SEEK_END);
    if (size < 0) return Fail("measuring");
    Buffer bytes(static_cast<size_t>(size));
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t got = pread(fd_, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return Fail("reading");
      at += static_cast<size_t>(got);
    }
    return bytes;
  }

 private:
  static Error Fail(const char* what) {
    return Error(Code::kExhausted, std::string(what) + " a file in memory: " + strerror(errno));
  }
  int fd_;
};

/// lld keeps its state in globals.
std::mutex& LinkerMutex() {
  static std::mutex mutex;
  return mutex;
}

Status RunLinker(const std::vector<std::string>& arguments) {
  static bool is_broken = false;
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const std::lock_guard lock(LinkerMutex());
  if (is_broken) return Error(Code::kInternal, "the linker crashed before; restart the process");
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  const lld::Result result = lld::lldMain(argv, out_stream, err_stream, drivers);
  is_broken = !result.canRunAgain;
  if (result.retCode == 0) return {};
  return Error(Code::kInternal, "linking kernels: " + err + out);
}

}  // namespace

Result<Buffer> LinkShared(std::span<const Object> objects) {
  std::vector<MemoryFile> inputs;
  const MemoryFile output("ingot-link");
  // No hash of the inputs' names, no timestamps: equal objects give equal bytes.
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "--build-id=none", "--hash-style=gnu", "--strip-all", "--no-undefined",
      "--threads=1", "--no-mmap-output-file", "-z", "noexecstack", "-z", "relro", "-z", "now",
      "-z", "separate-code", "-o", output.path()};
  for (const Object& object : objects) {
    inputs.emplace_back("ingot-object");
    if (!inputs.back().is_open() || !output.is_open()) {
      return Error(Code::kExhausted, std::string("memfd_create: ") + strerror(errno));
    }
    TRY(inputs.back().Write(object.bytes));
    arguments.push_back(inputs.back().path());
  }
  TRY(RunLinker(arguments));
  return output.ReadAll();
}

}  // namespace ingot::compiler
