/* SPDX-License-Identifier: MIT */
/*
 * readdir_r DIR - read a directory by readdir_r(), twice, into no more room than POSIX asks for (a
 * name of NAME_MAX bytes): print the names, and after each pass what the end returns.
 */
#include <dirent.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#define ROOM (offsetof(struct dirent, d_name) + NAME_MAX + 1)

int main(int argc, char **argv) {
  char *room = malloc(ROOM + 64);
  struct dirent *entry = (struct dirent *)room, *result;
  DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
  if (!dir) {
    perror("opendir");
    return 2;
  }
  for (int pass = 0; pass < 2; pass++) {
    int rc;
    memset(room, '#', ROOM + 64);
    while ((rc = readdir_r(dir, entry, &result)) == 0 && result) {
      if (result != entry || strlen(entry->d_name) > NAME_MAX || entry->d_reclen > sizeof(*entry)) {
        printf("a name that is too long, or its length: %d\n", entry->d_reclen);
      }
      printf("%s\n", entry->d_name);
    }
    for (int i = 0; i < 64; i++) {
      if (room[ROOM + (size_t)i] != '#') {
        printf("written past the room: byte %d\n", i);
      }
    }
    printf("%s, again %s\n", strerror(rc), strerror(readdir_r(dir, entry, &result)));
    rewinddir(dir);
  }
  return closedir(dir);
}
