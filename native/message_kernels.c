/* Average gradients that fit in one message: gather, add up over the ranks, check, and write back;
 * and wait for the pieces of larger ones.
 *
 * workbench/engine/exchange/single_message.py and transport.py have the same in Python, and say what
 * it means. Between two nodes MPI's library takes as long for a message of 1 kB as Python takes
 * around it. So its functions are called here, by their addresses and the handles that mpi4py has.
 */
#include "module.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define STATUS_BYTES 256   /* more than MPI_Status has in any library */
#define SIGNAL_SECONDS 0.1 /* at most, before Python's handlers run */
#define SUCCESS 0          /* MPI_SUCCESS, which the standard sets */

/* MPI's functions, by what a handle is: a pointer in Open MPI, a number in MPICH. */
typedef int (*PointerAllreduce)(const void *, void *, int, void *, void *, void *);
typedef int (*NumberAllreduce)(const void *, void *, int, int, int, int);
typedef int (*PointerSendrecv)(const void *, int, void *, int, int, void *, int, void *, int, int,
                               void *, void *);
typedef int (*NumberSendrecv)(const void *, int, int, int, int, void *, int, int, int, int, int,
                              void *);

typedef int (*Test)(void *, int *, void *); /* takes the address of a handle */

/* How this process waits for messages. */
typedef struct {
    PyObject_HEAD
    PyObject *error; /* raised with MPI's code */
    uintptr_t test;  /* a function */
    int looks;
    double shortest, longest; /* seconds between two looks */
} Waits;

/* Sums of single precision over the ranks of one communicator. */
typedef struct {
    PyObject_HEAD
    PyObject *error;               /* raised with MPI's code */
    uintptr_t allreduce, sendrecv; /* functions */
    uintptr_t comm, type, sum;     /* handles */
    uintptr_t in_place;
    int rank, size, nowhere, tag, is_pointer;
} Sums;

/* What a gradient has to be like, and its part of the message. */
typedef struct {
    PyObject *name;
    Py_ssize_t *shape;
    Py_ssize_t start, length; /* numbers */
    int dimensions;
} Row;

typedef struct {
    PyObject_HEAD
    Sums *sums;
    Row *rows;
    Py_buffer *loaded;   /* memory of the gradients, from loading to giving */
    Py_buffer message;
    Py_buffer room;      /* for other ranks' messages; none if MPI's own allreduce adds up */
    Py_ssize_t rows_count, loaded_count;
    float factor;
    double seconds; /* of the last exchange; below 0 without one */
} Message;

/* What each import of the module has of its own. */
typedef struct {
    PyTypeObject *message_type;
} State;

static struct PyModuleDef definition;

static Py_ssize_t numbers_in(const Py_buffer *view)
{
    return view->len / (Py_ssize_t)sizeof(float);
}

static int allreduce(const Sums *self, float *values, int count)
{
    if (self->is_pointer)
        return ((PointerAllreduce)self->allreduce)(
            (void *)self->in_place, values, count, (void *)self->type, (void *)self->sum,
            (void *)self->comm);
    return ((NumberAllreduce)self->allreduce)((void *)self->in_place, values, count,
                                              (int)self->type, (int)self->sum, (int)self->comm);
}

/* Send numbers to one rank while as many come from another; each may be nowhere. */
static int pass(const Sums *self, const float *values, int to, float *room, int from, int count)
{
    _Alignas(16) char status[STATUS_BYTES];
    if (self->is_pointer)
        return ((PointerSendrecv)self->sendrecv)(
            values, count, (void *)self->type, to, self->tag, room, count, (void *)self->type, from,
            self->tag, (void *)self->comm, status);
    return ((NumberSendrecv)self->sendrecv)(
        values, count, (int)self->type, to, self->tag, room, count, (int)self->type, from,
        self->tag, (int)self->comm, status);
}

static void add(float *restrict values, const float *restrict others, int count)
{
    for (int i = 0; i < count; i++)
        values[i] += others[i];
}

