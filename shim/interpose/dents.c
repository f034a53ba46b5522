/* SPDX-License-Identifier: MIT */
/*
 * dents.c - wraps calls that read a directory by its descriptor: getdents64, getdirentries,
 * syscall.
 *
 * No state is kept between calls: the open file tells which directory it is, and its offset how far
 * the directory was read (view.h). So a descriptor may come from anywhere, and lseek() and dup()
 * need no wrapper.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/real.h"
#include "interpose/guard.h"

/* Serves getdents64(). Returns 1 and *n, the result or a negative errno; 0 if the directory is not
 * served. */
static int serve_dents(int fd, void *buf, size_t size, ssize_t *n) {
  struct shard_served_dir *served;
  int rc = shard_guard_open(fd, &served);
  if (rc == 0 && !served) {
    return 0;
  }
  *n = rc;
  if (rc == 0) {
    shard_guard_depth++;
    /* A bad buffer must give EFAULT, not a crash: the kernel writes some bytes there first. */
    bool bad = !buf || (size >= sizeof(uint64_t) &&
                        shard_real()->syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, buf,
                                              sizeof(uint64_t)) != 0);
    *n = bad ? -EFAULT : shard_view_read(served, fd, buf, size, NULL);
    shard_view_close(served);
    shard_guard_depth--;
  }
  return 1;
}

static ssize_t to_result(ssize_t n) {
  if (n < 0) {
    errno = (int)-n;
    return -1;
  }
  return n;
}

SHARD_EXPORT ssize_t getdents64(int fd, void *buf, size_t size) {
  ssize_t n;
  if (shard_guard_passes() || !serve_dents(fd, buf, size, &n)) {
    return shard_real()->getdents64(fd, buf, size);
  }
  return to_result(n);
}

/* Does the same for getdirentries(), where *base gets the offset before the call. */
static ssize_t serve_direntries(int fd, char *buf, size_t size, off_t *base, ssize_t *n) {
  off_t before = lseek(fd, 0, SEEK_CUR);
  if (!serve_dents(fd, buf, size, n)) {
    return 0;
  }
  if (*n >= 0) {
    *base = before;
  }
  return 1;
}

SHARD_EXPORT ssize_t getdirentries(int fd, char *restrict buf, size_t size, off_t *restrict base) {
  ssize_t n;
  if (shard_guard_passes() || !serve_direntries(fd, buf, size, base, &n)) {
    return shard_real()->getdirentries(fd, buf, size, base);
  }
  return to_result(n);
}

SHARD_ALIAS(getdirentries64, getdirentries);

/* ---- syscall() ---- */

#ifdef SYS_getdents
/*
 * Converts entries of getdents64 to those of getdents, in place: the name begins where d_type was,
 * and the type becomes the last byte of the record.
 */
static void narrow_entries(char *buf, ssize_t size) {
  const size_t name = offsetof(struct dirent64, d_name), type = offsetof(struct dirent64, d_type);
  for (ssize_t at = 0; at < size;) {
    struct dirent64 *d = (struct dirent64 *)(buf + at);
    size_t record = d->d_reclen;
    char kind = buf[at + (ssize_t)type];
    memmove(buf + at + type, buf + at + name, record - name);
    buf[at + (ssize_t)record - 1] = kind;
    at += (ssize_t)record;
  }
}
#endif

/* Serves syscall(SYS_getdents64 or SYS_getdents, fd, buf, size). The assembly below jumps here. */
long shard_dents_syscall(long number, int fd, char *buf, unsigned size);
__attribute__((used)) long shard_dents_syscall(long number, int fd, char *buf, unsigned size) {
  ssize_t n;
  if (shard_guard_passes() || !serve_dents(fd, buf, size, &n)) {
    return shard_real()->syscall(number, fd, buf, size);
  }
#ifdef SYS_getdents
  if (number == SYS_getdents) {
    narrow_entries(buf, n);
  }
#endif
  return to_result(n);
}

#if defined(__x86_64__)
/*
 * All other system calls jump to libc's syscall() with registers and stack untouched, because
 * syscall() is variadic, and a call may return twice (fork, clone with a new stack). The first call
 * finds libc's syscall().
 */
extern long (*shard_dents_next)(long number, ...) __attribute__((visibility("hidden")));
long (*shard_dents_next)(long number, ...);

void shard_dents_resolve(void);
__attribute__((used)) void shard_dents_resolve(void) { shard_dents_next = shard_real()->syscall; }

static_assert(SYS_getdents64 == 217 && SYS_getdents == 78, "numbers in the assembly");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        ".p2align 4\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  cmpl $217, %edi\n"
        "  je shard_dents_syscall\n"
        "  cmpl $78, %edi\n"
        "  je shard_dents_syscall\n"
        "  movq shard_dents_next(%rip), %rax\n"
        "  testq %rax, %rax\n"
        "  je 1f\n"
        "  jmp *%rax\n"
        "1:\n"
        "  pushq %rdi\n"
        "  pushq %rsi\n"
        "  pushq %rdx\n"
        "  pushq %rcx\n"
        "  pushq %r8\n"
        "  pushq %r9\n"
        "  subq $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 56\n"
        "  call shard_dents_resolve\n"
        "  addq $8, %rsp\n"
        "  popq %r9\n"
        "  popq %r8\n"
        "  popq %rcx\n"
        "  popq %rdx\n"
        "  popq %rsi\n"
        "  popq %rdi\n"
        "  .cfi_adjust_cfa_offset -56\n"
        "  jmp *shard_dents_next(%rip)\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#else
/* Reading six arguments of a call that has fewer is harmless, because arguments come in registers.
 */
SHARD_EXPORT long syscall(long number, ...) {
  va_list list;
  long a[6];
  va_start(list, number);
  for (int i = 0; i < 6; i++) {
    a[i] = va_arg(list, long);
  }
  va_end(list);
  bool ours = number == SYS_getdents64;
#ifdef SYS_getdents
  ours = ours || number == SYS_getdents;
#endif
  return ours ? shard_dents_syscall(number, (int)a[0], (char *)a[1], (unsigned)a[2])
              : shard_real()->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif
