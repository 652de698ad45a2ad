// Loaded before a program (LD_PRELOAD), lets one of its calls to the system fail, or kills it
// there.
//   HG_FAULT=KIND:K:fail   the K-th call of the kind fails
//   HG_FAULT=KIND:K:stay   so do all after it: the disk stays full
//   HG_FAULT=KIND:K:kill   SIGKILL in place of it; a write has written its first half
//   HG_FAULT=KIND:0:count  writes how many there were into the file HG_FAULT_COUNT
// Kinds are open, write, fsync and rename, of what lies below the folder HG_FAULT_UNDER; malloc,
// which stands for its whole family; and thread. Only main() is looked at, not what comes before
// and after.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

constexpr unsigned kLongestS = 60;  // a program that waits without end is killed, by SIGALRM

struct Spec {
  char kind[16] = "";
  long k = 0;
  char mode[16] = "";
  const char* under = "";
};
Spec spec;
std::atomic<bool> in_main{false};
std::atomic<long> calls{0};
std::atomic<bool> below[1024];  // by descriptor: its file lies below the folder

bool is_below(const char* path) { return strncmp(path, spec.under, strlen(spec.under)) == 0; }
bool is_below(int fd) { return fd >= 0 && fd < 1024 && below[fd]; }

bool mode_is(const char* mode) { return strcmp(spec.mode, mode) == 0; }

// Counts a call, and says whether it is to fail. `before_kill` does what a kill comes in the middle
// of.
template <class BeforeKill>
bool fails(const char* kind, BeforeKill before_kill) {
  if (!in_main || strcmp(kind, spec.kind) != 0) return false;
  const long number = ++calls;
  if (mode_is("stay")) return number >= spec.k;
  if (number != spec.k) return false;
  if (mode_is("kill")) {
    before_kill();
    ::kill(getpid(), SIGKILL);
  }
  return mode_is("fail");
}
bool fails(const char* kind) {
  return fails(kind, [] {});
}

int failure(int error) {
  errno = error;
  return -1;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const bool counted = is_below(path);
  if (counted && fails("open")) return failure(flags & O_CREAT ? EACCES : EMFILE);
  const int fd = static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
  if (fd >= 0 && fd < 1024) below[fd] = counted;
  return fd;
}

mode_t mode_of(int flags, va_list arguments) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

// The C library ends a process that has no memory for what it must have itself, such as the list of
// what a thread's end destroys: its own calls are not the program's.
struct Code {
  uintptr_t begin = 0, end = 0;
};
Code c_library;

int find_c_library(dl_phdr_info* object, std::size_t, void*) {
  if (!strstr(object->dlpi_name, "/libc.so.")) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
    c_library.begin = object->dlpi_addr + part.p_vaddr;
    c_library.end = c_library.begin + part.p_memsz;
  }
  return 1;
}

bool out_of_memory(const void* caller) {
  const auto from = reinterpret_cast<uintptr_t>(caller);
  if (from >= c_library.begin && from < c_library.end) return false;
  return fails("malloc");
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

void* aligned(std::size_t alignment, std::size_t bytes, const void* caller) {
  return out_of_memory(caller) ? no_memory() : __libc_memalign(alignment, bytes);
}

void read_spec() {
  if (const char* text = getenv("HG_FAULT"))
    if (sscanf(text, "%15[a-z]:%ld:%15[a-z]", spec.kind, &spec.k, spec.mode) != 3) _exit(98);
  if (const char* under = getenv("HG_FAULT_UNDER")) spec.under = under;
}

void tell_count() {
  const char* path = getenv("HG_FAULT_COUNT");
  if (!path || !mode_is("count")) return;
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (dprintf(fd, "%ld", calls.load()) < 0) _exit(98);
  ::close(fd);
}

using Main = int (*)(int, char**, char**);
Main program = nullptr;

int watched_main(int argc, char** argv, char** environment) {
  read_spec();
  dl_iterate_phdr(find_c_library, nullptr);
  alarm(kLongestS);
  in_main = true;
  const int code = program(argc, argv, environment);
  in_main = false;
  tell_count();
  return code;
}

}  // namespace

extern "C" {

int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack) {
  program = main;
  const auto real =
      reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return real(watched_main, argc, argv, init, fini, loader_fini, stack);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_at(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

ssize_t write(int fd, const void* data, std::size_t bytes) {
  const auto half = [&] { syscall(SYS_write, fd, data, bytes / 2); };
  if (is_below(fd) && fails("write", half)) return failure(ENOSPC);
  return syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd) {
  if (is_below(fd) && fails("fsync")) return failure(EIO);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

int rename(const char* from, const char* to) {
  if (is_below(to) && fails("rename")) return failure(EACCES);
  return static_cast<int>(syscall(SYS_rename, from, to));
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*work)(void*),
                   void* argument) {
  if (fails("thread")) return EAGAIN;
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, work, argument);
}

void* malloc(std::size_t bytes) {
  return out_of_memory(__builtin_return_address(0)) ? no_memory() : __libc_malloc(bytes);
}

void* calloc(std::size_t count, std::size_t bytes) {
  return out_of_memory(__builtin_return_address(0)) ? no_memory() : __libc_calloc(count, bytes);
}

void* realloc(void* old, std::size_t bytes) {
  return out_of_memory(__builtin_return_address(0)) ? no_memory() : __libc_realloc(old, bytes);
}

void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return aligned(alignment, bytes, __builtin_return_address(0));
}

void* memalign(std::size_t alignment, std::size_t bytes) {
  return aligned(alignment, bytes, __builtin_return_address(0));
}

int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  void* const made = aligned(alignment, bytes, __builtin_return_address(0));
  if (!made) return ENOMEM;
  *to = made;
  return 0;
}

}  // extern "C"
