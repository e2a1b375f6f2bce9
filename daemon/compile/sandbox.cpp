// SPDX-License-Identifier: Apache-2.0
#include "daemon/compile/sandbox.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ingot::daemon {
namespace {

Sandbox::Refusal RefusedNow(const char* call) { return {call, errno}; }

/// A network without interfaces. In a user namespace of its own where one may be made: that takes no rights.
Sandbox::Refusal LeaveNetwork() {
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) return {};
  const Sandbox::Refusal first = RefusedNow("unshare");
  return unshare(CLONE_NEWNET) == 0 ? Sandbox::Refusal() : first;
}

/// A new user namespace gives all rights in it, and root has them anyhow.
void DropCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  syscall(SYS_capset, &header, none);
}

// Rights that a kernel of a later ABI knows; the header may be older than the kernel.
constexpr uint64_t kFileRightsOfAbi[] = {0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF};

// What LLVM and the C library want to know of the machine. Without the first no JIT starts that proves kernels.
constexpr const char* kReadable[] = {"/proc/cpuinfo", "/proc/stat", "/sys/devices/system/cpu/online"};
// What PyTorch does.
constexpr const char* kReadableForTensors[] = {"/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present",
                                               "/sys/devices/system/cpu/kernel_max"};

/// Lets the file, or what is below the folder, be read. False: the kernel refuses; errno says why.
bool AllowReading(int ruleset, const char* path, bool and_run) {
  const UniqueFd file(open(path, O_PATH | O_CLOEXEC));
  if (!file) return true;  // A container may hide it, and who asks for a file that is not there hears that.
  struct stat status{};
  if (fstat(file.get(), &status) != 0) return false;
  uint64_t rights = LANDLOCK_ACCESS_FS_READ_FILE | (and_run ? LANDLOCK_ACCESS_FS_EXECUTE : 0);
  if (S_ISDIR(status.st_mode)) rights |= LANDLOCK_ACCESS_FS_READ_DIR;
  const landlock_path_beneath_attr rule{rights, file.get()};
  return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
}

/// Of who is held to it nothing else may be opened by name. What lld reads and writes are files in memory and pipes
/// under /proc/self/fd, which belong to no directory and so to no rule. None: the kernel refuses; errno says why.
UniqueFd MakeRuleset(const SandboxNeeds& needs) {
  const long abi = syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return {};
  // As linux/landlock.h has it from ABI 6 on; an older kernel takes what is zero.
  struct {
    uint64_t files = 0, network = 0, scoped = 0;
  } rights;
  rights.files = kFileRightsOfAbi[std::min<size_t>(static_cast<size_t>(abi), std::size(kFileRightsOfAbi)) - 1];
  if (abi >= 4) rights.network = 3;  // bind and connect over TCP
  if (abi >= 6) rights.scoped = 3;   // abstract sockets and signals stay inside
  UniqueFd ruleset(static_cast<int>(syscall(SYS_landlock_create_ruleset, &rights, sizeof rights, 0)));
  if (!ruleset) return {};
  std::vector<std::string> readable(std::begin(kReadable), std::end(kReadable));
  if (needs.computes_tensors) {
    readable.insert(readable.end(), std::begin(kReadableForTensors), std::end(kReadableForTensors));
  }
  readable.insert(readable.end(), needs.readable.begin(), needs.readable.end());
  for (const std::string& path : readable) {
    if (!AllowReading(ruleset.get(), path.c_str(), needs.starts_program)) return {};
  }
  return ruleset;
}

Sandbox::Refusal CloseFiles(int ruleset) {
  if (syscall(SYS_landlock_restrict_self, ruleset, 0) == 0) return {};
  return RefusedNow("landlock");
}

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;

// Calls whatever their arguments: memory, time, threads that exist, descriptors that are open, and looking at names.
// Opening is Landlock's to judge.
constexpr int kAllowed[] = {
    // Descriptors.
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_poll,
    SYS_ppoll,
    SYS_pipe2,
    SYS_memfd_create,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_shutdown,
    // Names.
    SYS_open,
    SYS_openat,
    SYS_stat,
    SYS_lstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_access,
    SYS_faccessat,
    SYS_readlink,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_umask,
    // Memory. Kernels are run to prove them, so pages may become executable.
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_brk,
    SYS_mincore,
    SYS_membarrier,
    // Threads and signals of this process.
    SYS_futex,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_pause,
    SYS_restart_syscall,
    // Time and facts.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_time,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getrusage,
    SYS_getrandom,
    SYS_sysinfo,
    SYS_uname,
};

