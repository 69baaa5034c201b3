/*
 * symbol.c - the name of a function of the program's own executable.
 *
 * dladdr only knows exported functions, and a Go program exports none; nor may
 * a signal handler call it. So the executable's symbol table is read: map the
 * file, find SHT_SYMTAB, compare. Everything used is async-signal-safe. Other
 * object formats, and stripped programs, give no name.
 */
#include "symbol.h"

#ifdef __linux__

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
  const char *base;
  size_t size;
};

static bool inside(const struct image *im, uint64_t offset, uint64_t n) {
  return offset <= im->size && n <= im->size - offset;
}

static const ElfW(Shdr) * section(const struct image *im, unsigned i) {
  const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)im->base;
  uint64_t offset = eh->e_shoff + (uint64_t)i * sizeof(ElfW(Shdr));
  return i < eh->e_shnum && inside(im, offset, sizeof(ElfW(Shdr)))
             ? (const ElfW(Shdr) *)(im->base + offset)
             : NULL;
}

/* Where the executable has been loaded, less where it says it wants to be. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((weak, visibility("hidden")));

static uintptr_t load_bias(const struct image *im) {
  const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)im->base;
  return eh->e_type == ET_DYN ? (uintptr_t)&__ehdr_start : 0;
}

static bool search(const struct image *im, const ElfW(Shdr) * table, uintptr_t value, char *name,
                   size_t size) {
  const ElfW(Shdr) *strings = section(im, table->sh_link);
  if (!strings || !inside(im, table->sh_offset, table->sh_size) ||
      !inside(im, strings->sh_offset, strings->sh_size))
    return false;
  const ElfW(Sym) *sym = (const ElfW(Sym) *)(im->base + table->sh_offset);
  for (size_t i = 0; i < table->sh_size / sizeof *sym; i++) {
    if (sym[i].st_value != value || (sym[i].st_info & 15) != STT_FUNC ||
        sym[i].st_name >= strings->sh_size)
      continue;
    const char *s = im->base + strings->sh_offset + sym[i].st_name;
    size_t n = strnlen(s, strings->sh_size - sym[i].st_name);
    if (n >= size)
      n = size - 1;
    memcpy(name, s, n);
    name[n] = 0;
    return true;
  }
  return false;
}

static bool look_up(const struct image *im, uintptr_t address, char *name, size_t size) {
  if (im->size < sizeof(ElfW(Ehdr)) || memcmp(im->base, ELFMAG, SELFMAG) != 0)
    return false;
  const ElfW(Shdr) * s;
  for (unsigned i = 0; (s = section(im, i)) != NULL; i++)
    if (s->sh_type == SHT_SYMTAB)
      return search(im, s, address - load_bias(im), name, size);
  return false;
}

bool cfiber_symbol(uintptr_t address, char *name, size_t size) {
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  struct stat st;
  bool found = false;
  if (fd < 0)
    return false;
  if (fstat(fd, &st) == 0 && st.st_size > 0) {
    struct image im = {.size = (size_t)st.st_size};
    void *p = mmap(NULL, im.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p != MAP_FAILED) {
      im.base = p;
      found = look_up(&im, address, name, size);
      munmap(p, im.size);
    }
  }
  close(fd);
  return found;
}

#else

bool cfiber_symbol(uintptr_t address, char *name, size_t size) {
  (void)address, (void)name, (void)size;
  return false;
}

#endif
