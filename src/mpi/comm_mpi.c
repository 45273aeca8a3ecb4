/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives by MPI. MPI counts are ints, so larger buffers are sent in pieces of PIECE bytes. */
#include "mpi/comm_mpi.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/heartbeat.h"

#define PIECE    (UINT64_C(1) << 30) /* most bytes of one message */
#define TAG_MOVE 1
#define TAG_DEAL 3
/* a rank that fails or stops sends a message with this tag to all others, which may be far from
 * their next collective call */
#define TAG_LEAVE 2

struct mpi_ranks {
    struct ts_comm comm; /* must be the first member: of() casts a ts_comm to this struct */
    MPI_Comm all, leave, host;
    struct ts_heartbeat *heartbeat; /* detects lost ranks (heartbeat.h); or NULL */
    atomic_int left;                /* with a heartbeat: 1 after a message TAG_LEAVE arrived */
    int *count, *place;             /* for MPI_Allgatherv: bytes and offset of each rank */
    int *rc;                        /* for each rank, its result in the last call of `agree` */
    uint32_t *machine;              /* for each rank, the number of its machine */
    MPI_Request *request;
    uint32_t n_requests, most_requests;
    struct ts_err err; /* the first failure that `agree` returned */
};

static struct mpi_ranks *of(struct ts_comm *c)
{
    return (struct mpi_ranks *)c;
}

static void wait_all(struct mpi_ranks *m, uint32_t n)
{
    MPI_Status status;
    for (uint32_t i = 0; i < n; i++)
        MPI_Wait(&m->request[i], &status);
}

/* ---- agreeing on the result of all ranks ---- */

/* Returns the rank whose result all ranks get: the lowest with a failure, otherwise the lowest that
 * stops (TS_ESTOP), otherwise rank 0. */
static uint32_t worst_of(const int *rc, uint32_t n)
{
    uint32_t worst = 0;
    for (uint32_t r = 0; r < n; r++)
        if (rc[r] < 0 && (rc[worst] >= 0 || (rc[worst] == TS_ESTOP && rc[r] != TS_ESTOP)))
            worst = r;
    return worst;
}

static int largest_of(const int *rc, uint32_t n)
{
    int largest = rc[0];
    for (uint32_t r = 1; r < n; r++)
        largest = rc[r] > largest ? rc[r] : largest;
    return largest;
}

/* Sends rc, the result of this rank, to all other ranks, so that `poll` finds it in the middle of a
 * long pass. */
static void tell_others(struct mpi_ranks *m, int rc, MPI_Request *request)
{
    for (uint32_t r = 0; r < m->comm.n; r++)
        if (r != m->comm.rank)
            MPI_Isend(&rc, 1, MPI_INT, (int)r, TAG_LEAVE, m->leave, request++);
}

/* Receives the message TAG_LEAVE of each other rank that has failed, as m->rc says. */
static void hear_others(struct mpi_ranks *m)
{
    for (uint32_t r = 0; r < m->comm.n; r++) {
        int rc;
        if (m->rc[r] < 0 && r != m->comm.rank)
            MPI_Recv(&rc, 1, MPI_INT, (int)r, TAG_LEAVE, m->leave, MPI_STATUS_IGNORE);
    }
}

static int agree(struct ts_comm *c, int rc, struct ts_err *err)
{
    struct mpi_ranks *m = of(c);
    char host[64] = "?";
    uint32_t worst;
    if (m->err.code < 0) { /* after a failure the other ranks make no more collective calls */
        *err = m->err;
        return m->err.code;
    }
    if (rc < 0)
        tell_others(m, rc, m->request);
    MPI_Allgather(&rc, 1, MPI_INT, m->rc, 1, MPI_INT, m->all);
    worst = worst_of(m->rc, c->n);
    if (m->rc[worst] >= 0)
        return largest_of(m->rc, c->n);
    hear_others(m);
    if (rc < 0)
        wait_all(m, c->n - 1);
    if (worst == c->rank) {
        gethostname(host, sizeof host - 1);
        m->err = *err;
        if (m->rc[worst] != TS_ESTOP)
            ts_fail(&m->err, m->rc[worst], "rank %u of %u, on %s: %.900s", worst, c->n, host,
                    err->text);
    }
    MPI_Bcast(&m->err, sizeof m->err, MPI_BYTE, (int)worst, m->all);
    *err = m->err;
    return m->err.code;
}

static int somebody_leaves(const struct mpi_ranks *m)
{
    int there;
    MPI_Iprobe(MPI_ANY_SOURCE, TAG_LEAVE, m->leave, &there, MPI_STATUS_IGNORE);
    return there;
}