// What a program does while it starts and reads the folders of its plugins. The call that becomes it is Landlock's to
// judge, like opening.
constexpr int kAllowedToPrograms[] = {
    SYS_execve,  SYS_getdents64, SYS_statfs,  SYS_fstatfs, SYS_fadvise64, SYS_dup,       SYS_dup2,
    SYS_getppid, SYS_getpgrp,    SYS_getpgid, SYS_chdir,   SYS_getresuid, SYS_getresgid,
};

/// In place of the number of the process that enters.
constexpr uint32_t kOwnProcess = 0xFFFFFFFF;

// Calls with one of these values in one argument.
struct Choice {
  int call;
  unsigned argument;
  std::vector<uint32_t> values;
};
std::vector<Choice> Choices(const SandboxNeeds& needs) {
  std::vector<Choice> choices = {
      {SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME}},
      // What the processor has that processes get on request, and the request: kernels are run to prove them.
      {SYS_arch_prctl, 0, {0x1021 /* ARCH_GET_XCOMP_SUPP */, 0x1022 /* ..._PERM */, 0x1023 /* ARCH_REQ_XCOMP_PERM */}},
      {SYS_ioctl, 1, {0x5401 /* TCGETS: is it a terminal? */}},
      {SYS_prlimit64, 0, {0}},  // Its own.
      {SYS_tgkill, 0, {kOwnProcess}},
      {SYS_fcntl, 1, {F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC, F_ADD_SEALS, F_GET_SEALS}},
  };
  if (needs.computes_tensors) choices.push_back({SYS_sched_setaffinity, 0, {0}});  // Its own.
  if (needs.starts_program) {
    choices[1].values.push_back(0x1002 /* ARCH_SET_FS */);
    choices.back().values.push_back(F_DUPFD);
  }
  return choices;
}

// What the C library has another way for when it hears that the kernel lacks it; new calls since come after these.
constexpr int kLacking[] = {SYS_clone3, SYS_faccessat2, SYS_openat2};
constexpr uint32_t kFirstUnknownCall = 452;

std::vector<sock_filter> FilterFor(const SandboxNeeds& needs) {
  constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
  constexpr uint32_t kLack = SECCOMP_RET_ERRNO | ENOSYS;
  std::vector<sock_filter> code;
  const auto add = [&](uint16_t op, uint32_t k, size_t if_true = 0, size_t if_false = 0) {
    code.push_back({op, static_cast<uint8_t>(if_true), static_cast<uint8_t>(if_false), k});
  };
  const auto load = [&](size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset)); };
  const auto answer = [&](uint32_t what) { add(BPF_RET | BPF_K, what); };
  load(offsetof(seccomp_data, arch));
  add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  answer(kRefuse);
  load(offsetof(seccomp_data, nr));
  std::vector<int> allowed(std::begin(kAllowed), std::end(kAllowed));
  if (needs.starts_program) {
    allowed.insert(allowed.end(), std::begin(kAllowedToPrograms), std::end(kAllowedToPrograms));
  }
  for (const int call : allowed) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1);
    answer(SECCOMP_RET_ALLOW);
  }
  for (const Choice& choice : Choices(needs)) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(choice.call), 0, 2 + 2 * choice.values.size());
    load(offsetof(seccomp_data, args) + 8 * choice.argument);
    for (const uint32_t value : choice.values) {
      add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
      answer(SECCOMP_RET_ALLOW);
    }
    answer(kRefuse);
  }
  // A thread is no process.
  add(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
  load(offsetof(seccomp_data, args));
  add(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1);
  answer(SECCOMP_RET_ALLOW);
  answer(kRefuse);
  for (const int call : kLacking) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 1);
    answer(kLack);
  }
  // Numbers of the x32 ABI are larger still, and no call of ours.
  add(BPF_JMP | BPF_JGE | BPF_K, kFirstUnknownCall, 0, 1);
  answer(kLack);
  answer(kRefuse);
  return code;
}

