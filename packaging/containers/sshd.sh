#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sshd.sh - what mpirun needs to reach other hosts: an sshd that the user of the image runs, on port
# 2222, with keys that are mounted at /home/tstream/.ssh. The names of hosts are those of the job
# alone, and their keys are new with each job.
set -eu

home=/home/tstream
cat > $home/.sshd_config << 'END'
Port 2222
PidFile /home/tstream/sshd.pid
HostKey /home/tstream/.ssh/id_rsa
PasswordAuthentication no
StrictModes no
END
chown tstream:tstream $home/.sshd_config
cat > /etc/ssh/ssh_config.d/tstream.conf << 'END'
Port 2222
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
END
mkdir -p /run/sshd
