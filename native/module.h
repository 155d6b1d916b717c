/* What the modules share: their clock, and how they add their types and the digest of their sources,
 * by which workbench/engine/compiled_modules.py sees whether they are of this tree. */
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

/* Make a type of the module and add it there; the caller has a reference, or NULL and an error. */
static inline PyTypeObject *added(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0)
        Py_CLEAR(type);
    return type;
}

/* Make a type that only the module's name keeps. */
static inline int add_type(PyObject *module, PyType_Spec *spec)
{
    PyTypeObject *type = added(module, spec);
    Py_XDECREF(type);
    return type == NULL ? -1 : 0;
}

static inline int add_sources(PyObject *module)
{
    return PyModule_AddStringConstant(module, "SOURCES", WORKBENCH_SOURCES);
}

#endif
