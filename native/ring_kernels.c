/* A ring allreduce over sockets to the next rank and from the last.
 *
 * Every rank sends its part of an array, adds what comes in to the parts before, and sends each sum
 * on; then the complete sums follow the same way. So what goes out is, part by part, what came in,
 * after this rank's own part: of the bytes that came in, as many may go out.
 *
 * Several sockets take stripes of the bytes in turn. They are read and written in order: what one
 * of them is late with, the system's buffers of the others hold meanwhile, so that all stay busy.
 */
#include "module.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM_BYTES (256 * 1024) /* of sums that come in; a core's cache has them */
#define WAKE_BYTES (64 * 1024)  /* at most, before a rank that waits for them wakes up */
#define LOOK_SECONDS 0.1        /* at most, before Python's handlers run */
#define STRIPE_BYTES (256 * 1024) /* that one socket carries before the next; a multiple of a number */
#define MOST_SOCKETS 64
#define MOST_RANKS (1 << 20)
#define CLOSED (-1)

enum { CAME_FINITE = 1, CAME_NONFINITE = 2 };

/* A piece of a part, and what its sum showed: whether what came in was finite where it is not. */
typedef struct {
    Py_buffer view;
    int found;
} Piece;

typedef struct {
    Piece *pieces;
    Py_ssize_t count, bytes;
} Part;

/* A place in the parts, which pass in descending order. */
typedef struct {
    int part, passed; /* parts */
    Py_ssize_t piece, offset, left;
} Cursor;

typedef struct {
    Part *parts;
    int size, rank, sockets;
    int right[MOST_SOCKETS], left[MOST_SOCKETS];
    Py_ssize_t gone, came; /* bytes, in all */
    float factor;
    char *room;
    Py_ssize_t held; /* bytes in the room, of a number that is not complete */
    Py_ssize_t ahead; /* bytes that may go out */
    Py_ssize_t wake; /* bytes for which this rank sleeps */
    Cursor in, out;
} Exchange;

/* Move on by so many bytes, to the next that exists. */
static void advance(const Exchange *self, Cursor *at, Py_ssize_t bytes)
{
    at->offset += bytes;
    at->left -= bytes;
    while (at->left > 0) {
        const Part *part = &self->parts[at->part];
        if (at->piece == part->count) {
            at->part = (at->part + self->size - 1) % self->size;
            at->passed++;
            at->piece = at->offset = 0;
        } else if (at->offset == part->pieces[at->piece].view.len) {
            at->piece++;
            at->offset = 0;
        } else {
            return;
        }
    }
}

/* Start at a part; all ranks' parts but one pass twice. */
static Cursor cursor_at(const Exchange *self, int part)
{
    Cursor at = {.part = (part + self->size) % self->size};
    for (int k = 0; k < self->size; k++)
        at.left += 2 * self->parts[k].bytes;
    const int first = (at.part + 1) % self->size, second = (at.part + 2) % self->size;
    at.left -= self->parts[first].bytes + self->parts[second].bytes;
    advance(self, &at, 0);
    return at;
}

static Piece *piece_at(const Exchange *self, const Cursor *at)
{
    return &self->parts[at->part].pieces[at->piece];
}

/* Return the socket that carries what follows after so many bytes. */
static int turn(const Exchange *self, Py_ssize_t passed)
{
    return (int)(passed / STRIPE_BYTES % self->sockets);
}

/* Return how many bytes at most go over the same socket. */
static Py_ssize_t within_stripe(const Exchange *self, Py_ssize_t passed, Py_ssize_t most)
{
    const Py_ssize_t left = STRIPE_BYTES - passed % STRIPE_BYTES;
    return self->sockets == 1 || most < left ? most : left;
}

static void inspect(Piece *piece, const float *sums, const float *came, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!isfinite(sums[i]))
            piece->found |= isfinite(came[i]) ? CAME_FINITE : CAME_NONFINITE;
}

/* Add the room's numbers, and make means of sums that are complete. */
static void add_up(Exchange *self, Py_ssize_t count)
{
    Piece *piece = piece_at(self, &self->in);
    float *restrict values = (float *)((char *)piece->view.buf + self->in.offset);
    const float *restrict came = (const float *)self->room;
    uint32_t suspect = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t bits;
        const float sum = values[i] + came[i];
        memcpy(&bits, &sum, sizeof bits);
        suspect |= (bits & 0x7f800000u) == 0x7f800000u;
        values[i] = sum;
    }
    if (suspect)
        inspect(piece, values, came, count);
    if (self->in.passed == self->size - 2)
        for (Py_ssize_t i = 0; i < count; i++)
            values[i] *= self->factor;
}