/* Add up as recursive_doubling.py does, with whose ranks this one may exchange. */
static int double_up(const Sums *self, float *values, float *room, int count)
{
    int power = 1, code = 0;
    while (2 * power <= self->size)
        power *= 2;
    const int rank = self->rank, nowhere = self->nowhere, beyond = self->size - power;
    if (rank >= power) {
        code = pass(self, values, rank - power, room, nowhere, count);
        return code ? code : pass(self, room, nowhere, values, rank - power, count);
    }
    if (rank < beyond) {
        code = pass(self, values, nowhere, room, rank + power, count);
        if (!code)
            add(values, room, count);
    }
    for (int distance = 1; distance < power && !code; distance *= 2) {
        code = pass(self, values, rank ^ distance, room, rank ^ distance, count);
        if (!code)
            add(values, room, count);
    }
    if (rank < beyond && !code)
        code = pass(self, values, rank + power, room, nowhere, count);
    return code;
}

/* Return whether no number has the exponent of infinity and NaN. */
static int all_finite(const float *values, Py_ssize_t count)
{
    uint32_t found = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        found |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !found;
}

/* Raise an error with MPI's code. */
static PyObject *raise_code(PyObject *error, int code)
{
    PyObject *number = PyLong_FromLong(code);
    if (number != NULL) {
        PyErr_SetObject(error, number);
        Py_DECREF(number);
    }
    return NULL;
}

/* Add up, without Python's lock; -1 with MPI's error. */
static int add_up(const Sums *self, const Py_buffer *message, const Py_buffer *room)
{
    const int count = (int)numbers_in(message);
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = room->obj ? double_up(self, message->buf, room->buf, count)
                     : allreduce(self, message->buf, count);
    Py_END_ALLOW_THREADS
    if (code == SUCCESS)
        return 0;
    raise_code(self->error, code);
    return -1;
}

/* Take the memory of contiguous, writable single precision. */
static int take(PyObject *array, Py_buffer *view)
{
    view->obj = NULL;
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0)
        return -1;
    if (view->format != NULL && strcmp(view->format, "f") == 0)
        return 0;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_TypeError, "an array is not of single precision");
    return -1;
}

/* Take a message, and the room for another rank's unless that is None. */
static int take_both(PyObject *array, Py_buffer *message, PyObject *other, Py_buffer *room)
{
    room->obj = NULL;
    if (take(array, message) < 0)
        return -1;
    if (other != Py_None && take(other, room) < 0) {
        PyBuffer_Release(message);
        return -1;
    }
    if (numbers_in(message) <= INT_MAX &&
        (other == Py_None || room->len >= message->len))
        return 0;
    PyBuffer_Release(message);
    PyBuffer_Release(room);
    PyErr_SetString(PyExc_ValueError, "the message is too long");
    return -1;
}

/* Return whether a constructor was called by position; else there is an error. */
static int has_no_names(PyObject *names)
{
    if (names == NULL || PyDict_GET_SIZE(names) == 0)
        return 1;
    PyErr_SetString(PyExc_TypeError, "there are no keywords");
    return 0;
}

static PyObject *Sums_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    unsigned long long functions[2], handles[3], in_place;
    int is_pointer, nowhere, rank, size, tag;
    PyObject *error;
    if (!has_no_names(names) ||
        !PyArg_ParseTuple(arguments, "(KK)(KKK)Kpi(ii)iO", &functions[0], &functions[1],
                          &handles[0], &handles[1], &handles[2], &in_place, &is_pointer, &nowhere,
                          &rank, &size, &tag, &error))
        return NULL;
    if (functions[0] == 0 || functions[1] == 0) {
        PyErr_SetString(PyExc_ValueError, "a function has no address");
        return NULL;
    }
    Sums *self = (Sums *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->allreduce = (uintptr_t)functions[0];
    self->sendrecv = (uintptr_t)functions[1];
    self->comm = (uintptr_t)handles[0];
    self->type = (uintptr_t)handles[1];
    self->sum = (uintptr_t)handles[2];
    self->in_place = (uintptr_t)in_place;
    self->is_pointer = is_pointer;
    self->nowhere = nowhere;
    self->rank = rank;
    self->size = size;
    self->tag = tag;
    self->error = Py_NewRef(error);
    return (PyObject *)self;
}

