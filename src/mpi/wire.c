/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the kernel about the TCP connections of this process, which MPI has opened. */
#include "mpi/wire.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_tcp(int fd)
{
    int protocol;
    socklen_t n = sizeof protocol;
    return getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &n) == 0 && protocol == IPPROTO_TCP;
}

/* Turns on keepalive probes of the kernel, one a second. Without them, an idle connection does not
 * notice that the other end is gone. */
static void let_ask(int fd)
{
    static const int on = 1, seconds = 1;
    int was = 0;
    socklen_t n = sizeof was;
    if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &was, &n) != 0 || was)
        return;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &(const int){ 127 }, sizeof(int));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* Returns for how many milliseconds the other end of fd has acknowledged nothing, if data or probes
 * were sent to it and the time is at least ms; otherwise 0. */
static uint32_t silent_ms(int fd, uint32_t ms)
{
    struct tcp_info now;
    socklen_t n = sizeof now;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &n) != 0 || now.tcpi_state != TCP_ESTABLISHED ||
        (now.tcpi_unacked == 0 && now.tcpi_probes < 2) || now.tcpi_last_ack_recv < ms)
        return 0;
    return now.tcpi_last_ack_recv;
}

static void name_peer(int fd, char *peer, size_t bytes)
{
    struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
    socklen_t n = sizeof at;
    char text[INET6_ADDRSTRLEN] = "another machine";
    if (getpeername(fd, (struct sockaddr *)&at, &n) == 0 && at.ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, text, sizeof text);
    else if (at.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, text, sizeof text);
    (void)snprintf(peer, bytes, "%s", text);
}

uint32_t ts_wire_silent_ms(uint32_t ms, char *peer, size_t bytes)
{
    DIR *all = opendir("/proc/self/fd");
    const struct dirent *e;
    uint32_t silent = 0;
    while (silent == 0 && all != NULL && (e = readdir(all)) != NULL) {
        const int fd = atoi(e->d_name);
        if (fd <= STDERR_FILENO || !is_tcp(fd))
            continue;
        let_ask(fd);
        silent = silent_ms(fd, ms);
        if (silent > 0)
            name_peer(fd, peer, bytes);
    }
    if (all != NULL)
        closedir(all);
    return silent;
}
