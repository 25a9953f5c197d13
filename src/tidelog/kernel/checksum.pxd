cimport cython
cimport tidelog.kernel.primitives as primitives

@cython.locals(view=object)
cpdef object crc32c(object data, unsigned int value=*)

@cython.locals(view=object)
cpdef object crc32c_by_tables(object data, unsigned int value=*)
