cimport cython
cimport tidelog.kernel.primitives as primitives
cimport tidelog.kernel.varints as varints

cdef bytes _NO_DIRECTORY

@cython.locals(_="long long", view=object, data="const unsigned char*", end=Py_ssize_t, acks="long long",
               timeout_ms="long long", topic_count="long long", partition_count="long long", topics=list,
               partitions=list, index="long long", size="long long", left="long long")
cpdef tuple decode_produce(object frame, Py_ssize_t pos, int version, long long most=*)

@cython.locals(_="long long", view=object, data="const unsigned char*", end=Py_ssize_t, replica_id="long long",
               replica_epoch="long long", size="long long", topic_count="long long", forgotten_count="long long", topics=list,
               forgotten=list, state_pos=Py_ssize_t, left="long long", partitions=list, indexes=list)
cpdef tuple decode_fetch(object frame, Py_ssize_t pos, int version, long long most=*)

@cython.locals(_="long long", count="long long", partitions=list, index="long long", leader_epoch="long long", offset="long long",
               last_epoch="long long", log_start="long long", max_bytes="long long", directory_id=bytes)
cdef tuple _fetch_partitions(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int version, long long left)

@cython.locals(_="long long", count="long long", indexes=list)
cdef tuple _indexes(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, long long left)

@cython.locals(_="long long", tags="long long", tag="long long", size="long long", last="long long", stop=Py_ssize_t,
               state_pos=Py_ssize_t)
cdef tuple _fetch_tags(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int version)

@cython.locals(_="long long", tags="long long", tag="long long", size="long long", last="long long")
cdef tuple _directory_tag(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end)

@cython.locals(_="long long", tags="long long", tag="long long", size="long long", last="long long")
cdef Py_ssize_t _skip_tags(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except -1

@cython.locals(size="long long")
cdef tuple _topic(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int version)

@cython.locals(size="long long")
cdef (long long, Py_ssize_t) _text_size(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

cdef str _text(const unsigned char* data, Py_ssize_t pos, long long size)

@cython.locals(_="long long", count="long long")
cdef (long long, Py_ssize_t) _count(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) except *

cdef long long _spend(long long left, long long count) except -1

cdef int _need(Py_ssize_t pos, long long size, Py_ssize_t end) except -1

cdef int _in_order(long long last, long long tag) except -1

cdef int _filled(long long tag, Py_ssize_t pos, Py_ssize_t stop) except -1
