/* Time the calls of a training step: those of MPI, one for each gradient, and a step's parts.
 *
 * workbench/engine/timing/call_timing.py has the same in Python, and says what is counted. Between two
 * pieces of a step's work the processor's caches hold those and not Python's code, so that each
 * function in Python takes several times as long there as in a loop.
 */
#include "module.h"

#define MOST_BYTES 9e18 /* a whole number of 64 bits has more */

/* The main thread's activity in MPI: what each call and each step changes. */
typedef struct {
    PyObject_HEAD
    PyObject *call;
    double since, seconds, passed, barred, waited, spent, wire, next_look;
    double begun_seconds, begun_passed, begun_barred, begun_spent;
    long long nbytes, exchanges, steps, started, first, observed;
    char spoilt;
} Activity;

/* The calls of one communicator, and when its members meet. */
typedef struct {
    PyObject_HEAD
    long long calls, due, step, first, per_step;
} CallCount;

/* Seconds that stopwatches add up. */
typedef struct {
    PyObject_HEAD
    double seconds;
} Total;

/* A function whose time is added to a total, without that in MPI if there is an activity. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original;
    Total *total;
    Activity *activity;
} Stopwatch;

/* A method that is passed to another function in the steps that are observed. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original, *observe;
    Activity *activity;
} Observed;

/* What each import of the module has of its own. */
typedef struct {
    PyTypeObject *activity_type, *count_type, *total_type;
    PyObject *name_meetings, *name_nbytes, *name_recvbuf;
} State;

/* A method of a communicator, around MPI's own. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original, *name, *before;
    Activity *activity;
    const State *state; /* of the module, which this object's type keeps */
    unsigned long main_thread;
    Py_ssize_t counter; /* where in the activity the seconds are counted a second time, or 0 */
} TimedCall;

static struct PyModuleDef definition;

/* Return the state of the module that made a type, or a type above it. */
static State *state_of(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, &definition);
    return module == NULL ? NULL : PyModule_GetState(module);
}

/* Sums and differences go round where no number is as large. */
static long long plus(long long value, long long more)
{
    return (long long)((unsigned long long)value + (unsigned long long)more);
}

static long long minus(long long value, long long less)
{
    return (long long)((unsigned long long)value - (unsigned long long)less);
}

/* Set an activity's call; without one it is empty. */
static int set_call(Activity *self, PyObject *call)
{
    PyObject *name = call == NULL ? PyUnicode_New(0, 0) : Py_NewRef(call);
    if (name == NULL)
        return -1;
    Py_XSETREF(self->call, name);
    return 0;
}

static int Activity_init(Activity *self, PyObject *arguments, PyObject *names)
{
    if (!PyArg_ParseTuple(arguments, "") || (names != NULL && PyDict_GET_SIZE(names) != 0))
        return -1;
    self->waited = -1.0;
    self->observed = -1;
    return set_call(self, NULL);
}

static PyObject *begin_step(Activity *self, PyObject *none)
{
    (void)none;
    self->begun_seconds = self->seconds;
    self->begun_passed = self->passed;
    self->begun_barred = self->barred;
    self->begun_spent = self->spent;
    Py_RETURN_NONE;
}

static PyObject *end_step(Activity *self, PyObject *time)
{
    const double reached = PyFloat_AsDouble(time);
    if (reached == -1.0 && PyErr_Occurred())
        return NULL;
    self->steps = plus(self->steps, 1);
    self->started = self->exchanges;
    if (self->waited >= 0.0 || self->spoilt || reached >= self->next_look)
        Py_RETURN_TRUE;
    Py_DECREF(begin_step(self, NULL));
    Py_RETURN_FALSE;
}

static PyObject *enter(Activity *self, PyObject *call)
{
    if (set_call(self, call) < 0)
        return NULL;
    self->since = now();
    Py_RETURN_NONE;
}