/* Looks for a message of a rank that fails or stops. The thread of the heartbeat calls it, so that
 * computing threads need not probe for messages. If no message has arrived, a probe of MPI may
 * yield its core (mpi_yield_when_idle). A computing thread would get the core back late if other
 * threads wait for cores. */
static void look(void *ctx)
{
    struct mpi_ranks *m = ctx;
    if (somebody_leaves(m))
        atomic_store(&m->left, 1);
}

static int poll(struct ts_comm *c)
{
    struct mpi_ranks *m = of(c);
    return m->heartbeat != NULL ? atomic_load(&m->left) : somebody_leaves(m);
}

/* ---- sending bytes between ranks ---- */

static int add_request(struct mpi_ranks *m, MPI_Request **ret, struct ts_err *err)
{
    if (m->n_requests == m->most_requests) {
        const uint32_t most = 2 * m->most_requests;
        MPI_Request *more = realloc(m->request, most * sizeof *more);
        if (more == NULL)
            return ts_fail(err, TS_ENOMEM, "out of memory for messages");
        m->request = more;
        m->most_requests = most;
    }
    *ret = &m->request[m->n_requests++];
    return 0;
}

/* Adds requests that send, or receive, the n bytes of one message in pieces, in ascending order. */
static int add_pieces(struct mpi_ranks *m, int sends, int tag, char *bytes, uint64_t n,
                      uint32_t rank, struct ts_err *err)
{
    int rc = 0;
    for (uint64_t at = 0; at < n && rc == 0; at += PIECE) {
        const int now = (int)(n - at < PIECE ? n - at : PIECE);
        MPI_Request *request = NULL;
        rc = add_request(m, &request, err);
        if (rc == 0 && sends)
            MPI_Isend(bytes + at, now, MPI_BYTE, (int)rank, tag, m->all, request);
        else if (rc == 0)
            MPI_Irecv(bytes + at, now, MPI_BYTE, (int)rank, tag, m->all, request);
    }
    return rc;
}

/* Sends and receives this rank's part of n moves of bytes between ranks. Starts sends before
 * receives, so that two ranks send to each other at the same time. With receives first, a rank that
 * arrives late would answer the other rank's message before it announces its own. The other rank
 * would then send its data, and its answer would wait behind these data in the connection. So the
 * two messages would travel one after the other. */
static int move(struct ts_comm *c, void *buffer, const struct ts_comm_move *move, uint32_t n,
                struct ts_err *err)
{
    struct mpi_ranks *m = of(c);
    int rc = 0;
    m->n_requests = 0;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (move[i].from == c->rank && move[i].to != c->rank)
            rc = add_pieces(m, 1, TAG_MOVE, (char *)buffer + move[i].begin,
                            move[i].end - move[i].begin, move[i].to, err);
    for (uint32_t i = 0; i < n && rc == 0; i++)
        if (move[i].to == c->rank && move[i].from != c->rank)
            rc = add_pieces(m, 0, TAG_MOVE, (char *)buffer + move[i].begin,
                            move[i].end - move[i].begin, move[i].from, err);
    wait_all(m, m->n_requests);
    return rc;
}

static int gather(struct ts_comm *c, void *buffer, const uint64_t *first, struct ts_err *err)
{
    struct mpi_ranks *m = of(c);
    if (c->n == 2) { /* `move` sends both ways at the same time, MPI_Allgatherv does not */
        const struct ts_comm_move both[2] = { { 0, 1, first[0], first[1] },
                                              { 1, 0, first[1], first[2] } };
        return move(c, buffer, both, 2, err);
    }
    if (first[c->n] <= PIECE) {
        for (uint32_t r = 0; r < c->n; r++) {
            m->count[r] = (int)(first[r + 1] - first[r]);
            m->place[r] = (int)first[r];
        }
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buffer, m->count, m->place, MPI_BYTE,
                       m->all);
        return 0;
    }
    for (uint32_t r = 0; r < c->n; r++)
        for (uint64_t at = first[r]; at < first[r + 1]; at += PIECE) {
            const uint64_t left = first[r + 1] - at;
            MPI_Bcast((char *)buffer + at, (int)(left < PIECE ? left : PIECE), MPI_BYTE, (int)r,
                      m->all);
        }
    return 0;
}

