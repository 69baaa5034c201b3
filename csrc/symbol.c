/*
 * symbol.c - the name of a function, of the program or of a library it has loaded.
 *
 * dladdr only knows exported functions, and a Go program exports none; nor may
 * a signal handler call it. So the symbol table of the file is read: look the
 * file up among those that are mapped, map it as a whole, find the table,
 * compare. Everything used is async-signal-safe. Other systems and object
 * formats give no name, and neither do static functions of a stripped file.
 */
#include "symbol.h"

#ifdef __linux__

#include "fault.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
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

/* What the file itself calls the address of its byte at that offset. */
static bool value_at(const struct image *im, uint64_t offset, uintptr_t *value) {
  const ElfW(Ehdr) *eh = (const ElfW(Ehdr) *)im->base;
  if (!inside(im, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(ElfW(Phdr))))
    return false;
  const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(im->base + eh->e_phoff);
  for (unsigned i = 0; i < eh->e_phnum; i++) {
    if (ph[i].p_type == PT_LOAD && offset >= ph[i].p_offset &&
        offset - ph[i].p_offset < ph[i].p_filesz) {
      *value = (uintptr_t)(offset - ph[i].p_offset + ph[i].p_vaddr);
      return true;
    }
  }
  return false;
}

static bool look_up(const struct image *im, uint64_t offset, char *name, size_t size) {
  static const unsigned types[2] = {SHT_SYMTAB, SHT_DYNSYM}; /* strip leaves the second */
  uintptr_t value;
  if (im->size < sizeof(ElfW(Ehdr)) || memcmp(im->base, ELFMAG, SELFMAG) != 0 ||
      !value_at(im, offset, &value))
    return false;
  for (unsigned t = 0; t < 2; t++) {
    const ElfW(Shdr) * s;
    for (unsigned i = 0; (s = section(im, i)) != NULL; i++)
      if (s->sh_type == types[t] && search(im, s, value, name, size))
        return true;
  }
  return false;
}

/* ---- The file that is mapped at an address --------------------------------------- */

struct reader {
  int fd;
  size_t n, at;
  char buf[512];
};

static int next_char(struct reader *r) {
  if (r->at == r->n) {
    ssize_t n = TRY(SYMBOL, -1, read(r->fd, r->buf, sizeof r->buf));
    if (n <= 0)
      return EOF;
    r->n = (size_t)n;
    r->at = 0;
  }
  return (unsigned char)r->buf[r->at++];
}

/* A hexadecimal number and the character that ends it. */
static uint64_t next_hex(struct reader *r) {
  uint64_t v = 0;
  for (int c; (c = next_char(r)) != EOF;) {
    if (c >= '0' && c <= '9')
      v = v << 4 | (uint64_t)(c - '0');
    else if (c >= 'a' && c <= 'f')
      v = v << 4 | (uint64_t)(c - 'a' + 10);
    else
      break;
  }
  return v;
}

/* Up to the end of the field, or, for the path, of the line. What does not fit is cut. */
static int next_field(struct reader *r, char end, char *field, size_t size) {
  size_t n = 0;
  int c;
  while ((c = next_char(r)) != EOF && c != end && c != '\n') {
    if (n + 1 < size && (n > 0 || c != ' ')) /* the path is indented */
      field[n++] = (char)c;
  }
  field[n] = 0;
  return c;
}

/* Each line: begin-end permissions offset device inode path. */
static bool mapped(int fd, uintptr_t address, uint64_t *offset, char *path, size_t size) {
  struct reader r = {.fd = fd};
  char ignored[32];
  for (int c = 0; c != EOF;) {
    uint64_t begin = next_hex(&r), end = next_hex(&r);
    next_field(&r, ' ', ignored, sizeof ignored);
    uint64_t from = next_hex(&r);
    next_field(&r, ' ', ignored, sizeof ignored);
    next_field(&r, ' ', ignored, sizeof ignored);
    c = next_field(&r, '\n', path, size);
    if (address >= begin && address < end) {
      *offset = address - begin + from;
      return path[0] == '/';
    }
  }
  return false;
}

/* Opens the file that the address is in. */
static int open_object(uintptr_t address, uint64_t *offset) {
  char path[1024], exe[1024];
  int fd = TRY(SYMBOL, -1, open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (fd < 0)
    return -1;
  bool found = mapped(fd, address, offset, path, sizeof path);
  TRY_DONE(CLOSE, -1, close(fd));
  if (!found)
    return -1;
  /* The program's own file can be had even if it has been deleted. */
  ssize_t n = TRY(SYMBOL, -1, readlink("/proc/self/exe", exe, sizeof exe - 1));
  exe[n < 0 ? 0 : n] = 0;
  const char *file = strcmp(path, exe) == 0 ? "/proc/self/exe" : path;
  return TRY(SYMBOL, -1, open(file, O_RDONLY | O_CLOEXEC));
}

bool cfiber_symbol(uintptr_t address, char *name, size_t size) {
  uint64_t offset = 0;
  int fd = open_object(address, &offset);
  struct stat st;
  bool found = false;
  if (fd < 0)
    return false;
  if (TRY(SYMBOL, -1, fstat(fd, &st)) == 0 && st.st_size > 0) {
    struct image im = {.size = (size_t)st.st_size};
    void *p = TRY(SYMBOL, MAP_FAILED, mmap(NULL, im.size, PROT_READ, MAP_PRIVATE, fd, 0));
    if (p != MAP_FAILED) {
      im.base = p;
      found = look_up(&im, offset, name, size);
      munmap(p, im.size);
    }
  }
  TRY_DONE(CLOSE, -1, close(fd));
  return found;
}

#else

bool cfiber_symbol(uintptr_t address, char *name, size_t size) {
  (void)address, (void)name, (void)size;
  return false;
}

#endif