static PyObject *leave(Activity *self, PyObject *none)
{
    (void)none;
    const double taken = now() - self->since;
    if (set_call(self, NULL) < 0)
        return NULL;
    self->seconds += taken;
    return PyFloat_FromDouble(taken);
}

static PyObject *exchanged(Activity *self, PyObject *const *arguments, Py_ssize_t count)
{
    double values[3];
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "exchanged() takes bytes, sent bytes and seconds");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        values[i] = PyFloat_AsDouble(arguments[i]);
        if (values[i] == -1.0 && PyErr_Occurred())
            return NULL;
    }
    self->exchanges = plus(self->exchanges, 1);
    if (values[0] > -MOST_BYTES && values[0] < MOST_BYTES)
        self->nbytes = plus(self->nbytes, (long long)values[0]);
    self->wire += values[1];
    self->spent += values[2];
    Py_RETURN_NONE;
}

static PyMethodDef activity_methods[] = {
    {"enter", (PyCFunction)enter, METH_O, "Begin to time a call."},
    {"leave", (PyCFunction)leave, METH_NOARGS, "End the call; return its seconds."},
    {"exchanged", (PyCFunction)(void (*)(void))exchanged, METH_FASTCALL,
     "Count an exchange: its bytes, those that this rank sent, and seconds."},
    {"begin_step", (PyCFunction)begin_step, METH_NOARGS, "Note the totals at a step's begin."},
    {"end_step", (PyCFunction)end_step, METH_O,
     "Count a step, at a time; true if there is more to do, and begin_step is still to be called."},
    {NULL, NULL, 0, NULL},
};

static void Activity_dealloc(Activity *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->call);
    type->tp_free(self);
    Py_DECREF(type);
}

static void plain_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

