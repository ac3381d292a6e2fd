/* A structured log that goes to a callback of the application.
 *
 * An event is a short name and fields "key=value". A value with a space, a quote, an equals sign
 * or a control character is quoted and escaped, so that one event is always one line. Apart from
 * the lines of pawl_log() and pawl_work_log(), which are the application's, no event carries a
 * payload, a URL or anything else that could be a secret. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdint.h>

typedef enum { LOG_DEBUG = 0, LOG_INFO = 1, LOG_WARNING = 2, LOG_ERROR = 3 } log_level;

typedef struct log_sink {
    void (*write)(int level, const char *event, const char *fields, void *arg);
    void *arg;
} log_sink;

/* One field; an array of them ends with a NULL key. `text` NULL: the value is the number. */
typedef struct log_field {
    const char *key;
    const char *text;
    int64_t number;
} log_field;

#define LOG_NUM(k, v) ((log_field){(k), NULL, (v)})
#define LOG_TEXT(k, v) ((log_field){(k), (v), 0})

/* A sink of zeroes logs nothing. Lines are cut at 1 KiB. */
void log_event(const log_sink *sink, log_level level, const char *event, const log_field *fields);

#define LOG(sink, level, event, ...)                                                               \
    log_event((sink), (level), (event), (const log_field[]){__VA_ARGS__, {NULL, NULL, 0}})

#endif
