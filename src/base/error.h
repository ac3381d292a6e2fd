/* Errors: what happened, the specifics, what to do next.
 *
 * Inside the library an error travels in an `error` that the caller provides; NULL is allowed
 * when only the code matters. At the border it is kept per handle and thread (`error_store`), so
 * that two threads on one handle never read each other's message. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <pawl.h>

typedef struct error {
    pawl_code code;
    char message[160]; /* what happened: short, factual */
    char detail[512];  /* the specifics: a path, a number, what was found */
    char hint[256];    /* what to do next */
} error;

/* Fill in code and message; detail and hint become empty. Returns the code, so that a function
 * fails in one line: return error_set(err, PAWL_LIMIT, "the name is too long"); */
pawl_code error_set(error *err, pawl_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sets PAWL_NOMEM with the message "out of memory", and returns it. */
pawl_code error_nomem(error *err);

/* Add to the error set last; a second call replaces what the first one added. Text that does not
 * fit is cut at the end, between two characters. */
void error_detail(error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_hint(error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The last error of each thread, for one handle. */
typedef struct error_store error_store;

error_store *error_store_new(void);
void error_store_free(error_store *s);

/* Remember `err` as the calling thread's last error. Returns its code. */
pawl_code error_store_put(error_store *s, const error *err);

/* The calling thread's last error: one with PAWL_OK and empty texts if it had none. Good until
 * the same thread's next put, or error_store_free(). */
const error *error_store_get(error_store *s);

/* The calling thread's last error in one text, "message: detail (hint)"; "" if there is none. Good
 * as long as that of error_store_get(). */
const char *error_store_text(error_store *s);

#endif