#define DOUBLE(name) {#name, T_DOUBLE, offsetof(Activity, name), 0, NULL}
#define WHOLE(type, name) {#name, T_LONGLONG, offsetof(type, name), 0, NULL}
static PyMemberDef activity_members[] = {
    {"call", T_OBJECT_EX, offsetof(Activity, call), 0, NULL},
    {"spoilt", T_BOOL, offsetof(Activity, spoilt), 0, NULL},
    DOUBLE(since), DOUBLE(seconds), DOUBLE(passed), DOUBLE(barred), DOUBLE(waited), DOUBLE(spent),
    DOUBLE(wire), DOUBLE(next_look), DOUBLE(begun_seconds), DOUBLE(begun_passed),
    DOUBLE(begun_barred), DOUBLE(begun_spent), WHOLE(Activity, nbytes), WHOLE(Activity, exchanges),
    WHOLE(Activity, steps), WHOLE(Activity, started), WHOLE(Activity, first),
    WHOLE(Activity, observed),
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef count_members[] = {
    WHOLE(CallCount, calls), WHOLE(CallCount, due), WHOLE(CallCount, step),
    WHOLE(CallCount, first), WHOLE(CallCount, per_step),
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef total_members[] = {
    {"seconds", T_DOUBLE, offsetof(Total, seconds), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Begin to count the calls of another step: those before the training's first one do not count. */
static void follow_steps(CallCount *self, const Activity *activity)
{
    if (self->step == activity->steps)
        return;
    self->per_step = self->step >= activity->first ? minus(self->calls, self->first) : 0;
    self->step = activity->steps;
    self->first = self->calls;
}

static PyObject *CallCount_follow(CallCount *self, PyObject *activity)
{
    const State *state = state_of(Py_TYPE(self));
    if (state == NULL)
        return NULL;
    if (!PyObject_TypeCheck(activity, state->activity_type)) {
        PyErr_SetString(PyExc_TypeError, "follow() takes an Activity");
        return NULL;
    }
    follow_steps(self, (Activity *)activity);
    return PyBool_FromLong(plus(self->calls, 1) == self->due);
}

static PyMethodDef count_methods[] = {
    {"follow", (PyCFunction)CallCount_follow, METH_O,
     "Follow the activity's steps; true if the members meet before the next call."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot activity_slots[] = {
    {Py_tp_doc, "What calls of MPI change."},
    {Py_tp_members, activity_members},
    {Py_tp_methods, activity_methods},
    {Py_tp_init, Activity_init},
    {Py_tp_dealloc, Activity_dealloc},
    {0, NULL},
};
static PyType_Spec activity_spec = {
    .name = "workbench.engine.timed_calls.Activity", .basicsize = sizeof(Activity),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = activity_slots,
};

static PyType_Slot count_slots[] = {
    {Py_tp_doc, "The calls of a communicator."},
    {Py_tp_members, count_members},
    {Py_tp_methods, count_methods},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};
static PyType_Spec count_spec = {
    .name = "workbench.engine.timed_calls.CallCount", .basicsize = sizeof(CallCount),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = count_slots,
};

static PyType_Slot total_slots[] = {
    {Py_tp_doc, "Seconds of stopwatches."},
    {Py_tp_members, total_members},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};
static PyType_Spec total_spec = {
    .name = "workbench.engine.timed_calls.Total", .basicsize = sizeof(Total),
    .flags = Py_TPFLAGS_DEFAULT, .slots = total_slots,
};

/* Return the bytes of a buffer as MPI takes it, an array or a list that begins with one; 0 if
 * unknown. */
static long long nbytes_of(const State *state, PyObject *buffer)
{
    if ((PyList_Check(buffer) || PyTuple_Check(buffer)) && PySequence_Fast_GET_SIZE(buffer) > 0)
        buffer = PySequence_Fast_GET_ITEM(buffer, 0);
    Py_INCREF(buffer); /* its attribute may run what changes the list */
    PyObject *found = PyObject_GetAttr(buffer, state->name_nbytes);
    long long nbytes = found == NULL ? 0 : PyLong_AsLongLong(found);
    Py_XDECREF(found);
    Py_DECREF(buffer);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        nbytes = 0;
    }
    return nbytes;
}

static PyObject *received(const State *state, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *names)
{
    if (count > 2)
        return arguments[2];
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), state->name_recvbuf) == 0)
            return arguments[count + i];
    return Py_None;
}

/* Return the communicator's count of calls; NULL and an error, or NULL alone if it has none yet. */
static CallCount *counted(const State *state, PyObject *communicator)
{
    PyObject *found = PyObject_GetAttr(communicator, state->name_meetings);
    if (found != NULL && !PyObject_TypeCheck(found, state->count_type))
        Py_CLEAR(found);
    return (CallCount *)found;
}

/* Call the original, with a meeting before it where one is due, and count it. */
static PyObject *exchange(TimedCall *self, PyObject *const *arguments, size_t flags,
                          PyObject *names)
{
    const Py_ssize_t count = PyVectorcall_NARGS(flags);
    Activity *activity = self->activity;
    PyObject *result = NULL;
    CallCount *calls = counted(self->state, arguments[0]);
    if (calls == NULL && PyErr_Occurred())
        return NULL;
    if (calls != NULL)
        follow_steps(calls, activity);
    if (calls == NULL || plus(calls->calls, 1) == calls->due) {
        PyObject *met = PyObject_CallOneArg(self->before, arguments[0]);
        if (met == NULL)
            goto done;
        Py_DECREF(met);
        if (calls == NULL)
            calls = counted(self->state, arguments[0]);
        if (calls == NULL && PyErr_Occurred())
            return NULL;
    }
    result = PyObject_Vectorcall(self->original, arguments, flags, names);
    if (result == NULL)
        goto done;
    if (calls != NULL)
        calls->calls = plus(calls->calls, 1);
    activity->exchanges = plus(activity->exchanges, 1);
    PyObject *buffer = received(self->state, arguments, count, names);
    activity->nbytes = plus(activity->nbytes, nbytes_of(self->state, buffer));
done:
    Py_XDECREF(calls);
    return result;
}

static PyObject *TimedCall_call(PyObject *callable, PyObject *const *arguments, size_t flags,
                                PyObject *names)
{
    TimedCall *self = (TimedCall *)callable;
    if (PyThread_get_thread_ident() != self->main_thread)
        return PyObject_Vectorcall(self->original, arguments, flags, names);
    Activity *activity = self->activity;
    const double start = activity->since = now();
    PyObject *result;
    if (set_call(activity, self->name) < 0)
        return NULL;
    if (self->before != Py_None && PyVectorcall_NARGS(flags) > 0)
        result = exchange(self, arguments, flags, names);
    else
        result = PyObject_Vectorcall(self->original, arguments, flags, names);
    if (set_call(activity, NULL) < 0)
        Py_CLEAR(result);
    const double spent = now() - start;
    activity->seconds += spent;
    if (self->counter)
        *(double *)((char *)activity + self->counter) += spent;
    return result;
}

/* Bind a method, as a function in Python does. */
static PyObject *bound(PyObject *self, PyObject *owner, PyObject *type)
{
    (void)type;
    return owner == NULL || owner == Py_None ? Py_NewRef(self) : PyMethod_New(self, owner);
}

static PyObject *TimedCall_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"original", "name", "activity", "main_thread", "counter", "before",
                               NULL};
    PyObject *original, *name, *activity, *before = Py_None;
    unsigned long main_thread;
    const char *counter = "";
    const State *state = state_of(type);
    if (state == NULL)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OUO!k|sO", keywords, &original, &name,
                                     state->activity_type, &activity, &main_thread, &counter, &before))
        return NULL;
    TimedCall *self = (TimedCall *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = TimedCall_call;
    self->original = Py_NewRef(original);
    self->name = Py_NewRef(name);
    self->before = Py_NewRef(before);
    self->activity = (Activity *)Py_NewRef(activity);
    self->main_thread = main_thread;
    self->state = state;
    if (strcmp(counter, "passed") == 0)
        self->counter = offsetof(Activity, passed);
    else if (strcmp(counter, "barred") == 0)
        self->counter = offsetof(Activity, barred);
    return (PyObject *)self;
}

