/* SPDX-License-Identifier: MIT */
/*
 * names COUNT sorted|shuffled|gaps|uuid - names for measuring: as DLIO makes them, in order or
 * permuted (k -> a k + b mod COUNT, a prime to COUNT) or without every tenth; or random UUIDs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t divisor(uint64_t a, uint64_t b) { return b ? divisor(b, a % b) : a; }

static uint64_t mixed(uint64_t *state) { /* splitmix64 (Vigna) */
  uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
  return z ^ z >> 31;
}

int main(int argc, char **argv) {
  static char buffer[1 << 20];
  uint64_t count = argc == 3 ? strtoull(argv[1], NULL, 10) : 0, a = 1, at = 0, state = 1;
  if (count == 0 || (strcmp(argv[2], "sorted") != 0 && strcmp(argv[2], "shuffled") != 0 &&
                     strcmp(argv[2], "gaps") != 0 && strcmp(argv[2], "uuid") != 0)) {
    fprintf(stderr, "usage: names COUNT sorted|shuffled|gaps|uuid\n");
    return 2;
  }
  if (argv[2][1] == 'h') {
    for (a = (uint64_t)((double)count * 0.6180339887) | 1; divisor(a, count) != 1; a += 2) {
    }
  }
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  int width = (argv[2][0] == 'g') + snprintf(NULL, 0, "%llu", (unsigned long long)count);
  for (uint64_t k = 0; k < count; k++, at = (at + a) % count) {
    if (argv[2][0] == 'u') {
      uint64_t x = mixed(&state), y = mixed(&state);
      printf("%08x-%04x-4%03x-%04x-%012llx\n", (unsigned)(x >> 32), (unsigned)(x >> 16 & 65535),
             (unsigned)(x & 4095), (unsigned)(y >> 48 | 0x8000),
             (unsigned long long)(y & 0xffffffffffffULL));
    } else {
      uint64_t number = argv[2][0] == 'g' ? at + at / 9 : at;
      printf("img_%0*llu_of_%llu.jpeg\n", width, (unsigned long long)number,
             (unsigned long long)count);
    }
  }
  return fflush(stdout) != 0;
}
