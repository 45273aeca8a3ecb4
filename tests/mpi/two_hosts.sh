# SPDX-License-Identifier: BSD-3-Clause
# two_hosts.sh - two hosts on one machine, for tests of several ranks, after outside.sh: each has a
# network, a name, a disk, a /tmp and a /dev/shm of its own. A virtual cable is all that joins them.
# They are namespaces of the kernel, which need root. No address outside of them is used.
#
#   hosts_up MBIT       makes both, with so many Mbit/s between them; skips the test where that is
#                       not allowed
#   on HOST COMMAND...  runs it on host 0 or 1, in $tmp, which is the folder $tmp/disk.HOST there;
#                       both see $tmp/shared, as on a file system of the network
#   cable up|down       on the side of host 1
#   power_off HOST      ends all that runs there
#   hosts_down          ends both; the trap of the test calls it
#
# $agent, on each disk, is what a launcher takes for ssh.
# shellcheck disable=SC2034,SC2154
host_pids='' address0=10.213.77.1 address1=10.213.77.2 agent=$tmp/agent

# skip_hosts WHY
skip_hosts()
{
    echo "two hosts: $1"
    exit 77
}

# holder HOST: sets $holder to the process that holds its namespaces
holder()
{
    # shellcheck disable=SC2086
    set -- $host_pids "$1"
    [ "$3" -eq 0 ] || shift
    holder=$1
}

on()
{
    holder "$1"
    shift
    nsenter -t "$holder" -m -u -i -n -- sh -c 'cd "$0" && exec "$@"' "$tmp" "$@"
}

# What makes a host of a process: everything below /tmp is new, but what the test needs stays.
write_hold()
{
    cat > hold.sh << 'END'
set -eu
host=$1 tmp=$2
shift 2
mount --make-rprivate /
hostname "tshost$host"
mount -t tmpfs keep "$tmp/keep"
n=0
for folder in "$tmp/disk.$host" "$tmp/shared" "$@"; do
    mkdir "$tmp/keep/$n"
    mount --rbind "$folder" "$tmp/keep/$n"
    n=$((n + 1))
done
mount --bind "$tmp/disk.$host/hosts" /etc/hosts
exec 9< "$tmp/keep"
mount -t tmpfs -o mode=1777 tmp /tmp
n=0
for folder in "$tmp" "$tmp/shared" "$@"; do
    mkdir -p "$folder"
    mount -c --rbind "/proc/self/fd/9/$n" "$folder"
    n=$((n + 1))
done
exec 9<&-
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t sysfs sys /sys # with the network cards of this host
ip link set lo up
cd "$tmp"
: > up
exec sleep 3600
END
}

# For a launcher: options, a host, and words that a shell there reads as one line. Like ssh, it is on
# the host of the launcher and waits for a host that is switched off. AGENT.ends does not wait: the
# launcher of MPICH would, for as long as ssh does.
write_agent()
{
    cat > "$1" << END
#!/bin/sh
while :; do
    case \$1 in
    -l | -p) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
case \$1 in
tshost0 | $address0) holder=${host_pids% *} ;;
tshost1 | $address1) holder=${host_pids#* } ;;
*) echo "agent: there is no host \$1" >&2; exit 255 ;;
esac
shift
nsenter -t "\$holder" -m -u -i -n -- sh -c 'cd "\$0" && eval "\$*"' "$tmp" "\$@" <&0 &
wait \$! && exit 0
status=\$?
[ \$status -ne 137 ] || exec sleep 3600
exit \$status
END
    sed 's/ exec sleep 3600$/ exit 137/' "$1" > "$1.ends"
    chmod +x "$1" "$1.ends"
}

cable()
{
    on 1 ip link set cable "$1"
}

hosts_up()
{
    [ "$(id -u)" -eq 0 ] || skip_hosts "they need root"
    for program in ip tc nsenter unshare; do
        command -v "$program" > where || skip_hosts "there is no program $program"
    done
    unshare --mount --uts --ipc --net true 2> why || skip_hosts "no namespaces: $(cat why)"
    write_hold
    mkdir keep shared
    for host in 0 1; do
        mkdir "disk.$host"
        printf '127.0.0.1 localhost\n%s tshost0\n%s tshost1\n' $address0 $address1 > \
            "disk.$host/hosts"
        unshare --mount --uts --ipc --net sh hold.sh "$host" "$tmp" "$top" "${bin%/tools}" > \
            "hold.$host" 2>&1 < /dev/null &
        host_pids="${host_pids:+$host_pids }$!"
    done
    # shellcheck disable=SC2086
    set -- "$1" $host_pids
    for host in 0 1; do
        tries=0
        while [ ! -e "disk.$host/up" ]; do
            tries=$((tries + 1))
            { [ $tries -le 100 ] && kill -0 "$2" 2> why && kill -0 "$3" 2> why; } ||
                skip_hosts "none can be made: $(cat hold.0 hold.1)"
            sleep 0.1
        done
    done
    ip link add cable netns "$2" type veth peer name cable netns "$3" 2> why ||
        skip_hosts "no virtual cable: $(cat why)"
    for host in 0 1; do
        write_agent "disk.$host/agent"
        address=$address0
        [ $host -eq 0 ] || address=$address1
        on $host ip address add "$address/30" dev cable
        on $host ip link set cable up
        on $host tc qdisc add dev cable root tbf rate "$1mbit" burst 512k latency 50ms 2> why ||
            skip_hosts "no limit of the rate: $(cat why)"
    done
}

# on_host HOST: sets $there to what runs there, without what holds it
on_host()
{
    holder "$1"
    there='' net=$(readlink "/proc/$holder/ns/net" 2> /dev/null) || return 0
    net=$(echo "$net" | tr '[]' '??')
    # shellcheck disable=SC2012
    there=$(find /proc/[0-9]*/ns/net -maxdepth 0 -lname "$net" 2> /dev/null | cut -d / -f 3 |
        grep -vx "$holder" | tr '\n' ' ') || true
}

power_off()
{
    on_host "$1"
    # shellcheck disable=SC2086
    [ -z "$there" ] || kill -KILL $there 2> /dev/null || true
}

hosts_down()
{
    [ -n "$host_pids" ] || return 0
    case $host_pids in *' '*) ;; *) host_pids="$host_pids $host_pids" ;; esac
    power_off 0
    power_off 1
    # shellcheck disable=SC2086
    kill -KILL $host_pids 2> /dev/null || true
    # shellcheck disable=SC2086
    wait $host_pids 2> /dev/null || true
    host_pids=''
}