static int deal(struct ts_comm *c, const void *send, const uint64_t *send_first, void *got,
                const uint64_t *got_first, struct ts_err *err)
{
    struct mpi_ranks *m = of(c);
    const uint32_t own = c->rank;
    int rc = 0;
    m->n_requests = 0;
    for (uint32_t i = 1; i < c->n && rc == 0; i++) { /* no two ranks send to the same rank first */
        const uint32_t to = (own + i) % c->n;
        rc = add_pieces(m, 1, TAG_DEAL, (char *)(uintptr_t)send + send_first[to],
                        send_first[to + 1] - send_first[to], to, err);
    }
    for (uint32_t i = 1; i < c->n && rc == 0; i++) {
        const uint32_t from = (own + c->n - i) % c->n;
        rc = add_pieces(m, 0, TAG_DEAL, (char *)got + got_first[from],
                        got_first[from + 1] - got_first[from], from, err);
    }
    if (send_first[own + 1] > send_first[own])
        memcpy((char *)got + got_first[own], (const char *)send + send_first[own],
               send_first[own + 1] - send_first[own]);
    wait_all(m, m->n_requests);
    return rc;
}

/* ---- memory that ranks of a machine share ---- */

#define HUGE UINT64_C(2097152)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* its value since Linux 6.1 */
#endif

static uint64_t shared_bytes(uint64_t bytes)
{
    return (bytes + HUGE - 1) / HUGE * HUGE;
}

/* Maps the file at an address that is a multiple of HUGE. Returns NULL if that fails. */
static void *map_shared(int fd, uint64_t size)
{
    char *base =
        mmap(NULL, size + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *start;
    uint64_t head;
    if (base == MAP_FAILED)
        return NULL;
    head = (uint64_t)(-(uintptr_t)base % HUGE);
    start = base + head;
    if (head > 0)
        munmap(base, head);
    munmap(start + size, HUGE - head);
    if (mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        munmap(start, size);
        return NULL;
    }
    return start;
}

/* How other ranks find the shared file (process and descriptor) and recognize it (device and
 * inode). */
struct file_place {
    int64_t pid, fd;
    uint64_t dev, ino;
};

/* Whether the path leads to the file of `place`, with `size` bytes. If ranks have separate process
 * numbers, as in containers, the path leads to another file. */
static int is_file(const char *path, const struct file_place *place, uint64_t size)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == place->dev && st.st_ino == place->ino &&
           (uint64_t)st.st_size == size;
}

static int make_file(uint64_t size, struct file_place *ret)
{
    const int fd = memfd_create("factors", MFD_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)size) < 0 || fstat(fd, &st) < 0) {
        close(fd);
        return -1;
    }
    *ret = (struct file_place){ .pid = getpid(), .fd = fd, .dev = st.st_dev, .ino = st.st_ino };
    return fd;
}

/* The first rank of the machine makes a file without a name. The other ranks open it through
 * /proc/PID/fd of that rank, so nothing is left behind when ranks are killed. Returns a descriptor,
 * or -1 if the file cannot be opened. */
static int open_shared(struct mpi_ranks *m, uint64_t size)
{
    struct file_place place = { .fd = -1 };
    char path[64];
    int fd = m->comm.place == 0 ? make_file(size, &place) : -1;
    MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, m->host);
    if (m->comm.place == 0 || place.fd < 0)
        return fd;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, place.pid, place.fd);
    return is_file(path, &place, size) ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

/* Each rank of the machine is the first to write its part of the shared memory, so the kernel
 * places that part on the NUMA node of the rank. Then it asks for huge pages, which few machines
 * give to a shared file by default. If the kernel refuses, access is slower. */
static void touch_part(const struct ts_comm *c, char *memory, uint64_t size)
{
    const uint64_t n = size / HUGE, begin = n * c->place / c->beside * HUGE;
    const uint64_t bytes = n * (c->place + 1) / c->beside * HUGE - begin;
    if (bytes == 0)
        return;
    memset(memory + begin, 0, bytes);
    (void)madvise(memory + begin, bytes, MADV_COLLAPSE);
}

static int share(struct ts_comm *c, uint64_t bytes, void **ret, struct ts_err *err)
{
    struct mpi_ranks *m = of(c);
    const uint64_t size = shared_bytes(bytes + 1);
    void *memory;
    int fd, has, all_have, rc = agree(c, 0, err);
    *ret = NULL;
    if (rc < 0)
        return rc;
    fd = open_shared(m, size);
    memory = fd >= 0 ? map_shared(fd, size) : NULL;
    has = memory != NULL;
    MPI_Allreduce(&has, &all_have, 1, MPI_INT, MPI_MIN,
                  m->all); /* all ranks have opened the file now, so descriptors may be closed */
    if (fd >= 0)
        close(fd);
    if (!all_have) {
        if (has)
            munmap(memory, size);
        return 0;
    }
    touch_part(c, memory, size);
    *ret = memory;
    return agree(c, 0, err);
}

