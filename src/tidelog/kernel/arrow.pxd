cimport cython
cimport tidelog.kernel.primitives as primitives

cdef int _OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE, _KEY, _VALUE, _HEADERS
cdef long long _FAR
cdef long long _MOST
cdef long long _LAST_TIME
cdef Py_ssize_t _FIRST_HEADERS, _FIRST_SHARE

cdef class _Sink:
    cdef public int wanted
    cdef public Py_ssize_t rows
    cdef public bytearray offsets, timestamps, types
    cdef public Py_ssize_t key_nulls, key_bytes
    cdef public bytearray key_validity, key_offsets, key_data
    cdef public Py_ssize_t value_nulls, value_bytes
    cdef public bytearray value_validity, value_offsets, value_data
    cdef public Py_ssize_t headers, header_nulls, header_room, name_bytes, header_bytes
    cdef public bytearray list_offsets, name_offsets, names, header_validity, header_offsets, header_data

    @cython.locals(has=int)
    cpdef tuple columns(self)
    cpdef object more_headers(self)

@cython.locals(view=object, data="const unsigned char*", places=list, base_offset="long long", length="long long",
               magic="long long", last_delta="long long", count="long long", stop=Py_ssize_t, crc="long long",
               found="long long")
cpdef list batch_places(object buf, Py_ssize_t pos, Py_ssize_t end, bint check)

@cython.locals(rows=Py_ssize_t, total=Py_ssize_t, pos=Py_ssize_t, end=Py_ssize_t, count="long long",
               base_offset="long long", base_timestamp="long long", append_time="long long", sink=_Sink)
cpdef tuple decode_columns(list segments, int wanted, long long first, long long stop, long long oldest,
                           long long newest, long long scale)

@cython.locals(view=object, data="const unsigned char*", wanted=int, rows=Py_ssize_t, latest="long long",
               offsets="unsigned char*", timestamps="unsigned char*", types="unsigned char*",
               list_offsets="unsigned char*", key_validity="unsigned char*", key_offsets="unsigned char*",
               key_data="unsigned char*", key_bytes=Py_ssize_t, key_nulls=Py_ssize_t, key_room=Py_ssize_t,
               value_validity="unsigned char*", value_offsets="unsigned char*", value_data="unsigned char*",
               value_bytes=Py_ssize_t, value_nulls=Py_ssize_t, _="long long", length="long long", at=Py_ssize_t,
               delta="long long", offset_delta="long long", offset="long long", timestamp="long long",
               size="long long")
cdef object _fill(_Sink sink, object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_offset,
                  long long base_timestamp, long long append_time, long long first, long long stop,
                  long long oldest, long long newest, long long scale)

@cython.locals(name_offsets="unsigned char*", names="unsigned char*", validity="unsigned char*",
               offsets="unsigned char*", values="unsigned char*", place=Py_ssize_t, _="long long", size="long long")
cdef Py_ssize_t _fill_headers(_Sink sink, const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop,
                              long long count) except -2

@cython.locals(raw="unsigned long long", byte="unsigned long long", shift=int)
cdef (long long, Py_ssize_t) _number(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept

@cython.locals(place=Py_ssize_t)
cdef bint _is_ascii(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept

cdef tuple _binary(Py_ssize_t rows, Py_ssize_t nulls, bytearray validity, bytearray offsets, bytearray data,
                   Py_ssize_t size)

cdef bytearray _ended(bytearray offsets, Py_ssize_t rows, Py_ssize_t end)

cdef Py_ssize_t _grow(bytearray buffer, Py_ssize_t at_least) except -1

cdef bytearray _cut(bytearray buffer, Py_ssize_t size)
