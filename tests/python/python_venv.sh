# SPDX-License-Identifier: BSD-3-Clause
# python_venv.sh - the virtual environment that tests of the Python package share, once $top, $build and left_out() are set: $venv,
# $python, $pip. One test at a time makes it or adds to it. TSTREAM_TEST_PEERS=1 fetches other packages, too, where that is possible.
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null ||
    left_out "no Python 3.10 with venv (Debian: python3-venv)"
venv=$build/tests/python-venv
python=$venv/bin/python
pip="$python -m pip --quiet --disable-pip-version-check --timeout 10 --retries 1"

make_venv()
{
    if ! "$python" -c 'import numpy, pytest, setuptools; assert int(setuptools.__version__.split(".")[0]) >= 77' 2> /dev/null; then
        rm -rf "$venv"
        python3 -m venv "$venv"
        $pip install numpy pytest 'setuptools >= 77' > pip.log 2>&1 || return 1
    fi
    if [ "${TSTREAM_TEST_PEERS:-0}" = 1 ]; then
        # What tests take tensors from and give them to, and what they compare with. A package that
        # the index does not have leaves its own tests out.
        for packages in "pandas pyarrow polars matplotlib tqdm nbclient ipykernel scipy hypothesis" \
            "pyttb tensorly" "xarray h5py" sparse "scikit-learn joblib" dask mypy; do
            # shellcheck disable=SC2086
            $pip install $packages > pip.log 2>&1 || echo "without $packages: $(tail -n 1 pip.log)"
        done
    fi
}

exec 9> "$build/tests/python-venv.lock"
flock 9
make_venv || left_out "no package index: $(tail -n 1 pip.log)"
exec 9>&-