/* Take what has come; return how many bytes, or an error below 0. */
static ssize_t take_some(Exchange *self)
{
    const Piece *piece = piece_at(self, &self->in);
    Py_ssize_t most = piece->view.len - self->in.offset;
    const int from = self->left[turn(self, self->came)];
    if (self->in.passed >= self->size - 1) {
        char *place = (char *)piece->view.buf + self->in.offset;
        most = within_stripe(self, self->came, most);
        const ssize_t came = recv(from, place, (size_t)most, MSG_DONTWAIT);
        if (came > 0) {
            self->came += came;
            self->ahead += came;
            advance(self, &self->in, came);
        }
        return came;
    }
    if (most > ROOM_BYTES)
        most = ROOM_BYTES;
    const Py_ssize_t wanted = within_stripe(self, self->came, most - self->held);
    const ssize_t came = recv(from, self->room + self->held, (size_t)wanted, MSG_DONTWAIT);
    if (came <= 0)
        return came;
    self->came += came;
    self->held += came;
    const Py_ssize_t count = self->held / (Py_ssize_t)sizeof(float);
    const Py_ssize_t whole = count * (Py_ssize_t)sizeof(float);
    add_up(self, count);
    self->held -= whole;
    memmove(self->room, self->room + whole, (size_t)self->held);
    self->ahead += whole;
    advance(self, &self->in, whole);
    return came;
}

