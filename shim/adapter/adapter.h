/* SPDX-License-Identifier: MIT */
/* adapter.h - the CPython side, if this process is a CPython. */
#pragma once

/*
 * Register an audit hook (PEP 578) if the process has CPython's symbols. Costs one symbol lookup
 * elsewhere. From then on the first import of a module we adapt to, or of one of our own by a
 * worker that unpickles a handle, runs the embedded package (__init__.py).
 */
void shard_adapter_init(void);
