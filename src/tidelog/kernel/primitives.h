/* The C twins of primitives.py: reads and writes at positions that the caller has checked, and CRC-32C. */

#ifndef TIDELOG_PRIMITIVES_H
#define TIDELOG_PRIMITIVES_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A buffer is held by a Python object, so that it is let go on every way out of a function: bytes hold themselves,
   everything else is held by a memoryview, which also keeps a bytearray from being resized. */

static inline PyObject *tidelog_view(PyObject *buf) {
    PyObject *view;
    if (PyBytes_Check(buf)) {
        Py_INCREF(buf);
        return buf;
    }
    view = PyMemoryView_FromObject(buf);
    if (view != NULL && !PyBuffer_IsContiguous(PyMemoryView_GET_BUFFER(view), 'C')) {
        Py_DECREF(view);
        PyErr_SetString(PyExc_TypeError, "the bytes must lie side by side");
        return NULL;
    }
    return view;
}

static inline Py_ssize_t tidelog_length(PyObject *view) {
    return PyBytes_Check(view) ? PyBytes_GET_SIZE(view) : PyMemoryView_GET_BUFFER(view)->len;
}

/* Of an empty buffer, an address that is never read. */
static inline const unsigned char *tidelog_start(PyObject *view) {
    const void *found = PyBytes_Check(view) ? PyBytes_AS_STRING(view) : PyMemoryView_GET_BUFFER(view)->buf;
    return (const unsigned char *)(found != NULL ? found : "");
}

/* Of a bytearray itself, good until it changes its size. */
static inline unsigned char *tidelog_writable(PyObject *view) {
    if (PyByteArray_Check(view)) return (unsigned char *)PyByteArray_AS_STRING(view);
    if (PyBytes_Check(view) || PyMemoryView_GET_BUFFER(view)->readonly) {
        PyErr_SetString(PyExc_TypeError, "the bytes cannot be written to");
        return NULL;
    }
    return (unsigned char *)tidelog_start(view);
}

/* An instance of a subclass of tuple, as `tuple.__new__` makes it, but without a tuple in between.  It is taken from the
   collector: what its makers put in holds no reference that could lead back to it. */
static inline PyObject *tidelog_row(PyObject *cls, PyObject *a, PyObject *b, PyObject *c, PyObject *d, PyObject *e,
                                    PyObject *f, PyObject *g) {
    PyObject *items[7] = {a, b, c, d, e, f, g};
    PyObject *row = ((PyTypeObject *)cls)->tp_alloc((PyTypeObject *)cls, 7);
    int i;
    if (row == NULL) return NULL;
    for (i = 0; i < 7; i++) {
        Py_INCREF(items[i]);
        PyTuple_SET_ITEM(row, i, items[i]);
    }
    PyObject_GC_UnTrack(row);
    return row;
}

static inline uint16_t tidelog_u16(const unsigned char *p) { return (uint16_t)((p[0] << 8) | p[1]); }

static inline uint32_t tidelog_u32(const unsigned char *p) {
    return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | p[3];
}

static inline uint64_t tidelog_u64(const unsigned char *p) {
    return ((uint64_t)tidelog_u32(p) << 32) | tidelog_u32(p + 4);
}

