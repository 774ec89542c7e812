/* Calls compiled policies from Python, with the checks that every step makes.
 *
 * Compiled once for a version of Python and numpy; any policy library with an ashore_contract can then be opened. A
 * call takes the usual form of its arguments, a dict of plain arrays, as fast as it can be checked. Whatever is not
 * usual, or is wrong, goes to a function in Python, which lets it in or says what is wrong with it. The results are
 * allocated before the policy runs, so that nothing can fail between the change of the states and the return.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "ashore.h"

enum { STEP = 0, SUBSTEP = 1, RATES = 2 };
enum { BUSY = -1, IRREGULAR = 1 };

/* An input, an output or a state: where it is in its struct, and what Python has to bring or gets. */
typedef struct {
    PyObject *name;
    PyArray_Descr *descr;
    PyArrayObject *view; /* of its place in the struct; for inputs and states only */
    int rank;
    npy_intp shape[ASHORE_MAX_RANK];
    size_t offset;
    size_t bytes;
} Port;

typedef struct {
    Port *ports;
    Py_ssize_t count;
    char *place; /* the struct */
} Table;

typedef struct {
    PyObject_HEAD
    void *library;
    const ashore_contract *contract;
    void *policy;
    Table inputs[RATES];
    Table outputs[RATES];
    Table states;
    PyObject *admit[RATES]; /* (inputs) -> a dict of arrays that fit */
    PyObject *fail;         /* (native, rate, status): raises */
    int release;            /* whether other threads of Python may run meanwhile */
    int busy;
} Native;

/* By ashore_dtype. */
static const struct {
    int type;
    size_t size;
} DTYPES[] = {
    {NPY_BOOL, 1},   {NPY_INT8, 1},   {NPY_INT16, 2},  {NPY_INT32, 4},   {NPY_INT64, 8},   {NPY_UINT8, 1},
    {NPY_UINT16, 2}, {NPY_UINT32, 4}, {NPY_UINT64, 8}, {NPY_FLOAT32, 4}, {NPY_FLOAT64, 8},
};

/* --- making and freeing ------------------------------------------------------------------------------------------ */

static void *aligned_zeros(size_t size, size_t alignment)
{
    void *memory = NULL;
    if (alignment < 64) {
        alignment = 64;
    }
    size = (size + alignment - 1) / alignment * alignment;
    if (posix_memalign(&memory, alignment, size ? size : alignment) != 0) {
        PyErr_NoMemory();
        return NULL;
    }
    return memset(memory, 0, size ? size : alignment);
}

static void table_clear(Table *table)
{
    for (Py_ssize_t index = 0; table->ports != NULL && index < table->count; index++) {
        Py_CLEAR(table->ports[index].name);
        Py_CLEAR(table->ports[index].descr);
        Py_CLEAR(table->ports[index].view);
    }
    PyMem_Free(table->ports);
    free(table->place);
    memset(table, 0, sizeof *table);
}

static int port_fill(Port *port, const ashore_port *said, char *place, size_t size, int viewed)
{
    size_t dtype = (size_t)said->dtype, bytes;
    if (dtype >= sizeof DTYPES / sizeof *DTYPES || said->rank < 0 || said->rank > ASHORE_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "port '%s' has the dtype %zu and %d axes", said->name, dtype, said->rank);
        return -1;
    }
    port->name = PyUnicode_InternFromString(said->name);
    port->descr = PyArray_DescrFromType(DTYPES[dtype].type);
    if (port->name == NULL || port->descr == NULL) {
        return -1;
    }
    port->rank = said->rank;
    port->offset = said->offset;
    port->bytes = said->bytes;
    bytes = DTYPES[dtype].size;
    for (int axis = 0; axis < said->rank; axis++) {
        port->shape[axis] = (npy_intp)said->shape[axis];
        bytes *= said->shape[axis];
    }
    if (bytes != said->bytes || said->offset > size || said->bytes > size - said->offset) {
        PyErr_Format(PyExc_ValueError, "port '%s' takes %zu bytes at %zu of %zu", said->name, said->bytes, said->offset, size);
        return -1;
    }
    if (viewed) {
        Py_INCREF(port->descr); /* the array takes it */
        port->view = (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, port->descr, port->rank, port->shape, NULL,
                                                           place + port->offset, NPY_ARRAY_CARRAY, NULL);
        if (port->view == NULL) {
            return -1;
        }
    }
    return 0;
}