static void TimedCall_dealloc(TimedCall *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->original);
    Py_CLEAR(self->name);
    Py_CLEAR(self->before);
    Py_CLEAR(self->activity);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef call_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(TimedCall, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(TimedCall, original), READONLY, NULL},
    {"__name__", T_OBJECT_EX, offsetof(TimedCall, name), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *TimedCall_doc(TimedCall *self, void *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self->original, "__doc__");
}

static PyGetSetDef call_getters[] = {
    {"__doc__", (getter)TimedCall_doc, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot call_slots[] = {
    {Py_tp_new, TimedCall_new},
    {Py_tp_getset, call_getters},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, bound},
    {Py_tp_members, call_members},
    {Py_tp_dealloc, TimedCall_dealloc},
    {0, NULL},
};
static PyType_Spec call_spec = {
    .name = "workbench.engine.timed_calls.TimedCall", .basicsize = sizeof(TimedCall),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = call_slots,
};

static PyObject *Stopwatch_call(PyObject *callable, PyObject *const *arguments, size_t flags,
                                PyObject *names)
{
    Stopwatch *self = (Stopwatch *)callable;
    const Activity *activity = self->activity;
    const double start = now(), before = activity ? activity->seconds : 0.0;
    PyObject *result = PyObject_Vectorcall(self->original, arguments, flags, names);
    const double inside = activity ? activity->seconds - before : 0.0;
    self->total->seconds += now() - start - inside;
    return result;
}

static PyObject *Stopwatch_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"original", "total", "activity", NULL};
    PyObject *original, *total, *activity = NULL;
    const State *state = state_of(type);
    if (state == NULL)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OO!|O!", keywords, &original,
                                     state->total_type, &total, state->activity_type, &activity))
        return NULL;
    Stopwatch *self = (Stopwatch *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = Stopwatch_call;
    self->original = Py_NewRef(original);
    self->total = (Total *)Py_NewRef(total);
    self->activity = (Activity *)Py_XNewRef(activity);
    return (PyObject *)self;
}

