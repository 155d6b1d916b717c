/* What the modules share: their clock, and how they add their types. */
#ifndef WORKBENCH_MODULE_H
#define WORKBENCH_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <time.h>

/* Return the seconds of time.perf_counter. */
static inline double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Make a type and add it to the module, which keeps it. */
static inline PyTypeObject *added(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(spec);
    if (type == NULL || PyModule_AddType(module, type) < 0)
        return NULL;
    return type;
}

#endif
