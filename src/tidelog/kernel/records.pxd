cimport cython
cimport tidelog.kernel.primitives as primitives
cimport tidelog.kernel.varints as varints

cdef long long _FAR
cdef Py_ssize_t _AROUND_BYTES

cpdef list decode_records(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_offset,
                          long long base_timestamp)

cpdef list decode_messages(object cls, object topic, object partition, object buf, Py_ssize_t pos, Py_ssize_t end,
                           long long count, long long base_offset, long long base_timestamp, long long first,
                           long long append_time)

@cython.locals(_="long long", view=object, data="const unsigned char*", found=list, length="long long",
               stop=Py_ssize_t, delta="long long", offset_delta="long long", size="long long", headers=tuple,
               timestamp="long long", offset="long long")
cdef list _decode(object cls, object topic, object partition, object buf, Py_ssize_t pos, Py_ssize_t end,
                  long long count, long long base_offset, long long base_timestamp, long long first,
                  long long append_time)

@cython.locals(view=object, data="const unsigned char*", index="long long", length="long long",
               stop=Py_ssize_t, _="long long", size="long long", total="long long", found=list)
cpdef tuple without_key(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long most)

cpdef list times_outside(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_timestamp,
                         long long oldest, long long newest, long long first_delta, long long most, bint dense)

cpdef tuple refused_times(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_timestamp,
                          long long oldest, long long newest, long long most)

@cython.locals(view=object, data="const unsigned char*", index="long long", length="long long",
               stop=Py_ssize_t, delta="long long", offset_delta="long long", timestamp="long long", found=list,
               size="long long", total="long long")
cdef tuple _times(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_timestamp,
                  long long oldest, long long newest, long long first_delta, long long most, bint dense, bint whole)

@cython.locals(view=object, data="const unsigned char*", _="long long", length="long long", stop=Py_ssize_t,
               delta="long long", offset_delta="long long", latest="long long")
cpdef long long latest_time(object buf, Py_ssize_t pos, Py_ssize_t end, long long count, long long base_timestamp,
                            long long first_delta, long long stop_delta) except? -2

@cython.locals(out=bytearray, rows=list, timestamp="long long", target="unsigned char*", capacity=Py_ssize_t, pos=Py_ssize_t,
               stamp="unsigned long long", place="unsigned long long", key_bytes=bytes, value_bytes=bytes, tail=bytes,
               key_size=Py_ssize_t, value_size=Py_ssize_t, key_raw="unsigned long long",
               value_raw="unsigned long long", length=Py_ssize_t, index=Py_ssize_t)
cpdef bytearray encode_records(object records, long long base_timestamp, object offset_deltas=*)

@cython.locals(found=list, size="long long", name=str, value=object)
cdef tuple _headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, long long count)

@cython.locals(size="long long", _="long long")
cdef Py_ssize_t _skip_headers(const unsigned char* data, Py_ssize_t pos, Py_ssize_t stop, long long count) except -1
