/*
 * SQL in string literals of src: the columns whose numbers have names (src/db/columns.h) are never
 * compared with, or set to, a literal. {LIVE} follows its enum, and grep finds it; 0 does neither.
 * 0 may stand beside `held`: it is the absence of a reason, and no member of the enum.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidy.h"

static const char *const COLUMNS[] = {"phase", "held", "kind"};

/* What string literals say, one after the other: neighbours are one text, as for the compiler, and
 * a line feed stands where code is between two. */
struct literals {
    char *text;
    size_t *line_of; /* by position in the text */
    size_t size;
};

static void add_character(struct literals *out, char c, size_t line)
{
    out->text = grow(out->text, out->size + 2, 1);
    out->line_of = grow(out->line_of, out->size + 2, sizeof *out->line_of);
    out->text[out->size] = c;
    out->line_of[out->size++] = line;
    out->text[out->size] = '\0';
}

static void gather_literals(const struct source *source, struct literals *out)
{
    add_character(out, '\n', 1);
    for (size_t i = 0; i < source->line_count; i++) {
        const char *text = source->text.lines[i];
        for (size_t at = 0; text[at] != '\0'; at++) {
            char code = source->code.lines[i][at];
            bool in_literal = code == ' ' && source->notes.lines[i][at] == ' ';
            if (code != ' ' && code != '\\' && out->text[out->size - 1] != '\n')
                add_character(out, '\n', i + 1);
            else if (in_literal && text[at] != '"' && text[at] != '\\')
                add_character(out, text[at], i + 1);
        }
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " ");
}

/* The keyword stands here: what is behind it; otherwise NULL. */
static const char *after_keyword(const char *at, const char *keyword)
{
    size_t length = strlen(keyword);
    return starts_with(at, keyword) && !is_word(at[length]) ? skip_blanks(at + length) : NULL;
}

/* The column that is named here, perhaps with its table; NULL: another one, or none. */
static const char *column_at(const char *at)
{
    size_t table = 0;
    while (is_word(at[table]))
        table++;
    if (at[table] == '.')
        at += table + 1;
    for (size_t i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; i++)
        if (after_keyword(at, COLUMNS[i]) != NULL)
            return COLUMNS[i];
    return NULL;
}

static void check_number(struct source *source, const struct literals *in, const char *at,
                         const char *column)
{
    if (!isdigit((unsigned char)*at))
        return;
    if (strcmp(column, "held") == 0 && *at == '0' && !is_word(at[1]))
        return;
    report(source, in->line_of[at - in->text],
           "the column %s with a number in SQL (a macro of src/db/columns.h, as {LIVE})", column);
}

/* The branches of CASE … END, which begins behind `at`. `column`: what the value is assigned to or
 * compared with; NULL: nothing of interest, unless a branch gives a column that is. */
static void check_case(struct source *source, const struct literals *in, const char *at,
                       const char *column)
{
    const char *values[16];
    size_t count = 0;
    for (int depth = 1; depth > 0 && *at != '\0' && *at != '\n';) {
        const char *then = after_keyword(at, "THEN");
        const char *value = then != NULL ? then : after_keyword(at, "ELSE");
        if (value != NULL && depth == 1 && count < sizeof values / sizeof *values) {
            values[count++] = value;
            column = column != NULL ? column : column_at(value);
        }
        depth += after_keyword(at, "CASE") != NULL;
        depth -= after_keyword(at, "END") != NULL;
        while (is_word(*at))
            at++;
        while (*at != '\0' && !is_word(*at) && *at != '\n')
            at++;
    }
    for (size_t i = 0; i < count && column != NULL; i++)
        check_number(source, in, values[i], column);
}

/* What the column is compared with, or set to. Gives the inside of a CASE that was checked. */
static const char *check_operand(struct source *source, const struct literals *in, const char *at,
                                 const char *column)
{
    const char *after = after_keyword(at, "NOT");
    after = after_keyword(after != NULL ? after : at, "IN");
    if (after != NULL && *after == '(') {
        for (at = after + 1; *at != ')' && *at != '\n' && *at != '\0'; at++)
            if (!is_word(at[-1]) && at[-1] != '$')
                check_number(source, in, at, column);
        return NULL;
    }
    size_t sign = strspn(at, "=<>!");
    at = skip_blanks(at + sign);
    after = after_keyword(at, "CASE");
    if (sign > 0 && after != NULL)
        check_case(source, in, after, column);
    else if (sign > 0)
        check_number(source, in, at, column);
    return after;
}

void check_sql(struct source *source)
{
    struct literals in = {0};
    const char *checked = NULL;
    if (!starts_with(source->path, "src/"))
        return;
    gather_literals(source, &in);
    for (const char *at = in.text + 1; *at != '\0'; at++) {
        if (is_word(at[-1]))
            continue;
        const char *column = column_at(at);
        const char *branches = after_keyword(at, "CASE");
        if (column != NULL && starts_with(at, column))
            checked = check_operand(source, &in, skip_blanks(at + strlen(column)), column);
        else if (branches != NULL && branches != checked)
            check_case(source, &in, branches, NULL);
    }
    free(in.text);
    free(in.line_of);
}
