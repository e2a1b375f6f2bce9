// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/raw_ostream.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "compiler/targets/x86/x86_target.h"
#include "proto/memory_file.h"

LLD_HAS_DRIVER(elf)

namespace ingot::compiler::x86 {
namespace {

/// An unnamed file in memory that lld can open by path.
class MemoryFile {
 public:
  explicit MemoryFile(UniqueFd fd) : fd_(std::move(fd)) {}
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

  Status Write(Bytes bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return Fail("writing");
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return {};
  }

 private:
  static Error Fail(const char* what) {
    return Error(Code::kExhausted, std::string(what) + " a file in memory: " + strerror(errno));
  }
  UniqueFd fd_;
};

/// Collects what lld writes. lld replaces a regular output file by a new one beside it, which
/// needs a directory; into a pipe it writes in place.
class PipeReader {
 public:
  PipeReader() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    write_end_ = ends[1];
    thread_ = std::thread([this, read_end = ends[0]] {
      uint8_t chunk[1 << 16];
      for (;;) {
        const ssize_t got = read(read_end, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        bytes_.insert(bytes_.end(), chunk, chunk + got);
      }
      close(read_end);
    });
  }
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;
  ~PipeReader() { Finish(); }

  bool is_open() const { return write_end_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(write_end_); }
  /// Everything written until now; nothing can be written afterwards.
  Buffer Finish() {
    if (!thread_.joinable()) return {};
    close(write_end_);
    thread_.join();
    return std::move(bytes_);
  }

 private:
  int write_end_ = -1;
  std::thread thread_;
  Buffer bytes_;
};

/// lld keeps its state in globals.
Mutex& LinkerMutex() {
  static Mutex mutex;
  return mutex;
}

/// One file for the linker.
struct Input {
  std::string symbol;
  Bytes bytes;
  std::set<std::string> imports = {};
};

/// The objects and what they call, each once.
Result<std::vector<Input>> InputsOf(std::span<const Object> objects) {
  std::vector<Input> inputs;
  std::set<std::string> shared;
  for (const Object& object : objects) {
    inputs.push_back({object.symbol, object.bytes});
    for (const auto& code : object.calls) inputs.back().imports.insert(code->symbol());
  }
  for (const Object& object : objects) {
    for (const auto& code : object.calls) {
      if (!shared.insert(code->symbol()).second) continue;
      TRY_ASSIGN(const Bytes bytes, code->bytes());
      inputs.push_back({code->symbol(), bytes});
    }
  }
  return inputs;
}

Error Damaged(const Input& input, llvm::Error error) {
  return Error(Code::kCorrupt, "object " + input.symbol + ": " + llvm::toString(std::move(error)));
}

/// lld ends the process's ability to link when it meets a damaged object, so they are read before:
/// a sound table of sections and symbols, and nothing imported but what they are known to call.
Status CheckInput(const Input& object) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(llvm::MemoryBufferRef(AsText(object.bytes), object.symbol));
  if (!file) return Damaged(object, file.takeError());
  for (const llvm::object::SectionRef& section : (*file)->sections()) {
    if (auto contents = section.getContents(); !contents) {
      return Damaged(object, contents.takeError());
    }
  }
  for (const llvm::object::SymbolRef& symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    if (!flags) return Damaged(object, flags.takeError());
    auto name = symbol.getName();
    if (!name) return Damaged(object, name.takeError());
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty() && !object.imports.contains(name->str())) {
      return Error(Code::kInternal, "object " + object.symbol + " imports " + name->str());
    }
  }
  return {};
}

Status RunLinker(const std::vector<std::string>& arguments) {
  static bool is_broken = false;
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const MutexLock lock(LinkerMutex());
  if (is_broken) return Error(Code::kInternal, "the linker crashed before; restart the process");
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  // Without it a fatal error of lld would end the process.
  llvm::CrashRecoveryContext::Enable();
  const lld::Result result = lld::lldMain(argv, out_stream, err_stream, drivers);
  llvm::CrashRecoveryContext::Disable();
  is_broken = !result.canRunAgain;
  if (result.retCode == 0) return {};
  return Error(Code::kInternal, "linking kernels: " + err + out);
}

}  // namespace

Result<Buffer> LinkShared(std::span<const Object> objects) {
  std::vector<MemoryFile> files;
  PipeReader output;
  if (!output.is_open()) {
    return Error(Code::kExhausted, std::string("opening a pipe for the linker: ") + strerror(errno));
  }
  // No hash of the inputs' names, no timestamps: equal objects give equal bytes. Calls go to what is linked here,
  // though its names are seen from outside, for debuggers.
  std::vector<std::string> arguments = {"ld.lld",
                                        "-shared",
                                        "-Bsymbolic",
                                        "--build-id=none",
                                        "--hash-style=gnu",
                                        "--strip-all",
                                        "--no-undefined",
                                        "--threads=1",
                                        "-z",
                                        "noexecstack",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "now",
                                        "-z",
                                        "separate-code",
                                        "-o",
                                        output.path()};
  TRY_ASSIGN(const std::vector<Input> inputs, InputsOf(objects));
  for (const Input& input : inputs) {
    TRY(CheckInput(input));
    TRY_ASSIGN(UniqueFd file, proto::MakeMemoryFile("ingot-object"));
    files.emplace_back(std::move(file));
    TRY(files.back().Write(input.bytes));
    arguments.push_back(files.back().path());
  }
  TRY(RunLinker(arguments));
  Buffer image = output.Finish();
  if (image.empty()) return Error(Code::kInternal, "the linker wrote nothing");
  return image;
}

}  // namespace ingot::compiler::x86
