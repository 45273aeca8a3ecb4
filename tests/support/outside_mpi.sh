# SPDX-License-Identifier: BSD-3-Clause
# outside_mpi.sh - what tests of several ranks from the outside begin with, after outside.sh: they are skipped where there is
# no MPI. $launcher is what starts ranks: $MPIRUN, or mpirun.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # mpirun of Open MPI asks for both
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_base_warn_component_unused=0
export OMPI_MCA_btl_vader_single_copy_mechanism=none # containers forbid it
launcher=${MPIRUN:-mpirun}

# starts LAUNCHER PROGRAM: or there is nothing to test
starts()
{
    [ -x "$2" ] || { echo "$2 is not built"; exit 77; }
    timeout 120 "$1" -n 2 "$2" --version > log 2>&1 < /dev/null || { echo "$1 does not run here: $(tail -n 3 log)"; exit 77; }
}

# below PROCESS: whether it has been started by $pid, or by what that has started
below()
{
    above=$1
    while [ "${above:-1}" -gt 1 ]; do
        [ "$above" -ne "$pid" ] || return 0
        above=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$above/status" 2> /dev/null)
    done
    return 1
}

# find_ranks RESULT [OPTION]: sets $ranks to the processes that compute it in this folder, or go on with it by --resume, $rank to one of
# those below $pid: others may still be ending
find_ranks()
{
    rank='' ranks=''
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/cwd" 2> /dev/null)" = "$tmp" ] || continue
        case $( (tr '\0' ' ' < "$process/cmdline") 2> /dev/null) in
        *mpirun* | *mpiexec* | *hydra* | timeout*) ;;
        *tstream*" cp ${2:-x.tsh} "*"$1"*)
            ranks="$ranks ${process#/proc/}"
            ! below "${process#/proc/}" || rank=${process#/proc/}
            ;;
        esac
    done
}

# signal_one SIGNAL RESULT: waits until the run $pid has saved two states of it, sends the signal to one of its ranks, and waits
# for the end of all, which must come within $within seconds. $status is the launcher's.
signal_one()
{
    for i in $(seq 600); do
        [ ! -e "$2.partial/state.0" ] || [ ! -e "$2.partial/state.1" ] || break
        sleep 0.1
    done
    [ "$i" -lt 600 ] || bad "no state in a minute: $(cat err)"
    find_ranks "$2"
    [ -n "$rank" ] || bad "no rank is found"
    [ -z "$rank" ] || kill "-$1" "$rank"
    sent=$(date +%s) status=0
    wait "$pid" || status=$?
    find_ranks "$2"
    while [ -n "$ranks" ] && [ $(($(date +%s) - sent)) -lt 60 ]; do # their last one goes with the launcher's second signal
        sleep 0.1
        find_ranks "$2"
    done
    took=$(($(date +%s) - sent))
    [ $took -le "$within" ] || bad "SIG$1 to one rank: ranks$ranks are there, or were, $took seconds later"
    [ $status -ne 0 ] || bad "SIG$1 to one rank: the exit status is 0"
}