static void Stopwatch_dealloc(Stopwatch *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->original);
    Py_CLEAR(self->total);
    Py_CLEAR(self->activity);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef watch_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Stopwatch, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(Stopwatch, original), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot watch_slots[] = {
    {Py_tp_doc, "A function whose time is added up."},
    {Py_tp_new, Stopwatch_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, watch_members},
    {Py_tp_dealloc, Stopwatch_dealloc},
    {0, NULL},
};
static PyType_Spec watch_spec = {
    .name = "workbench.engine.timed_calls.Stopwatch", .basicsize = sizeof(Stopwatch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, .slots = watch_slots,
};

static PyObject *Observed_call(PyObject *callable, PyObject *const *arguments, size_t flags,
                               PyObject *names)
{
    Observed *self = (Observed *)callable;
    PyObject *function = self->activity->observed == self->activity->steps ? self->observe
                                                                           : self->original;
    return PyObject_Vectorcall(function, arguments, flags, names);
}

static PyObject *Observed_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"original", "observe", "activity", NULL};
    PyObject *original, *observe, *activity;
    const State *state = state_of(type);
    if (state == NULL)
        return NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "OOO!", keywords, &original, &observe,
                                     state->activity_type, &activity))
        return NULL;
    Observed *self = (Observed *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = Observed_call;
    self->original = Py_NewRef(original);
    self->observe = Py_NewRef(observe);
    self->activity = (Activity *)Py_NewRef(activity);
    return (PyObject *)self;
}

static void Observed_dealloc(Observed *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->original);
    Py_CLEAR(self->observe);
    Py_CLEAR(self->activity);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef observed_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Observed, vectorcall), READONLY, NULL},
    {"__wrapped__", T_OBJECT_EX, offsetof(Observed, original), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot observed_slots[] = {
    {Py_tp_doc, "A method that is observed in some steps."},
    {Py_tp_new, Observed_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, bound},
    {Py_tp_members, observed_members},
    {Py_tp_dealloc, Observed_dealloc},
    {0, NULL},
};
static PyType_Spec observed_spec = {
    .name = "workbench.engine.timed_calls.Observed", .basicsize = sizeof(Observed),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = observed_slots,
};

static int fill(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->name_meetings = PyUnicode_InternFromString("_meetings");
    state->name_nbytes = PyUnicode_InternFromString("nbytes");
    state->name_recvbuf = PyUnicode_InternFromString("recvbuf");
    if (state->name_meetings == NULL || state->name_nbytes == NULL || state->name_recvbuf == NULL)
        return -1;
    state->activity_type = added(module, &activity_spec);
    state->count_type = added(module, &count_spec);
    state->total_type = added(module, &total_spec);
    if (state->activity_type == NULL || state->count_type == NULL || state->total_type == NULL ||
        add_type(module, &call_spec) < 0 || add_type(module, &watch_spec) < 0 ||
        add_type(module, &observed_spec) < 0)
        return -1;
    return add_sources(module);
}

static int visit_state(PyObject *module, visitproc visit, void *arg)
{
    const State *state = PyModule_GetState(module);
    Py_VISIT(state->activity_type);
    Py_VISIT(state->count_type);
    Py_VISIT(state->total_type);
    return 0;
}

static int clear_state(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->activity_type);
    Py_CLEAR(state->count_type);
    Py_CLEAR(state->total_type);
    Py_CLEAR(state->name_meetings);
    Py_CLEAR(state->name_nbytes);
    Py_CLEAR(state->name_recvbuf);
    return 0;
}

static void free_state(void *module) { clear_state(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "timed_calls",
    .m_doc = "Timed calls of MPI.",
    .m_size = sizeof(State),
    .m_slots = slots,
    .m_traverse = visit_state,
    .m_clear = clear_state,
    .m_free = free_state,
};

PyMODINIT_FUNC PyInit_timed_calls(void) { return PyModuleDef_Init(&definition); }
