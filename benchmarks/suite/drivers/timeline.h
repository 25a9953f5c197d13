/* What every driver shares: time, arguments as name=value, the course of a run, percentiles, equal records.
 * Each driver is one file that includes this one. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define POINTS 40
#define VALUES 500

static int argument_count;
static char **arguments;

static const char *text(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 1; i < argument_count; i++)
        if (!strncmp(arguments[i], name, length) && arguments[i][length] == '=') return arguments[i] + length + 1;
    return otherwise;
}

static double number(const char *name, double otherwise) {
    const char *found = text(name, NULL);
    return found ? atof(found) : otherwise;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static double processor_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Records that look alike but are not the same: half of each is digits, half of it filler, as benchmarks/clients.py has them. */
static char *values[VALUES];

static void make_values(size_t size) {
    uint32_t seed = 2654435761u;
    for (int i = 0; i < VALUES; i++) {
        values[i] = malloc(size + 1);
        memset(values[i], '=', size);
        for (size_t k = 0; k < size / 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            values[i][k] = "0123456789abcdef"[seed >> 28];
        }
    }
}

/* The course of a run: how many messages were done when; POINTS marks over the whole. */
static uint64_t marks[POINTS + 1];
static long marked;

static void mark(long done, long all) {
    while (marked <= POINTS && done >= all * marked / POINTS) marks[marked++] = now_ns();
}

static void print_timeline(long all, size_t size) {
    printf(", \"timeline\": [");
    for (long i = 1; i < marked; i++) {
        double seconds = (marks[i] - marks[i - 1]) / 1e9;
        printf("%s[%.1f, %.0f]", i > 1 ? ", " : "", (double)all * i / POINTS * size / 1e6,
               seconds > 0 ? (double)all / POINTS / seconds : 0);
    }
    printf("]");
}

static void print_run(long count, size_t size, uint64_t start, uint64_t end) {
    double took = (end - start) / 1e9;
    printf("{\"messages\": %ld, \"seconds\": %.4f, \"messages_per_s\": %.0f, \"mb_per_s\": %.2f, \"client_cpu_s\": %.3f", count,
           took, count / took, count * (double)size / took / 1e6, processor_s());
}
