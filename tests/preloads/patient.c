/* SPDX-License-Identifier: MIT */
/*
 * patient.c - preloaded, it lets who waits by sched_yield() sleep: ranks of Open MPI, which would
 * take the CPUs of what they wait for.
 */
#include <sched.h>
#include <time.h>

int sched_yield(void) { return nanosleep(&(struct timespec){0, 50000}, NULL); }
