# SPDX-License-Identifier: BSD-3-Clause
"""Libraries of the system that a package built from source needs, and who has them."""

import re
from typing import Dict, Tuple

# Start of the file name: packages of Debian and Ubuntu, and of Fedora.
PACKAGES: Dict[str, Tuple[str, str]] = {
    "libtstream": ("libtstream0", "none"), "liburing": ("liburing2", "liburing"),
    "liblz4": ("liblz4-1", "lz4-libs"), "libz.": ("zlib1g", "zlib"),
    "libxxhash": ("libxxhash0", "xxhash-libs"), "libisal": ("libisal2", "isa-l"),
    "libzstd": ("libzstd1", "libzstd"), "liblzma": ("liblzma5", "xz-libs"),
    "libbz2": ("libbz2-1.0", "bzip2-libs"), "libgomp": ("libgomp1", "libgomp"),
}


def sentence(error: OSError) -> str:
    """What a user can do about an error of the dynamic linker."""
    found = re.match(r"([^\s:]+): cannot open shared object file", str(error))
    if found is None:
        return f"tstream's library cannot be loaded: {error}"
    name = found[1]
    for start, (apt, dnf) in PACKAGES.items():
        if name.startswith(start):
            fedora = "" if dnf == "none" else f" (Fedora: dnf install {dnf})"
            return (f"tstream's library needs {name}, which is not found: apt-get install "
                    f"{apt}{fedora}, or install the wheel for Linux, which brings it along")
    return f"tstream's library needs {name}, which is not found"
