/* Pass on the audit events of Python that say what a cell does outside of its process.
 *
 * A hook cannot be removed, and is called for each event, such as that of id(). So this one
 * compares a few characters, and calls Python only for what matters, while a cell runs. It never
 * fails what caused the event.
 */
#include "module.h"

#include <string.h>

static const char *const PREFIXES[] = {
    "open", "os.", "subprocess.", "pty.", "socket.", "sqlite3.", "tempfile.", "exec",
};

static PyObject *listener;
static int active;

static int hear(const char *event, PyObject *arguments, void *unused)
{
    (void)unused;
    if (!active || strchr("ospte", event[0]) == NULL)
        return 0;
    for (size_t n = 0; n < sizeof PREFIXES / sizeof *PREFIXES; n++) {
        if (strncmp(event, PREFIXES[n], strlen(PREFIXES[n])) != 0)
            continue;
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *answer = PyObject_CallFunction(listener, "sO", event, arguments);
        if (answer == NULL)
            PyErr_Clear();
        Py_XDECREF(answer);
        PyErr_Restore(type, value, trace);
        return 0;
    }
    return 0;
}

static PyObject *listen(PyObject *self, PyObject *function)
{
    (void)self;
    PyObject *before = listener;
    listener = Py_NewRef(function);
    Py_XDECREF(before);
    if (before == NULL && PySys_AddAuditHook(hear, NULL) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *activate(PyObject *self, PyObject *flag)
{
    (void)self;
    int is_wanted = PyObject_IsTrue(flag);
    if (is_wanted < 0)
        return NULL;
    active = is_wanted && listener != NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"listen", listen, METH_O, "Call a function with the name and the arguments of each event."},
    {"activate", activate, METH_O, "Pass events on, or do not."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "audit_events", "Audit events of Python.", -1, functions,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_audit_events(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && add_sources(module) < 0)
        Py_CLEAR(module);
    return module;
}
