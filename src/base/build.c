/* The first program in the list of loaded ones is the executable; its notes are in memory, one
 * behind the other: sizes of name and data, kind, name, data, each padded to four bytes. */
#define _GNU_SOURCE
#include "base/build.h"

#include <link.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"

enum { ID_MAX = 64 };

static size_t padded(size_t size)
{
    return (size + 3) & ~(size_t)3;
}

static void find_in_notes(const char *at, size_t size, buf *out)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        size_t name = padded(note->n_namesz), data = padded(note->n_descsz);
        size_t whole = sizeof *note + name + data;
        if (whole > size)
            return;
        const char *bytes = at + sizeof *note;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            memcmp(bytes, "GNU", 4) == 0) {
            for (size_t i = 0; i < note->n_descsz && i < ID_MAX; i++)
                buf_printf(out, "%02x", (unsigned char)bytes[name + i]);
            return;
        }
        at += whole;
        size -= whole;
    }
}

/* Returns 1 to end the iteration: only the first one is the executable. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            find_in_notes((const char *)(info->dlpi_addr + p->p_vaddr), p->p_memsz, arg);
    }
    return 1;
}

const char *build_id(arena *a)
{
    char text[2 * ID_MAX + 1];
    buf b;
    struct stat st;
    buf_init_fixed(&b, text, sizeof text);
    dl_iterate_phdr(find_build_id, &b);
    if (b.size == 0 && stat("/proc/self/exe", &st) == 0)
        buf_printf(&b, "%lld-%lld", (long long)st.st_size, (long long)st.st_mtime);
    return arena_copy(a, (slice){text, b.size});
}