static int table_fill(Table *table, const ashore_port *ports, size_t count, size_t size, int viewed)
{
    table->ports = PyMem_Calloc(count ? count : 1, sizeof *table->ports);
    if (table->ports == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    table->count = (Py_ssize_t)count;
    table->place = aligned_zeros(size, 64);
    if (table->place == NULL) {
        return -1;
    }
    for (size_t index = 0; index < count; index++) {
        if (port_fill(&table->ports[index], &ports[index], table->place, size, viewed) != 0) {
            return -1;
        }
    }
    return 0;
}

static void native_dealloc(Native *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (int rate = 0; rate < RATES; rate++) {
        table_clear(&self->inputs[rate]);
        table_clear(&self->outputs[rate]);
        Py_CLEAR(self->admit[rate]);
    }
    table_clear(&self->states);
    Py_CLEAR(self->fail);
    free(self->policy);
    if (self->library != NULL) {
        dlclose(self->library);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *native_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "symbol", "admit_step", "admit_substep", "fail", "release", NULL};
    PyObject *path = NULL, *admit_step, *admit_substep, *fail;
    const char *symbol;
    int release;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&sOOOp", names, PyUnicode_FSConverter, &path, &symbol,
                                     &admit_step, &admit_substep, &fail, &release)) {
        return NULL;
    }
    Native *self = (Native *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    self->admit[STEP] = Py_NewRef(admit_step);
    self->admit[SUBSTEP] = Py_NewRef(admit_substep);
    self->fail = Py_NewRef(fail);
    self->release = release;
    self->library = dlopen(PyBytes_AS_STRING(path), RTLD_NOW | RTLD_LOCAL);
    Py_DECREF(path);
    if (self->library == NULL) {
        PyErr_SetString(PyExc_OSError, dlerror());
        goto failed;
    }
    const ashore_contract *contract = dlsym(self->library, symbol);
    if (contract == NULL) {
        PyErr_Format(PyExc_ValueError, "it has no symbol %s", symbol);
        goto failed;
    }
    if (contract->abi_version != ASHORE_ABI_VERSION) {
        PyErr_Format(PyExc_ValueError, "its interface has the version %u, and this is %d",
                     (unsigned)contract->abi_version, ASHORE_ABI_VERSION);
        goto failed;
    }
    self->contract = contract;
    self->policy = aligned_zeros(contract->policy_size, contract->policy_alignment);
    if (self->policy == NULL
        || table_fill(&self->inputs[STEP], contract->step_inputs, contract->step_input_count, contract->step_in_size, 1)
        || table_fill(&self->outputs[STEP], contract->step_outputs, contract->step_output_count, contract->step_out_size, 0)
        || table_fill(&self->states, contract->states, contract->state_count, contract->states_size, 1)) {
        goto failed;
    }
    if (contract->substep != NULL
        && (table_fill(&self->inputs[SUBSTEP], contract->substep_inputs, contract->substep_input_count,
                       contract->substep_in_size, 1)
            || table_fill(&self->outputs[SUBSTEP], contract->substep_outputs, contract->substep_output_count,
                          contract->substep_out_size, 0))) {
        goto failed;
    }
    contract->reset(self->policy);
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* --- a call ------------------------------------------------------------------------------------------------------- */

static int is_busy(Native *self, int rate)
{
    if (!self->busy) {
        return 0;
    }
    PyObject *told = PyObject_CallFunction(self->fail, "Oii", self, rate, BUSY);
    if (told != NULL) {
        Py_DECREF(told);
        PyErr_SetString(PyExc_SystemError, "a busy policy was called");
    }
    return 1;
}

/* 0: the arrays are in their places. IRREGULAR: they may or may not be right. -1: an error is set. */
static int take(const Table *table, PyObject *given)
{
    if (!PyDict_CheckExact(given) || PyDict_GET_SIZE(given) != table->count) {
        return IRREGULAR;
    }
    for (const Port *port = table->ports, *end = port + table->count; port < end; port++) {
        PyObject *value = PyDict_GetItemWithError(given, port->name);
        if (value == NULL) {
            return PyErr_Occurred() ? -1 : IRREGULAR;
        }
        if (!PyArray_CheckExact(value)) {
            return IRREGULAR;
        }
        PyArrayObject *array = (PyArrayObject *)value;
        if (PyArray_DESCR(array) != port->descr || PyArray_NDIM(array) != port->rank
            || !PyArray_CompareLists(PyArray_DIMS(array), port->shape, port->rank)) {
            return IRREGULAR;
        }
        if (PyArray_IS_C_CONTIGUOUS(array)) {
            memcpy(table->place + port->offset, PyArray_DATA(array), port->bytes);
        } else if (PyArray_CopyInto(port->view, array) != 0) {
            return -1;
        }
    }
    return 0;
}

/* The same for arrays that Python has let in: of the right shapes, and of dtypes that are as good. */
static int take_admitted(const Table *table, PyObject *given)
{
    for (const Port *port = table->ports, *end = port + table->count; port < end; port++) {
        PyObject *value = PyDict_Check(given) ? PyDict_GetItemWithError(given, port->name) : NULL;
        if (value == NULL || !PyArray_Check(value) || PyArray_NDIM((PyArrayObject *)value) != port->rank
            || !PyArray_CompareLists(PyArray_DIMS((PyArrayObject *)value), port->shape, port->rank)) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_SystemError, "'%U' was let in and does not fit", port->name);
            }
            return -1;
        }
        if (PyArray_CopyInto(port->view, (PyArrayObject *)value) != 0) {
            return -1;
        }
    }
    return 0;
}

