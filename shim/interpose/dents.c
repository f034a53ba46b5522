/* SPDX-License-Identifier: MIT */
/*
 * dents.c - reading a directory by its descriptor: getdents64 and what is like it.
 *
 * Nothing is remembered between calls: what the directory is, is looked up by its inode, and how
 * far it has been read is the file's own offset (view.h). So a descriptor may have come from
 * anywhere, and lseek() and dup() do what they always do.
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

/* 1 and *n (a negative errno on failure): served. 0: not ours. */
static int serve(int fd, void *buf, size_t size, ssize_t *n) {
  struct shard_served *served;
  int rc = shard_guard_open(fd, &served);
  if (rc == 0 && !served) {
    return 0;
  }
  *n = rc;
  if (rc == 0) {
    shard_depth++;
    /* The kernel would say EFAULT; let it try the buffer with something it writes anyway. */
    bool bad = !buf || (size >= sizeof(uint64_t) &&
                        shard_real()->syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, buf,
                                              sizeof(uint64_t)) != 0);
    *n = bad ? -EFAULT : shard_view_read(served, fd, buf, size, NULL);
    shard_view_close(served);
    shard_depth--;
  }
  return 1;
}

static ssize_t finish(ssize_t n) {
  if (n < 0) {
    errno = (int)-n;
    return -1;
  }
  return n;
}

SHARD_EXPORT ssize_t getdents64(int fd, void *buf, size_t size) {
  ssize_t n;
  if (shard_guard_passes() || !serve(fd, buf, size, &n)) {
    return shard_real()->getdents64(fd, buf, size);
  }
  return finish(n);
}

/* *base is where reading began. */
static ssize_t with_base(int fd, char *buf, size_t size, off_t *base, ssize_t *n) {
  off_t before = lseek(fd, 0, SEEK_CUR);
  if (!serve(fd, buf, size, n)) {
    return 0;
  }
  if (*n >= 0) {
    *base = before;
  }
  return 1;
}

SHARD_EXPORT ssize_t getdirentries(int fd, char *restrict buf, size_t size, off_t *restrict base) {
  ssize_t n;
  if (shard_guard_passes() || !with_base(fd, buf, size, base, &n)) {
    return shard_real()->getdirentries(fd, buf, size, base);
  }
  return finish(n);
}

SHARD_EXPORT ssize_t getdirentries64(int fd, char *restrict buf, size_t size,
                                     off64_t *restrict base) {
  ssize_t n;
  if (shard_guard_passes() || !with_base(fd, buf, size, base, &n)) {
    return shard_real()->getdirentries64(fd, buf, size, base);
  }
  return finish(n);
}

/* ---- syscall()
 * ----------------------------------------------------------------------------------- */

#ifdef SYS_getdents
/*
 * Turn entries of getdents64 into those of getdents, in place: the name begins where d_type was,
 * and the type is the record's last byte, which both forms have room for.
 */
static void to_old_form(char *buf, ssize_t size) {
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

/* syscall(SYS_getdents64 or SYS_getdents, fd, buf, size); called from the assembly below. */
long shard_syscall_dents(long number, int fd, char *buf, unsigned size);
__attribute__((used)) long shard_syscall_dents(long number, int fd, char *buf, unsigned size) {
  ssize_t n;
  if (shard_guard_passes() || !serve(fd, buf, size, &n)) {
    return shard_real()->syscall(number, fd, buf, size);
  }
#ifdef SYS_getdents
  if (number == SYS_getdents) {
    to_old_form(buf, n);
  }
#endif
  return finish(n);
}

/*
 * All other calls go to libc's own with registers and stack untouched: it is variadic, and a call
 * may return twice (fork, clone with a stack of its own).
 */
extern long (*shard_syscall_real)(long number, ...) __attribute__((visibility("hidden")));
long (*shard_syscall_real)(long number, ...);

__attribute__((used)) void shard_syscall_resolve(void) {
  shard_syscall_real = shard_real()->syscall;
}

#if defined(__x86_64__)
static_assert(SYS_getdents64 == 217 && SYS_getdents == 78, "numbers in the assembly");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        ".p2align 4\n"
        "syscall:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  cmpl $217, %edi\n"
        "  je shard_syscall_dents\n"
        "  cmpl $78, %edi\n"
        "  je shard_syscall_dents\n"
        "  movq shard_syscall_real(%rip), %rax\n"
        "  testq %rax, %rax\n"
        "  je 1f\n"
        "  jmp *%rax\n"
        "1:\n" /* before the constructor ran */
        "  pushq %rdi\n"
        "  pushq %rsi\n"
        "  pushq %rdx\n"
        "  pushq %rcx\n"
        "  pushq %r8\n"
        "  pushq %r9\n"
        "  subq $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 56\n"
        "  call shard_syscall_resolve\n"
        "  addq $8, %rsp\n"
        "  popq %r9\n"
        "  popq %r8\n"
        "  popq %rcx\n"
        "  popq %rdx\n"
        "  popq %rsi\n"
        "  popq %rdi\n"
        "  .cfi_adjust_cfa_offset -56\n"
        "  jmp *shard_syscall_real(%rip)\n"
        "  .cfi_endproc\n"
        ".size syscall, .-syscall\n");
#else
/* Reading six arguments of a call that may have fewer is harmless where they come in registers. */
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
  return ours ? shard_syscall_dents(number, (int)a[0], (char *)a[1], (unsigned)a[2])
              : shard_real()->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
#endif
