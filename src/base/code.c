/* The questions about codes, answered from the one table in pawl.h: a code that is added there is
 * known here without a change. The numbers have gaps, so these are switches and not arrays. */
#include <pawl.h>

const char *pawl_code_name(pawl_code code)
{
    switch ((int)code) {
#define NAME(name, number, retry, exit_code, text)                                                 \
    case PAWL_##name:                                                                              \
        return "PAWL_" #name;
        PAWL_CODES(NAME)
#undef NAME
    }
    return "PAWL_?";
}

const char *pawl_code_text(pawl_code code)
{
    switch ((int)code) {
#define TEXT(name, number, retry, exit_code, text)                                                 \
    case PAWL_##name:                                                                              \
        return text;
        PAWL_CODES(TEXT)
#undef TEXT
    }
    return "not a code of pawl";
}

int pawl_code_retryable(pawl_code code)
{
    switch ((int)code) {
#define RETRY(name, number, retry, exit_code, text)                                                \
    case PAWL_##name:                                                                              \
        return retry;
        PAWL_CODES(RETRY)
#undef RETRY
    }
    return 0;
}

const char *pawl_version(void)
{
    return PAWL_VERSION;
}

int pawl_version_number(void)
{
    return PAWL_VERSION_NUMBER;
}
