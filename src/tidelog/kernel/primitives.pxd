# The C twins of primitives.py.  A compiled module that says `primitives.i32(…)` gets these.

from cpython.bytearray cimport PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "primitives.h":
    object tidelog_view(object buf)
    Py_ssize_t tidelog_length(object view)
    const unsigned char* tidelog_start(object view)
    unsigned char* tidelog_writable(object view) except NULL
    object tidelog_row(object cls, object a, object b, object c, object d, object e, object f, object g)
    uint16_t tidelog_u16(const unsigned char* p) nogil
    uint32_t tidelog_u32(const unsigned char* p) nogil
    uint64_t tidelog_u64(const unsigned char* p) nogil
    void tidelog_put_u32(unsigned char* p, uint32_t v) nogil
    void tidelog_put_u64(unsigned char* p, uint64_t v) nogil
    uint32_t tidelog_crc32c(const unsigned char* p, size_t n, uint32_t value, int by_table) nogil

# `start`, `window` and `length` take what `view` has given, and nothing else.
cdef inline object view(object buf):
    return tidelog_view(buf)

cdef inline const unsigned char* start(object view) noexcept:
    return tidelog_start(view)

cdef inline const unsigned char* window(object view, Py_ssize_t pos, Py_ssize_t end) noexcept:
    return tidelog_start(view) + pos

cdef inline Py_ssize_t length(object view) noexcept:
    return tidelog_length(view)

cdef inline unsigned char* writable(object view) except NULL:
    return tidelog_writable(view)

cdef inline long long i16(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <int16_t>tidelog_u16(data + pos)

cdef inline long long i32(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <int32_t>tidelog_u32(data + pos)

cdef inline long long u32(const unsigned char* data, Py_ssize_t pos) noexcept:
    return tidelog_u32(data + pos)

cdef inline long long i64(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <int64_t>tidelog_u64(data + pos)

cdef inline long long i8(const unsigned char* data, Py_ssize_t pos) noexcept:
    return <signed char>data[pos]

cdef inline void put_i32(unsigned char* target, Py_ssize_t pos, int32_t value) noexcept:
    tidelog_put_u32(target + pos, <uint32_t>value)

cdef inline void put_i64(unsigned char* target, Py_ssize_t pos, int64_t value) noexcept:
    tidelog_put_u64(target + pos, <uint64_t>value)

cdef inline Py_ssize_t put_bytes(unsigned char* target, Py_ssize_t pos, bytes data) noexcept:
    memcpy(target + pos, <const char*>data, len(data))
    return pos + len(data)

cdef inline void put_native_i32(unsigned char* target, Py_ssize_t pos, int32_t value) noexcept:
    memcpy(target + pos, &value, 4)

cdef inline void put_native_i64(unsigned char* target, Py_ssize_t pos, int64_t value) noexcept:
    memcpy(target + pos, &value, 8)

cdef inline Py_ssize_t move(unsigned char* target, Py_ssize_t at, const unsigned char* data, Py_ssize_t pos,
                            Py_ssize_t end) noexcept:
    memcpy(target + at, data + pos, end - pos)
    return at + end - pos

cdef inline bytearray fresh(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)

cdef inline int enlarge(bytearray out, Py_ssize_t size) except -1:
    return PyByteArray_Resize(out, size)

cdef inline object row(object cls, object a, object b, object c, object d, object e, object f, object g):
    return tidelog_row(cls, a, b, c, d, e, f, g)

cdef inline str text(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end):
    return PyUnicode_DecodeUTF8(<const char*>data + pos, end - pos, NULL)

cdef inline bytes copy(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char*>data + pos, end - pos)

cdef inline long long checksum(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, uint32_t value) noexcept:
    return tidelog_crc32c(data + pos, end - pos, value, 0)

cdef inline long long portable_checksum(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end,
                                        uint32_t value) noexcept:
    return tidelog_crc32c(data + pos, end - pos, value, 1)