static PyObject *Waits_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    unsigned long long test;
    int looks;
    double shortest, longest;
    PyObject *error;
    if (!has_no_names(names) ||
        !PyArg_ParseTuple(arguments, "Ki(dd)O", &test, &looks, &shortest, &longest, &error))
        return NULL;
    if (test == 0) {
        PyErr_SetString(PyExc_ValueError, "a function has no address");
        return NULL;
    }
    Waits *self = (Waits *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->test = (uintptr_t)test;
    self->looks = looks;
    self->shortest = shortest;
    self->longest = longest;
    self->error = Py_NewRef(error);
    return (PyObject *)self;
}

static void Waits_dealloc(Waits *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->error);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Look whether a message is there, ever less often, for SIGNAL_SECONDS at most; return MPI's
 * error. */
static int wait_for(const Waits *self, void *request, double *pause, int looks, int *is_there)
{
    _Alignas(16) char status[STATUS_BYTES];
    const Test test = (Test)self->test;
    int code = SUCCESS;
    for (; looks > 0 && !*is_there && code == SUCCESS; looks--)
        code = test(request, is_there, status);
    const double end = now() + SIGNAL_SECONDS;
    while (!*is_there && code == SUCCESS && now() < end) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * *pause)}, NULL);
        *pause = fmin(2.0 * *pause, self->longest);
        code = test(request, is_there, status);
    }
    return code;
}

PyDoc_STRVAR(settle_doc,
"settle(request, patience)\n--\n\n"
"Wait for the message of a request, given by its address; the first pause is of so many seconds.");

static PyObject *Waits_settle(Waits *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "settle takes an address and seconds");
        return NULL;
    }
    void *request = PyLong_AsVoidPtr(arguments[0]);
    const double patience = PyFloat_AsDouble(arguments[1]);
    if (PyErr_Occurred())
        return NULL;
    double pause = fmax(self->shortest, fmin(patience, self->longest));
    int looks = patience > 0.0 ? 1 : self->looks, is_there = 0, code = SUCCESS;
    while (!is_there) {
        Py_BEGIN_ALLOW_THREADS
        code = wait_for(self, request, &pause, looks, &is_there);
        Py_END_ALLOW_THREADS
        if (code != SUCCESS)
            return raise_code(self->error, code);
        if (!is_there && PyErr_CheckSignals() < 0)
            return NULL;
        looks = 0;
    }
    Py_RETURN_NONE;
}

static void Sums_dealloc(Sums *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->error);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *Sums_add_up(Sums *self, PyObject *const *arguments, Py_ssize_t count)
{
    Py_buffer message, room;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "add_up takes an array, and room or None");
        return NULL;
    }
    if (take_both(arguments[0], &message, arguments[1], &room) < 0)
        return NULL;
    const int done = add_up(self, &message, &room);
    PyBuffer_Release(&message);
    PyBuffer_Release(&room);
    if (done < 0)
        return NULL;
    Py_RETURN_NONE;
}

static void unload(Message *self)
{
    while (self->loaded_count > 0)
        PyBuffer_Release(&self->loaded[--self->loaded_count]);
}