static inline void tidelog_put_u32(unsigned char *p, uint32_t v) {
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

static inline void tidelog_put_u64(unsigned char *p, uint64_t v) {
    tidelog_put_u32(p, (uint32_t)(v >> 32));
    tidelog_put_u32(p + 4, (uint32_t)v);
}

/* CRC-32C, polynomial 0x1EDC6F41, reflected: eight tables of 256 entries, eight bytes at a time. */

static uint32_t tidelog_crc_table[8][256];
static int tidelog_crc_ready = 0;
static int tidelog_crc_by_instruction = 0;

static inline uint32_t tidelog_le32(const unsigned char *p) {
    return p[0] | ((uint32_t)p[1] << 8) | ((uint32_t)p[2] << 16) | ((uint32_t)p[3] << 24);
}

static uint32_t tidelog_crc_by_table(uint32_t crc, const unsigned char *p, size_t n) {
    while (n >= 8) {
        uint32_t a = tidelog_le32(p) ^ crc, b = tidelog_le32(p + 4);
        crc = tidelog_crc_table[7][a & 255] ^ tidelog_crc_table[6][(a >> 8) & 255] ^
              tidelog_crc_table[5][(a >> 16) & 255] ^ tidelog_crc_table[4][a >> 24] ^
              tidelog_crc_table[3][b & 255] ^ tidelog_crc_table[2][(b >> 8) & 255] ^
              tidelog_crc_table[1][(b >> 16) & 255] ^ tidelog_crc_table[0][b >> 24];
        p += 8;
        n -= 8;
    }
    while (n--) crc = tidelog_crc_table[0][(crc ^ *p++) & 255] ^ (crc >> 8);
    return crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define TIDELOG_CRC_INSTRUCTION 1

/* Three streams hide the instruction's latency of three cycles.  A stream's CRC is moved over the bytes that
   follow it by four table look-ups, because appending zeros is linear in the CRC. */
#define TIDELOG_LANE 1024
static uint32_t tidelog_crc_over_lane[4][256];

static inline uint32_t tidelog_move_over_lane(uint32_t crc) {
    return tidelog_crc_over_lane[0][crc & 255] ^ tidelog_crc_over_lane[1][(crc >> 8) & 255] ^
           tidelog_crc_over_lane[2][(crc >> 16) & 255] ^ tidelog_crc_over_lane[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t tidelog_crc_sse(uint32_t start, const unsigned char *p,
                                                                  size_t n) {
    uint64_t crc = start, word;
    while (n >= 3 * TIDELOG_LANE) {
        uint64_t b = 0, c = 0, u, v, w;
        size_t i;
        for (i = 0; i < TIDELOG_LANE; i += 8) {
            memcpy(&u, p + i, 8);
            memcpy(&v, p + TIDELOG_LANE + i, 8);
            memcpy(&w, p + 2 * TIDELOG_LANE + i, 8);
            crc = __builtin_ia32_crc32di(crc, u);
            b = __builtin_ia32_crc32di(b, v);
            c = __builtin_ia32_crc32di(c, w);
        }
        crc = tidelog_move_over_lane((uint32_t)crc) ^ b;
        crc = tidelog_move_over_lane((uint32_t)crc) ^ c;
        p += 3 * TIDELOG_LANE;
        n -= 3 * TIDELOG_LANE;
    }
    while (n >= 8) {
        memcpy(&word, p, 8);
        crc = __builtin_ia32_crc32di(crc, word);
        p += 8;
        n -= 8;
    }
    while (n--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
    return (uint32_t)crc;
}
#endif

static void tidelog_crc_prepare(void) {
    int i, k;
    for (i = 0; i < 256; i++) {
        uint32_t crc = (uint32_t)i;
        for (k = 0; k < 8; k++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
        tidelog_crc_table[0][i] = crc;
    }
    for (i = 0; i < 256; i++)
        for (k = 1; k < 8; k++) {
            uint32_t crc = tidelog_crc_table[k - 1][i];
            tidelog_crc_table[k][i] = tidelog_crc_table[0][crc & 255] ^ (crc >> 8);
        }
#ifdef TIDELOG_CRC_INSTRUCTION
    {
        static const unsigned char zeros[TIDELOG_LANE];
        for (k = 0; k < 4; k++)
            for (i = 0; i < 256; i++)
                tidelog_crc_over_lane[k][i] =
                    tidelog_crc_by_table((uint32_t)i << (8 * k), zeros, TIDELOG_LANE);
        __builtin_cpu_init();
        tidelog_crc_by_instruction = __builtin_cpu_supports("sse4.2") != 0;
    }
#endif
    /* The interpreter's lock is held, so no other thread sees the tables half made. */
    tidelog_crc_ready = 1;
}

static inline uint32_t tidelog_crc32c(const unsigned char *p, size_t n, uint32_t value, int by_table) {
    uint32_t crc = ~value;
    if (!tidelog_crc_ready) tidelog_crc_prepare();
#ifdef TIDELOG_CRC_INSTRUCTION
    if (tidelog_crc_by_instruction && !by_table) return ~tidelog_crc_sse(crc, p, n);
#endif
    return ~tidelog_crc_by_table(crc, p, n);
}

#endif