Sandbox::Refusal FilterCalls(std::span<sock_filter> code) {
  const sock_fprog program{static_cast<uint16_t>(code.size()), code.data()};
  // All threads: a runtime may have started some (a sanitizer's) before main().
  const long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (failed == 0) return {};
  // Above zero: a thread that has a filter of its own.
  return failed > 0 ? Sandbox::Refusal{"seccomp", EBUSY} : RefusedNow("seccomp");
}
#else
constexpr uint32_t kOwnProcess = 0xFFFFFFFF;
// No list of system calls for this architecture.
std::vector<sock_filter> FilterFor(const SandboxNeeds&) { return {}; }
Sandbox::Refusal FilterCalls(std::span<sock_filter>) { return {"seccomp", ENOSYS}; }
#endif

const std::string& TroubleOf(const SandboxTroubles& troubles, proto::SandboxLayer layer) {
  return troubles[static_cast<size_t>(layer)];
}

}  // namespace

Result<SandboxMode> ParseSandboxMode(std::string_view text) {
  if (text == "auto") return SandboxMode::kAuto;
  if (text == "off") return SandboxMode::kOff;
  if (text == "required") return SandboxMode::kRequired;
  return Error(Code::kInvalid,
               fmt::format("a sandbox (worker_sandbox, --sandbox) is auto, off or required, found '{}'", text));
}

Sandbox::Sandbox(const SandboxNeeds& needs) : ruleset_(MakeRuleset(needs)), code_(FilterFor(needs)) {
  if (!ruleset_) no_ruleset_ = RefusedNow("landlock");
  const auto at = std::ranges::find(code_, kOwnProcess, &sock_filter::k);
  own_process_ = static_cast<size_t>(at - code_.begin());
}

Sandbox::Refusals Sandbox::Enter() {
  Refusals refusals;
  refusals[static_cast<size_t>(proto::SandboxLayer::Namespace)] = LeaveNetwork();
  DropCapabilities();
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  // Kernels forget it where rights change.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  refusals[static_cast<size_t>(proto::SandboxLayer::Landlock)] = ruleset_ ? CloseFiles(ruleset_.get()) : no_ruleset_;
  ruleset_.Reset();
  if (own_process_ < code_.size()) code_[own_process_].k = static_cast<uint32_t>(getpid());
  refusals[static_cast<size_t>(proto::SandboxLayer::Seccomp)] = FilterCalls(code_);
  return refusals;
}

SandboxTroubles TroublesOf(const Sandbox::Refusals& refusals) {
  SandboxTroubles troubles;
  for (size_t i = 0; i < refusals.size(); ++i) {
    if (refusals[i].call == nullptr) continue;
    troubles[i] = fmt::format("{}: {}", refusals[i].call, std::strerror(refusals[i].number));
  }
  return troubles;
}

bool IsClosed(const Sandbox::Refusals& refusals) {
  return refusals[static_cast<size_t>(proto::SandboxLayer::Landlock)].call == nullptr &&
         refusals[static_cast<size_t>(proto::SandboxLayer::Seccomp)].call == nullptr;
}

SandboxTroubles EnterSandbox(const SandboxNeeds& needs) { return TroublesOf(Sandbox(needs).Enter()); }

std::string SandboxText(const SandboxTroubles& troubles) {
  const bool apart = TroubleOf(troubles, proto::SandboxLayer::Namespace).empty();
  const bool files = TroubleOf(troubles, proto::SandboxLayer::Landlock).empty();
  const bool calls = TroubleOf(troubles, proto::SandboxLayer::Seccomp).empty();
  std::string text = apart && calls ? "no network (namespace, seccomp)"
                     : apart        ? "no network (namespace)"
                     : calls        ? "no network (seccomp)"
                                    : "network open";
  text += files ? ", files closed (landlock)" : ", files open";
  text += calls ? ", system calls by a list (seccomp)" : ", all system calls";
  std::string refused;
  for (const std::string& trouble : troubles) {
    if (!trouble.empty()) refused += (refused.empty() ? "" : ", ") + trouble;
  }
  return refused.empty() ? text : fmt::format("{}; not to be had here: {}", text, refused);
}

Status CheckClosed(const SandboxTroubles& troubles) {
  for (const auto layer : {proto::SandboxLayer::Landlock, proto::SandboxLayer::Seccomp}) {
    const std::string& trouble = TroubleOf(troubles, layer);
    if (trouble.empty()) continue;
    return Error(
        Code::kUnavailable,
        fmt::format("a sandbox is required (worker_sandbox, --sandbox), and the process is not shut off ({}); set "
                    "it to auto to go on with what this kernel gives",
                    trouble));
  }
  return {};
}

}  // namespace ingot::daemon
