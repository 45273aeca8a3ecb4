/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange_rate BYTES TIMES - how fast MPI itself is: two ranks send each other so many bytes at
 * once, as ranks do with rows. Rank 0 prints the best rate of one way, in bits a second. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const int bytes = argc > 1 ? atoi(argv[1]) : 0, times = argc > 2 ? atoi(argv[2]) : 0;
    char *from = malloc((size_t)bytes + 1), *to = malloc((size_t)bytes + 1);
    double best = 0;
    int rank, level, n;
    if (bytes <= 0 || times <= 0 || from == NULL || to == NULL) {
        fputs("usage: exchange_rate BYTES TIMES\n", stderr);
        return 2;
    }
    memset(from, 1, (size_t)bytes);
    memset(to, 2, (size_t)bytes);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level); /* as tstream-mpi */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int i = 0; i < times && n == 2; i++) {
        MPI_Request request[2];
        MPI_Status status[2];
        double start, took;
        MPI_Barrier(MPI_COMM_WORLD);
        start = MPI_Wtime();
        MPI_Irecv(to, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(from, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, status);
        took = MPI_Wtime() - start;
        best = 8.0 * bytes / took > best ? 8.0 * bytes / took : best;
    }
    if (rank == 0)
        printf("%.0f\n", best);
    free(from);
    free(to);
    return MPI_Finalize() != 0 || n != 2;
}