/* New arrays by name; what they hold comes later. The dict keeps them alive. */
static PyObject *make_arrays(const Table *table, PyArrayObject **arrays)
{
    PyObject *result = PyDict_New();
    if (result == NULL) {
        return NULL;
    }
    for (Py_ssize_t index = 0; index < table->count; index++) {
        const Port *port = &table->ports[index];
        Py_INCREF(port->descr); /* the array takes it, also if it cannot be made */
        PyObject *array = PyArray_NewFromDescr(&PyArray_Type, port->descr, port->rank, port->shape, NULL, NULL, 0, NULL);
        if (array == NULL || PyDict_SetItem(result, port->name, array) != 0) {
            Py_XDECREF(array);
            Py_DECREF(result);
            return NULL;
        }
        arrays[index] = (PyArrayObject *)array;
        Py_DECREF(array);
    }
    return result;
}

static void fill_arrays(const Table *table, PyArrayObject **arrays)
{
    for (Py_ssize_t index = 0; index < table->count; index++) {
        const Port *port = &table->ports[index];
        memcpy(PyArray_DATA(arrays[index]), table->place + port->offset, port->bytes);
    }
}

/* A copy of what lies in the struct of a table. */
static PyObject *copies(const Table *table)
{
    PyArrayObject **arrays = PyMem_Calloc(table->count ? (size_t)table->count : 1, sizeof *arrays);
    if (arrays == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = make_arrays(table, arrays);
    if (result != NULL) {
        fill_arrays(table, arrays);
    }
    PyMem_Free(arrays);
    return result;
}

static ashore_status run(Native *self, int rate)
{
    ashore_status (*call)(void *, const void *, void *) = rate == STEP ? self->contract->step : self->contract->substep;
    void *in = self->inputs[rate].place, *out = self->outputs[rate].place;
    if (!self->release) {
        return call(self->policy, in, out);
    }
    ashore_status status;
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = call(self->policy, in, out);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    return status;
}

static int take_inputs(Native *self, int rate, PyObject *given)
{
    const Table *table = &self->inputs[rate];
    int taken = take(table, given);
    if (taken != IRREGULAR) {
        return taken;
    }
    PyObject *admitted = PyObject_CallOneArg(self->admit[rate], given);
    if (admitted == NULL) {
        return -1;
    }
    taken = is_busy(self, rate) ? -1 : take_admitted(table, admitted); /* Python ran: anything may have happened */
    Py_DECREF(admitted);
    return taken;
}

enum { FEW = 32 };

static PyObject *call_rate(Native *self, int rate, PyObject *given)
{
    const Table *outputs = &self->outputs[rate];
    if ((self->busy && is_busy(self, rate)) || take_inputs(self, rate, given) != 0) {
        return NULL;
    }
    PyArrayObject *few[FEW], **arrays = few;
    if (outputs->count > FEW && (arrays = PyMem_Calloc((size_t)outputs->count, sizeof *arrays)) == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *result = make_arrays(outputs, arrays);
    if (result != NULL && self->busy && is_busy(self, rate)) { /* Python may have run in between */
        Py_CLEAR(result);
    }
    if (result != NULL) {
        ashore_status status = run(self, rate);
        if (status == ASHORE_OK) {
            fill_arrays(outputs, arrays);
        } else {
            Py_CLEAR(result);
            PyObject *told = PyObject_CallFunction(self->fail, "Oii", self, rate, (int)status);
            if (told != NULL) {
                Py_DECREF(told);
                PyErr_Format(PyExc_SystemError, "a call ended with the status %d, and nobody minded", (int)status);
            }
        }
    }
    if (arrays != few) {
        PyMem_Free(arrays);
    }
    return result;
}

static PyObject *native_step(Native *self, PyObject *given)
{
    return call_rate(self, STEP, given);
}

static PyObject *native_substep(Native *self, PyObject *given)
{
    if (self->contract->substep == NULL) {
        PyErr_SetString(PyExc_SystemError, "this policy has no substeps");
        return NULL;
    }
    return call_rate(self, SUBSTEP, given);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

static PyObject *native_current(Native *self, PyObject *Py_UNUSED(ignored))
{
    if (is_busy(self, STEP)) {
        return NULL;
    }
    self->contract->get_states(self->policy, self->states.place);
    return copies(&self->states);
}

static PyObject *native_replace(Native *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"values", "decided", NULL};
    PyObject *values;
    int decided;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!$p", names, &PyDict_Type, &values, &decided)) {
        return NULL;
    }
    if (is_busy(self, STEP) || take_admitted(&self->states, values) != 0) {
        return NULL;
    }
    self->contract->set_states(self->policy, self->states.place, decided);
    Py_RETURN_NONE;
}

static PyObject *native_decided(Native *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(self->contract->decided(self->policy));
}

/* --- when something is wrong -------------------------------------------------------------------------------------- */

static PyObject *native_unchecked(Native *self, PyObject *Py_UNUSED(ignored))
{
    self->contract->set_unchecked(self->policy, 1);
    Py_RETURN_NONE;
}

/* (port, element) of the last fault; see ashore_contract. */
static PyObject *native_fault(Native *self, PyObject *Py_UNUSED(ignored))
{
    int port = 0;
    size_t element = 0;
    self->contract->fault(self->policy, &port, &element);
    return Py_BuildValue("in", port, (Py_ssize_t)element);
}

/* (inputs, outputs, states): the last call of a rate once more on a copy of the policy, without looking for NaN. */
static PyObject *native_again(Native *self, PyObject *which)
{
    long rate = PyLong_AsLong(which);
    if (rate == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (rate < 0 || rate >= RATES || self->inputs[rate].place == NULL || self->busy) {
        PyErr_SetString(PyExc_SystemError, "there is no such rate, or the policy is busy");
        return NULL;
    }
    const ashore_contract *contract = self->contract;
    void *copy = aligned_zeros(contract->policy_size, contract->policy_alignment);
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, self->policy, contract->policy_size);
    contract->set_unchecked(copy, 1);
    (rate == STEP ? contract->step : contract->substep)(copy, self->inputs[rate].place, self->outputs[rate].place);
    contract->get_states(copy, self->states.place);
    free(copy);
    PyObject *inputs = copies(&self->inputs[rate]), *outputs = copies(&self->outputs[rate]);
    PyObject *states = copies(&self->states);
    if (inputs == NULL || outputs == NULL || states == NULL) {
        Py_XDECREF(inputs);
        Py_XDECREF(outputs);
        Py_XDECREF(states);
        return NULL;
    }
    return Py_BuildValue("NNN", inputs, outputs, states);
}

/* --- what it says of itself --------------------------------------------------------------------------------------- */

static PyObject *described(const Table *table)
{
    PyObject *made = PyList_New(table->count);
    for (Py_ssize_t index = 0; made != NULL && index < table->count; index++) {
        const Port *port = &table->ports[index];
        PyObject *shape = PyTuple_New(port->rank);
        for (int axis = 0; shape != NULL && axis < port->rank; axis++) {
            PyTuple_SET_ITEM(shape, axis, PyLong_FromSsize_t(port->shape[axis]));
        }
        PyObject *entry = shape == NULL ? NULL : Py_BuildValue("OON", port->name, port->descr, shape);
        if (entry == NULL) {
            Py_CLEAR(made);
        } else {
            PyList_SET_ITEM(made, index, entry);
        }
    }
    return made;
}

/* digest, batch, then the inputs and outputs of each rate and the states, each as [(name, dtype, shape)]. */
static PyObject *native_describe(Native *self, PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("snNNNNN", self->contract->digest, (Py_ssize_t)self->contract->batch,
                         described(&self->inputs[STEP]), described(&self->outputs[STEP]),
                         described(&self->inputs[SUBSTEP]), described(&self->outputs[SUBSTEP]),
                         described(&self->states));
}

static PyMethodDef methods[] = {
    {"step", (PyCFunction)native_step, METH_O, "Decide: name -> array to name -> array."},
    {"substep", (PyCFunction)native_substep, METH_O, "Act between decisions, likewise."},
    {"current", (PyCFunction)native_current, METH_NOARGS, "A copy of every state, by name."},
    {"replace", (PyCFunction)(void (*)(void))native_replace, METH_VARARGS | METH_KEYWORDS, "Give every state a value."},
    {"unchecked", (PyCFunction)native_unchecked, METH_NOARGS, "Do not look for NaN and infinities from now on."},
    {"fault", (PyCFunction)native_fault, METH_NOARGS, "(port, element) of what was not finite."},
    {"again", (PyCFunction)native_again, METH_O, "(inputs, outputs, states) of the last call, on a copy."},
    {"describe", (PyCFunction)native_describe, METH_NOARGS, "(digest, batch, tables of ports and states)."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"decided", (getter)native_decided, NULL, "Whether something has been decided since the last reset.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A compiled policy, opened."}, {Py_tp_new, native_new},       {Py_tp_dealloc, native_dealloc},
    {Py_tp_methods, methods},                  {Py_tp_getset, properties},    {0, NULL},
};

static PyType_Spec spec = {"ashore_native.Native", sizeof(Native), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "ashore_native", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_ashore_native(void)
{
    import_array();
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&spec);
    if (type == NULL || PyModule_AddObject(module, "Native", type) != 0) {
        Py_XDECREF(type);
        Py_CLEAR(module);
    }
    return module;
}
