#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""refuses.py COMMAND... - runs a command without io_uring, as seccomp profiles of containers do.

The kernel answers io_uring_setup, io_uring_enter and io_uring_register with EPERM, here and in all
that the command starts. Root is not needed. Exits with 77 where the kernel allows no filter.
"""
import ctypes
import errno
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of BPF: a word of the call, a jump, the end
ALLOW, FAIL = 0x7FFF0000, 0x00050000
SETUP, REGISTER = 425, 427  # the same number on x86-64, aarch64, ppc64el and riscv64


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def main(command):
    calls = list(range(SETUP, REGISTER + 1))
    code = [(LOAD, 0, 0, 0)]
    code += [(EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    code += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, FAIL | errno.EPERM)]
    text = b"".join(struct.pack("<HBBI", *step) for step in code)
    program = Program(len(code), text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        print("refuses.py: no filter of system calls:", os.strerror(ctypes.get_errno()))
        sys.exit(77)
    for call in calls:
        if libc.syscall(call, 0, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != errno.EPERM:
            sys.exit("refuses.py: the filter does not hold")
    os.execvp(command[0], command)


main(sys.argv[1:])