static ssize_t give_some(Exchange *self)
{
    const Piece *piece = piece_at(self, &self->out);
    Py_ssize_t most = piece->view.len - self->out.offset;
    if (most > self->ahead)
        most = self->ahead;
    most = within_stripe(self, self->gone, most);
    const char *place = (const char *)piece->view.buf + self->out.offset;
    const int to = self->right[turn(self, self->gone)];
    const ssize_t gone = send(to, place, (size_t)most, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (gone > 0) {
        self->gone += gone;
        self->ahead -= gone;
        advance(self, &self->out, gone);
    }
    return gone;
}

/* Sleep until bytes can move: few wake-ups, as each costs what many bytes cost. */
static int sleep_until(Exchange *self, int gives, int takes)
{
    struct pollfd wanted[2];
    nfds_t count = 0;
    if (gives)
        wanted[count++] =
            (struct pollfd){.fd = self->right[turn(self, self->gone)], .events = POLLOUT};
    if (takes) {
        const int from = self->left[turn(self, self->came)];
        const Py_ssize_t left = within_stripe(self, self->came, self->in.left - self->held);
        const int least = (int)(left < self->wake ? left : self->wake);
        if (setsockopt(from, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) < 0)
            return errno;
        wanted[count++] = (struct pollfd){.fd = from, .events = POLLIN};
    }
    return poll(wanted, count, (int)(1e3 * LOOK_SECONDS)) < 0 && errno != EINTR ? errno : 0;
}

/* Exchange until all is done, or it is time to look up; return an error, or 0. */
static int work(Exchange *self)
{
    const double end = now() + LOOK_SECONDS;
    while (self->in.left > 0 || self->out.left > 0) {
        int gives = self->out.left > 0 && self->ahead > 0, takes = self->in.left > 0, moved = 0;
        if (gives) {
            const ssize_t gone = give_some(self);
            if (gone < 0 && errno != EAGAIN && errno != EINTR)
                return errno;
            moved |= gone > 0;
        }
        if (takes) {
            const ssize_t came = take_some(self);
            if (came == 0)
                return CLOSED;
            if (came < 0 && errno != EAGAIN && errno != EINTR)
                return errno;
            moved |= came > 0;
        }
        if (!moved) {
            const int error = sleep_until(self, gives, takes);
            if (error)
                return error;
        }
        if (now() > end)
            return 0;
    }
    return 0;
}

static int exchange(Exchange *self, PyObject *look)
{
    while (self->in.left > 0 || self->out.left > 0) {
        int error;
        Py_BEGIN_ALLOW_THREADS
        error = work(self);
        Py_END_ALLOW_THREADS
        if (error == CLOSED) {
            PyErr_SetString(PyExc_ConnectionResetError, "it was closed");
            return -1;
        }
        if (error) {
            errno = error;
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
        if (self->in.left > 0 || self->out.left > 0) {
            PyObject *answer = PyObject_CallNoArgs(look);
            if (answer == NULL)
                return -1;
            Py_DECREF(answer);
        }
    }
    return 0;
}

static int take_part(Part *part, PyObject *given)
{
    PyObject *views = PySequence_Tuple(given); /* what a buffer runs could change a list */
    if (views == NULL)
        return -1;
    const Py_ssize_t count = PyTuple_GET_SIZE(views);
    part->pieces = PyMem_Calloc((size_t)count + 1, sizeof *part->pieces);
    if (part->pieces == NULL)
        PyErr_NoMemory();
    while (part->pieces != NULL && part->count < count) {
        Py_buffer *view = &part->pieces[part->count].view;
        PyObject *one = PyTuple_GET_ITEM(views, part->count);
        if (PyObject_GetBuffer(one, view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT) < 0)
            break;
        part->count++;
        part->bytes += view->len;
        if (view->format == NULL || strcmp(view->format, "f") != 0) {
            PyErr_SetString(PyExc_TypeError, "pieces must be of single precision");
            break;
        }
    }
    Py_DECREF(views);
    return PyErr_Occurred() ? -1 : 0;
}

static int take_parts(Exchange *self, PyObject *parts)
{
    const Py_ssize_t size = PyTuple_GET_SIZE(parts);
    if (size <= MOST_RANKS)
        self->size = (int)size;
    if (self->size < 2 || self->rank < 0 || self->rank >= self->size) {
        PyErr_SetString(PyExc_ValueError, "a ring has two ranks or more, with a part each");
        return -1;
    }
    self->parts = PyMem_Calloc((size_t)self->size, sizeof *self->parts);
    self->room = PyMem_Malloc(ROOM_BYTES);
    if (self->parts == NULL || self->room == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t all = 0;
    for (int k = 0; k < self->size; k++) {
        if (take_part(&self->parts[k], PyTuple_GET_ITEM(parts, k)) < 0)
            return -1;
        all += self->parts[k].bytes;
    }
    /* All that is on its way, together, is one array: if each waited for more than its share of
     * that, none would wake up. */
    const Py_ssize_t share = all / (2 * self->size);
    self->wake = share < 1 ? 1 : share < WAKE_BYTES ? share : WAKE_BYTES;
    self->ahead = self->parts[self->rank].bytes;
    self->out = cursor_at(self, self->rank);
    self->in = cursor_at(self, self->rank - 1);
    return 0;
}

static void let_go(Exchange *self)
{
    for (int k = 0; self->parts != NULL && k < self->size; k++) {
        for (Py_ssize_t i = 0; i < self->parts[k].count; i++)
            PyBuffer_Release(&self->parts[k].pieces[i].view);
        PyMem_Free(self->parts[k].pieces);
    }
    PyMem_Free(self->parts);
    PyMem_Free(self->room);
    for (int k = 0; k < self->sockets; k++) {
        if (self->right[k] >= 0)
            close(self->right[k]);
        if (self->left[k] >= 0)
            close(self->left[k]);
    }
}

/* Return part, piece, and whether what came in was finite, of each sum that is not. */
static PyObject *findings(const Exchange *self)
{
    PyObject *found = PyList_New(0);
    for (int k = 0; found != NULL && k < self->size; k++)
        for (Py_ssize_t i = 0; found != NULL && i < self->parts[k].count; i++)
            for (int kind = CAME_FINITE; kind <= CAME_NONFINITE; kind++) {
                if (found == NULL || !(self->parts[k].pieces[i].found & kind))
                    continue;
                PyObject *was_finite = kind == CAME_FINITE ? Py_True : Py_False;
                PyObject *one = Py_BuildValue("(inO)", k, i, was_finite);
                if (one == NULL || PyList_Append(found, one) < 0)
                    Py_CLEAR(found);
                Py_XDECREF(one);
            }
    return found;
}

/* Return a descriptor of our own for a socket, whose number may become another's if it is closed. */
static int borrowed(PyObject *from)
{
    const int number = PyObject_AsFileDescriptor(from);
    if (number < 0 && !PyErr_ExceptionMatches(PyExc_ValueError))
        return -1;
    PyErr_Clear(); /* a socket that was closed has the number -1 */
    const int copy = fcntl(number, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    return copy;
}

static int borrow_sockets(Exchange *self, PyObject *right, PyObject *left)
{
    const Py_ssize_t count = PyTuple_GET_SIZE(right);
    if (count < 1 || count > MOST_SOCKETS || count != PyTuple_GET_SIZE(left)) {
        PyErr_Format(PyExc_ValueError, "as many sockets each way, from 1 to %d", MOST_SOCKETS);
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        self->right[k] = self->left[k] = -1;
        self->sockets = (int)k + 1;
        if ((self->right[k] = borrowed(PyTuple_GET_ITEM(right, k))) < 0 ||
            (self->left[k] = borrowed(PyTuple_GET_ITEM(left, k))) < 0)
            return -1;
    }
    return 0;
}

PyDoc_STRVAR(mean_doc,
"mean(right, left, parts, rank, factor, look)\n--\n\n"
"Replace pieces by a factor times their sums over the ranks; return the sums that are not finite.");

static PyObject *mean(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *right, *left, *given, *look, *found = NULL;
    Exchange self = {.sockets = 0};
    if (!PyArg_ParseTuple(arguments, "O!O!O!ifO", &PyTuple_Type, &right, &PyTuple_Type, &left,
                          &PyList_Type, &given, &self.rank, &self.factor, &look))
        return NULL;
    PyObject *parts = PySequence_Tuple(given);
    if (parts != NULL && borrow_sockets(&self, right, left) == 0 &&
        take_parts(&self, parts) == 0 && exchange(&self, look) == 0)
        found = findings(&self);
    let_go(&self);
    Py_XDECREF(parts);
    return found;
}

static PyMethodDef functions[] = {
    {"mean", mean, METH_VARARGS, mean_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, add_sources}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ring_kernels",
    .m_doc = "Sums round a ring of sockets, without Python between.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_ring_kernels(void) { return PyModuleDef_Init(&definition); }
