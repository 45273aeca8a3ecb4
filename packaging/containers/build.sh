#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# build.sh OUT [OPTION...] - the first stage of an image, in the source tree on Debian or Ubuntu:
# the packages that compile it, programs and library with these options for configure, and the
# Python package, all below OUT/usr/local. OUT/usr/local/share/tstream/packages lists the packages
# of the system that these need. CFLAGS counts.
set -eu

out=$1
shift
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends gcc libc6-dev make autoconf automake pkg-config \
    python3 liburing-dev liblz4-dev zlib1g-dev libxxhash-dev libisal-dev libzstd-dev liblzma-dev \
    libbz2-dev libhdf5-dev
case " $* " in
*' --with-mpi=no '*) ;;
*) apt-get install -qq -y --no-install-recommends libopenmpi-dev ;;
esac
case " $* " in
*' --with-cuda=no '*) ;;
*) apt-get install -qq -y --no-install-recommends g++ ;;
esac

./bootstrap
mkdir -p build-image
cd build-image
../configure -q "$@" ${CFLAGS:+CFLAGS="$CFLAGS"}
make -j"$(nproc)"
make -s install DESTDIR="$out"
rm "$out/usr/local/lib/libtstream.a"
site=$out/usr/local/lib/$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
python3 ../scripts/python_package "$site/dist-packages" "$out/usr/local/lib/libtstream.so.0"

# Libraries by their files, as names of packages differ between releases. What CUDA brings is in the
# image of its vendor.
mkdir -p "$out/usr/local/share/tstream"
hdf5=$(sed -n 's/^#define HDF5_SONAME "\(.*\)"/\1/p' config.h)
{
    ldd "$out"/usr/local/bin/* "$out/usr/local/lib/libtstream.so.0" |
        sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
    ldconfig -p | sed -n "s/.*$hdf5 .*=> //p"
} | sort -u | while read -r file; do
    dpkg -S "$(readlink -f "$file")" 2> /dev/null || dpkg -S "$file" 2> /dev/null || true
done | sed 's/[:,].*//' | sort -u > "$out/usr/local/share/tstream/packages"