static void unshare(struct ts_comm *c, void *memory, uint64_t bytes)
{
    (void)c;
    munmap(memory, shared_bytes(bytes + 1));
}

/* ---- starting and ending MPI ---- */

/* MPI_Finalize sends short messages to the launcher at its end. TCP would hold the last message
 * back for 40 ms, until the earlier ones are acknowledged. This sets TCP_NODELAY on all connections
 * of the process, which are those of MPI. */
static void send_at_once(void)
{
    DIR *all = opendir("/proc/self/fd");
    const struct dirent *e;
    while (all != NULL && (e = readdir(all)) != NULL) {
        const int fd = atoi(e->d_name), on = 1;
        int protocol;
        socklen_t n = sizeof protocol;
        if (fd > STDERR_FILENO && getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) == 0 &&
            protocol == IPPROTO_TCP)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    if (all != NULL)
        closedir(all);
}

void ts_comm_mpi_close(struct ts_comm *c)
{
    struct mpi_ranks *m = of(c);
    if (m == NULL)
        return;
    ts_heartbeat_stop(m->heartbeat);
    MPI_Comm_free(&m->all);
    MPI_Comm_free(&m->leave);
    MPI_Comm_free(&m->host);
    free(m->machine);
    free(m->count);
    free(m->request);
    free(m);
    send_at_once();
    MPI_Finalize();
}

/* Sets place, beside and machine of the comm: the position of this rank among the ranks of its
 * host, their number, and the host of each rank. */
static void count_beside(struct mpi_ranks *m)
{
    struct ts_comm *c = &m->comm;
    uint32_t n_machines = 0, first = c->rank;
    int rank, n;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &m->host);
    MPI_Comm_rank(m->host, &rank);
    MPI_Comm_size(m->host, &n);
    c->place = (uint32_t)rank;
    c->beside = (uint32_t)n;
    MPI_Bcast(&first, 1, MPI_UINT32_T, 0, m->host);
    MPI_Allgather(&first, 1, MPI_UINT32_T, m->machine, 1, MPI_UINT32_T, m->all);
    /* machine[r] is the first rank of r's host, at most r: replace it by the number of the host */
    for (uint32_t r = 0; r < c->n; r++)
        m->machine[r] = m->machine[r] == r ? n_machines++ : m->machine[m->machine[r]];
    c->machine = m->machine;
}

int ts_comm_mpi_open(const char *name, int *argc, char ***argv, struct ts_comm **ret,
                     struct ts_err *err)
{
    static const struct ts_comm_ops ops = { .agree = agree,
                                            .gather = gather,
                                            .move = move,
                                            .deal = deal,
                                            .share = share,
                                            .unshare = unshare,
                                            .poll = poll };
    struct mpi_ranks *m = calloc(1, sizeof *m);
    int rank, n, level;
    ts_heartbeat_before(name);
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    if (m != NULL) {
        m->most_requests = 4 * (uint32_t)n;
        m->count = malloc(3 * (size_t)n * sizeof *m->count);
        m->request = malloc(m->most_requests * sizeof *m->request);
        m->machine = malloc((size_t)n * sizeof *m->machine);
    }
    if (m == NULL || m->count == NULL || m->request == NULL || m->machine == NULL ||
        level < MPI_THREAD_SERIALIZED) {
        ts_fail(err, level < MPI_THREAD_SERIALIZED ? TS_EARG : TS_ENOMEM, "rank %d: %s", rank,
                level < MPI_THREAD_SERIALIZED ? "this MPI lets one thread call it and no other"
                                              : "out of memory");
        MPI_Abort(MPI_COMM_WORLD, 1);
        return err->code;
    }
    m->place = m->count + n;
    m->rc = m->place + n;
    MPI_Comm_dup(MPI_COMM_WORLD, &m->all);
    MPI_Comm_dup(MPI_COMM_WORLD, &m->leave);
    m->comm = (struct ts_comm){ .ops = &ops, .rank = (uint32_t)rank, .n = (uint32_t)n };
    count_beside(m);
    m->heartbeat = ts_heartbeat_start(name, level, look, m);
    *ret = &m->comm;
    return 0;
}

void ts_comm_mpi_version(char *ret, size_t bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n;
    MPI_Get_library_version(text, &n);
    /* Open MPI returns "Open MPI v4.1.4, package: ...", MPICH a text with lines and tabs. */
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\t')
            *c = ' ';
    text[strcspn(text, ",\n")] = '\0';
    (void)snprintf(ret, bytes, "%s", text);
}

uint32_t ts_comm_mpi_beside(const struct ts_comm *c)
{
    return c->beside;
}
