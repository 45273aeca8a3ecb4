/* SPDX-License-Identifier: BSD-3-Clause */
/* wheel_program.c - a program of the Python wheel. Its code is the function PROGRAM of a shared
 * library in the wheel. */
int PROGRAM(int argc, char **argv);

int main(int argc, char **argv)
{
    return PROGRAM(argc, argv);
}
