/* SPDX-License-Identifier: MIT */
/* adapter.h - starts the adapter in a process that runs CPython. */
#pragma once

/*
 * Registers an audit hook (PEP 578), if the process has CPython's symbols; without them, looks up
 * one symbol and returns. The hook runs the embedded package (__init__.py) at the first import of a
 * module that the adapter changes, or of a module of the package, which a worker imports to
 * unpickle a handle. Called when the library is loaded.
 */
void shard_adapter_init(void);