/* Read a row: name, shape, and where in the message it begins. */
static int take_row(Row *row, PyObject *given, Py_ssize_t most)
{
    PyObject *name, *shape;
    if (!PyArg_ParseTuple(given, "UO!n", &name, &PyTuple_Type, &shape, &row->start))
        return -1;
    row->dimensions = (int)PyTuple_GET_SIZE(shape);
    row->shape = PyMem_Calloc((size_t)row->dimensions + 1, sizeof *row->shape);
    if (row->shape == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    row->name = Py_NewRef(name);
    row->length = 1;
    for (int i = 0; i < row->dimensions; i++) {
        row->shape[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        if (row->shape[i] == -1 && PyErr_Occurred())
            return -1;
        if (row->shape[i] < 0 ||
            __builtin_mul_overflow(row->length, row->shape[i], &row->length))
            row->length = PY_SSIZE_T_MAX; /* more than there is */
    }
    if (row->start >= 0 && row->start <= most && row->length <= most - row->start)
        return 0;
    PyErr_SetString(PyExc_ValueError, "a row is outside of the message");
    return -1;
}

static int take_rows(Message *self, PyObject *rows)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(rows), most = numbers_in(&self->message);
    self->rows = PyMem_Calloc((size_t)count + 1, sizeof *self->rows);
    self->loaded = PyMem_Calloc((size_t)count + 1, sizeof *self->loaded);
    if (self->rows == NULL || self->loaded == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    while (self->rows_count < count) {
        Row *row = &self->rows[self->rows_count];
        PyObject *given = PyTuple_GET_ITEM(rows, self->rows_count++);
        if (take_row(row, given, most) < 0)
            return -1;
    }
    return 0;
}

static int fill_message(Message *self, Sums *sums, PyObject *arguments)
{
    PyObject *given_rows, *array, *other;
    if (!PyArg_ParseTuple(arguments, "O!OOf", &PyList_Type, &given_rows, &array, &other,
                          &self->factor) ||
        take_both(array, &self->message, other, &self->room) < 0)
        return -1;
    self->sums = (Sums *)Py_NewRef(sums);
    PyObject *rows = PySequence_Tuple(given_rows); /* what a row runs could change the list */
    const int done = rows == NULL ? -1 : take_rows(self, rows);
    Py_XDECREF(rows);
    return done;
}
static void Message_dealloc(Message *self)
{
    PyTypeObject *type = Py_TYPE(self);
    unload(self);
    for (Py_ssize_t i = 0; i < self->rows_count; i++) {
        Py_XDECREF(self->rows[i].name);
        PyMem_Free(self->rows[i].shape);
    }
    PyMem_Free(self->rows);
    PyMem_Free(self->loaded);
    PyBuffer_Release(&self->message);
    PyBuffer_Release(&self->room);
    Py_CLEAR(self->sums);
    type->tp_free(self);
    Py_DECREF(type);
}

static int has_name(const Row *row, PyObject *name)
{
    return name == row->name ||
           (PyUnicode_Check(name) && PyUnicode_Compare(name, row->name) == 0);
}

/* Copy one gradient into the message, and keep its memory; 0 if it is not as it has to be. */
static int load_one(Message *self, const Row *row, PyObject *name, PyObject *gradient)
{
    Py_buffer *view = &self->loaded[self->loaded_count];
    if (!has_name(row, name))
        return 0;
    if (take(gradient, view) < 0) {
        PyErr_Clear();
        return 0;
    }
    self->loaded_count++;
    if (view->ndim != row->dimensions)
        return 0;
    for (int i = 0; i < row->dimensions; i++)
        if (view->shape[i] != row->shape[i])
            return 0;
    memcpy((float *)self->message.buf + row->start, view->buf, (size_t)view->len);
    return 1;
}

/* Copy all gradients; 0 if one is not as it has to be. */
static int load(Message *self, PyObject *names, PyObject *gradients)
{
    unload(self);
    int fits = PyTuple_GET_SIZE(names) == self->rows_count &&
               PyTuple_GET_SIZE(gradients) == self->rows_count;
    for (Py_ssize_t i = 0; fits && i < self->rows_count; i++)
        fits = load_one(self, &self->rows[i], PyTuple_GET_ITEM(names, i),
                        PyTuple_GET_ITEM(gradients, i));
    if (!fits)
        unload(self);
    return fits;
}

PyDoc_STRVAR(give_doc,
"give(gradients)\n--\n\n"
"Write the means into the gradients that were loaded; return an empty list.");

static PyObject *Message_give(Message *self, PyObject *gradients)
{
    (void)gradients;
    for (Py_ssize_t i = 0; i < self->loaded_count; i++) {
        const float *sums = (const float *)self->message.buf + self->rows[i].start;
        float *to = self->loaded[i].buf;
        for (Py_ssize_t k = 0; k < self->rows[i].length; k++)
            to[k] = sums[k] * self->factor;
    }
    unload(self);
    return PyList_New(0);
}

PyDoc_STRVAR(average_doc,
"average(names, gradients)\n--\n\n"
"Replace gradients by their means; None if that needs more.");

static PyObject *Message_average(Message *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "average takes names and gradients");
        return NULL;
    }
    self->seconds = -1.0;
    PyObject *names = PySequence_Tuple(arguments[0]);
    PyObject *gradients = names == NULL ? NULL : PySequence_Tuple(arguments[1]);
    const int is_loaded = names != NULL && gradients != NULL && load(self, names, gradients);
    Py_XDECREF(names);
    Py_XDECREF(gradients);
    if (PyErr_Occurred())
        return NULL;
    if (!is_loaded)
        Py_RETURN_NONE;
    const double start = now();
    if (add_up(self->sums, &self->message, &self->room) < 0)
        return NULL;
    self->seconds = now() - start;
    if (!all_finite(self->message.buf, numbers_in(&self->message)))
        Py_RETURN_NONE;
    return Message_give(self, NULL);
}

