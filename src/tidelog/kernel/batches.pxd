cimport cython
cimport tidelog.kernel.primitives as primitives

cdef long long _LEAST_RECORD_BYTES
cdef long long _HIGHEST_OFFSET

@cython.locals(view=object, data="const unsigned char*", length=Py_ssize_t, magic="long long",
               crc="long long", found="long long", attributes="long long", last_offset_delta="long long",
               count="long long")
cpdef tuple check_batch(object buf, Py_ssize_t pos, Py_ssize_t end)

@cython.locals(view=object, target="unsigned char*")
cpdef object stamp_batch(object buf, Py_ssize_t pos, long long base_offset, int leader_epoch)

@cython.locals(view=object, data="const unsigned char*", length=Py_ssize_t, left=Py_ssize_t,
               crc="long long", base_offset="long long", last_offset_delta="long long", max_timestamp="long long",
               places=list)
cpdef tuple scan_batches(object buf, Py_ssize_t pos, Py_ssize_t end)

@cython.locals(view=object, data="const unsigned char*", held=Py_ssize_t, length=Py_ssize_t, after="long long",
               base_offset="long long", last_offset_delta="long long")
cpdef tuple skip_batches(object buf, Py_ssize_t pos, long long first_offset, long long offset, Py_ssize_t limit)
