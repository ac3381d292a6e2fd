/* Results of several rounds: medians, the JSON line, the line for the eye. Nothing here knows what
 * was measured. */
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int report_rounds(void)
{
    const char *text = getenv("PAWL_BENCH_ROUNDS");
    long rounds = text ? strtol(text, NULL, 10) : REPORT_ROUNDS;
    return rounds >= 1 && rounds <= REPORT_ROUNDS ? (int)rounds : REPORT_ROUNDS;
}

int report_runs(int usual)
{
    const char *text = getenv("PAWL_BENCH_RUNS");
    long runs = text ? strtol(text, NULL, 10) : 0;
    return runs >= 100 && runs <= 100000000 ? (int)runs : usual;
}

int64_t report_at_risk(void)
{
    const char *text = getenv("PAWL_BENCH_AT_RISK");
    return text ? strtoll(text, NULL, 10) : 0;
}

static const report_key *find(const report *r, const char *key)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->keys[i].name, key) == 0)
            return &r->keys[i];
    return NULL;
}

void report_set(report *r, int round, const char *key, double value, int digits)
{
    report_key *k = (report_key *)find(r, key);
    if (!k) {
        if (r->count == REPORT_KEYS)
            bench_die("a result has too many keys");
        k = &r->keys[r->count++];
        *k = (report_key){.name = key, .digits = digits};
    }
    k->at[round] = value;
    if (round >= r->rounds)
        r->rounds = round + 1;
}

static double median(const report *r, const report_key *k)
{
    return k ? bench_median(k->at, r->rounds) : 0;
}

static int is_first(const char *key)
{
    return strcmp(key, "value") == 0 || strcmp(key, "floor") == 0 || strcmp(key, "ratio") == 0;
}

static void print_json(const report *r, const report_key *rounds)
{
    static const char *const first[] = {"value", "floor", "ratio"};
    buf b;
    bench_json_begin(&b, r->bench, r->name, r->on->name);
    for (int i = 0; i < 3; i++) {
        const report_key *k = find(r, first[i]);
        if (k)
            bench_json_number(&b, k->name, median(r, k), k->digits);
        if (i == 0)
            bench_json_text(&b, "in", r->in);
    }
    bench_json_numbers(&b, "rounds", rounds->at, r->rounds, rounds->digits);
    for (int i = 0; i < r->count; i++)
        if (!is_first(r->keys[i].name))
            bench_json_number(&b, r->keys[i].name, median(r, &r->keys[i]), r->keys[i].digits);
    bench_json_end(&b);
}

static void print_table(const report *r, const report_key *rounds)
{
    char name[48];
    const report_key *value = find(r, "value"), *low = find(r, "floor"), *ratio = find(r, "ratio");
    snprintf(name, sizeof name, "%s:%s", r->on->name, r->name);
    fprintf(stderr, "%-18s %10.*f %-8s", name, value->digits, median(r, value), r->in);
    if (low)
        fprintf(stderr, " floor %.*f", low->digits, median(r, low));
    if (ratio)
        fprintf(stderr, "  ratio %.*f", ratio->digits, median(r, ratio));
    fprintf(stderr, "  [");
    for (int i = 0; i < r->rounds; i++)
        fprintf(stderr, "%s%.*f", i ? " " : "", rounds->digits, rounds->at[i]);
    fprintf(stderr, "]\n%18s", "");
    for (int i = 0; i < r->count; i++)
        if (!is_first(r->keys[i].name))
            fprintf(stderr, " %s=%.*f", r->keys[i].name, r->keys[i].digits, median(r, &r->keys[i]));
    fputc('\n', stderr);
}

void report_print(const report *r, const char *note)
{
    const report_key *rounds = find(r, "ratio");
    if (!rounds)
        rounds = find(r, "value");
    if (!rounds)
        bench_die("a result without a value");
    print_table(r, rounds);
    if (note)
        fprintf(stderr, "%19s%s\n", "", note);
    print_json(r, rounds);
}
