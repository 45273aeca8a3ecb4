/* SPDX-License-Identifier: BSD-3-Clause */
/* wheel_program.c - a program of a wheel. Its code is in the library beside it, as PROGRAM. */
int PROGRAM(int argc, char **argv);

int main(int argc, char **argv)
{
    return PROGRAM(argc, argv);
}