PyDoc_STRVAR(sums_add_up_doc,
"add_up(array, room)\n--\n\n"
"Replace an array by its sum over the ranks: by MPI, or, with room, by recursive doubling.");

PyDoc_STRVAR(message_doc,
"message(rows, array, room, factor)\n--\n\n"
"Return a message whose sums become means by a factor; a row is a name, a shape and a place.");

static PyObject *Sums_message(Sums *self, PyObject *arguments)
{
    PyObject *module = PyType_GetModuleByDef(Py_TYPE(self), &definition);
    if (module == NULL)
        return NULL;
    PyTypeObject *type = ((State *)PyModule_GetState(module))->message_type;
    Message *made = (Message *)type->tp_alloc(type, 0);
    if (made != NULL && fill_message(made, self, arguments) < 0)
        Py_CLEAR(made);
    return (PyObject *)made;
}

static PyMethodDef sums_methods[] = {
    {"message", (PyCFunction)Sums_message, METH_VARARGS, message_doc},
    {"add_up", (PyCFunction)(void (*)(void))Sums_add_up, METH_FASTCALL, sums_add_up_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef waits_methods[] = {
    {"settle", (PyCFunction)(void (*)(void))Waits_settle, METH_FASTCALL, settle_doc},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef message_methods[] = {
    {"average", (PyCFunction)(void (*)(void))Message_average, METH_FASTCALL, average_doc},
    {"give", (PyCFunction)Message_give, METH_O, give_doc},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef message_members[] = {
    {"seconds", T_DOUBLE, offsetof(Message, seconds), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot waits_slots[] = {
    {Py_tp_doc, "How this process waits for messages."},
    {Py_tp_methods, waits_methods},
    {Py_tp_new, Waits_new},
    {Py_tp_dealloc, Waits_dealloc},
    {0, NULL},
};
static PyType_Spec waits_spec = {
    .name = "workbench.engine.exchange.message_kernels.Waits", .basicsize = sizeof(Waits),
    .flags = Py_TPFLAGS_DEFAULT, .slots = waits_slots,
};

static PyType_Slot sums_slots[] = {
    {Py_tp_doc, "Sums over the ranks of a communicator."},
    {Py_tp_methods, sums_methods},
    {Py_tp_new, Sums_new},
    {Py_tp_dealloc, Sums_dealloc},
    {0, NULL},
};
static PyType_Spec sums_spec = {
    .name = "workbench.engine.exchange.message_kernels.Sums", .basicsize = sizeof(Sums),
    .flags = Py_TPFLAGS_DEFAULT, .slots = sums_slots,
};

static PyType_Slot message_slots[] = {
    {Py_tp_doc, "Gradients in one message."},
    {Py_tp_members, message_members},
    {Py_tp_methods, message_methods},
    {Py_tp_dealloc, Message_dealloc},
    {0, NULL},
};
static PyType_Spec message_spec = {
    .name = "workbench.engine.exchange.message_kernels.Message", .basicsize = sizeof(Message),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, .slots = message_slots,
};

static int fill(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->message_type = added(module, &message_spec);
    return state->message_type == NULL || add_type(module, &sums_spec) < 0 ||
                   add_type(module, &waits_spec) < 0
               ? -1
               : add_sources(module);
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(((State *)PyModule_GetState(module))->message_type);
    return 0;
}

static int clear_state(PyObject *module)
{
    Py_CLEAR(((State *)PyModule_GetState(module))->message_type);
    return 0;
}

static void free_state(void *module) { clear_state(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "message_kernels",
    .m_doc = "Sums over MPI's ranks without Python between.",
    .m_size = sizeof(State),
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_message_kernels(void) { return PyModuleDef_Init(&definition); }
