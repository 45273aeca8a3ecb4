# SPDX-License-Identifier: BSD-3-Clause
"""bits_run.py - builds both sides of tests/bits, runs cases with both, and says what differs.

A case runs in the same folder with either side, so that paths are the same, and its results are moved away
then. Tensors are built by both and compared, and all runs read those of the base.
"""
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile

import bits_compare
import bits_list
import bits_tensors
from bits_build import BuildError, Side, remove

CODE = {"0": "none", "1": "AVX2", "2": "AVX-512"}
LIMIT = 300  # seconds of a command


class RunError(Exception):
    """The comparison cannot be made; the text says why."""


class Skipped(Exception):
    """There is nothing to compare with."""


class Apart(Exception):
    """The levels of a case cannot be asked for together."""


class Result:
    def __init__(self, differences, unexpected=None):
        self.differences, self.unexpected = differences, unexpected


class Machine:
    def __init__(self, args, cases, top):
        self.args, self.cases, self.top = args, cases, top
        self.dir = os.path.abspath(args.dir)
        self.lacking = {}  # instruction sets that this machine does not have
        self.n_gpus = None  # not looked at
        if args.built:
            self.base, self.head = (Side(name, folder, top, None, args, folder)
                                    for name, folder in zip(("base", "head"), args.built))
            return
        base = self._commit(args.base or cases.base)
        head = self._commit(args.head) if args.head else None
        self.base = self._side("base", f"base-{base[:12]}", base)
        self.head = self._side("head", "head", head)

    def _commit(self, name):
        found = subprocess.run(["git", "-C", self.top, "rev-parse", "--verify", f"{name}^{{commit}}"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if found.returncode != 0:
            raise Skipped(f"there is no commit {name} here")
        return found.stdout.decode().strip()

    def _side(self, name, folder, commit):
        return Side(name, os.path.join(self.dir, folder), self.top, commit, self.args)

    # ---- building ----

    def build(self, sides=None):
        for side in sides or (self.base, self.head):
            try:
                if self.args.built:
                    print(f"{side.name}: what is built in {side.build_dir}", flush=True)
                else:
                    print(f"building {side.name}: {side.commit or 'the working tree'}", flush=True)
                    side.build(os.cpu_count())
            except BuildError as e:
                raise RunError(e) from e
            if self.args.isa is not None:
                continue
            best = side.vector_code(None)
            for isa, code in CODE.items():
                said = side.vector_code(isa)
                if code not in said:
                    if said != best and isa != "0":
                        raise RunError(f"{side.name}: TS_BITS_ISA={isa} gives '{said}'")
                    self.lacking[isa] = f"this machine has no {code}"
            if self.args.gpu:
                self.n_gpus = self._gpus(side)
        for reason in self.lacking.values():
            print(f"skipped: kernels, as {reason}")

    def _gpus(self, side):
        said = json.loads(subprocess.run([side.tool("tstream"), "devices", "--json"], check=True,
                                         stdout=subprocess.PIPE).stdout)
        n = sum(gpu["usable"] for gpu in said["gpus"])
        if n == 0:
            raise Skipped(f"there is no GPU for {side.name}: {said['no_gpu']}")
        return n

    # ---- tensors ----

    def _input(self, case):
        """Options and inputs of a case: the tensor's place and its key."""
        tensor = case.names[list(self.cases.axes).index("tensor")]
        tensor = {"streamed": "heavy"}.get(tensor, tensor)
        values = case.about["values"]
        if tensor in bits_tensors.DENSE:
            kind = "bin" if tensor == "dense-raw" else "npy"
            return (tensor, values), f"../../inputs/{tensor}.{values}.{kind}"
        return (tensor, values), f"../../tensors/{tensor}.{values}.tsh"

    def _make_tensors(self, cases):
        """Builds what the cases read, with both sides; gives what came of each."""
        keys = sorted({self._input(c)[0] for c in cases})
        for folder in ("inputs", "tensors"):
            remove(os.path.join(self.dir, folder))
            os.makedirs(os.path.join(self.dir, folder))
        for tensor, _ in keys:
            for rank in {c.about["rank"] for c in cases}:
                bits_tensors.write_start(os.path.join(self.dir, "inputs"), tensor, int(rank))
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            return list(pool.map(self._make_tensor, keys))

    def _make_tensor(self, key):
        name = ".".join(key)
        path, options = bits_tensors.write_input(os.path.join(self.dir, "inputs"), *key)
        if options is None:
            return f"tensor:{name}", None
        command = ["build", os.path.join("../../inputs", os.path.basename(path)), "-o", f"{name}.tsh",
                   "--quiet", *options]
        results = self._both(f"tensor:{name}", lambda side: [[side.tool("tshard"), *command]])
        found = self._compare(*results)
        made = os.path.join(results[0], f"{name}.tsh")
        if os.path.exists(made):
            shutil.copytree(made, os.path.join(self.dir, "tensors", f"{name}.tsh"))
        self._forget(results, found)
        return f"tensor:{name}", Result(found)

    # ---- commands of a case ----

    def _options(self, case):
        rank = case.about["rank"]
        tensor = self._input(case)[0][0]
        dims = (bits_tensors.SPARSE.get(tensor) or bits_tensors.DENSE[tensor])["dims"]
        start = f"../../inputs/start.{'x'.join(map(str, dims))}.{rank}.ktensor"
        return [o.replace("{rank}", rank).replace("{start}", start) for o in case.options]

    def _steps(self, case, side, twin=False):
        """Commands, one after another. Between the first and the second the state is kept apart."""
        iters = int(case.about.get("iters", 4))
        processes = int(case.about.get("processes", 1))
        road = "whole" if twin else case.about.get("road", "whole")
        options = self._options(case)
        if not any(o.startswith("--gpus") for o in options):
            options.append("--cpu")
        program = [side.tool("tstream"), "cp"]
        if processes > 1:
            if road in ("library", "stopped"):
                raise Apart("the library is not run by several processes")
            if not side.has_mpi():
                raise bits_list.ListError("no MPI")
            program = ["mpirun", "-n", str(processes), side.tool("tstream-mpi"), "cp"]
        # Names that both sides know: the program of an earlier commit has no --output.
        last = ["--tol=0", "--seed=5", "-o", "out", "--quiet"]
        of_door = ["--tol=0", "--seed=5", "--out=out", "--quiet"]
        tensor = self._input(case)[1]
        again = [*program, "--resume=out", f"--iters={iters}", "--quiet",
                 *(o for o in options if re.match("--(cpu|gpus|threads|host-memory)", o))]
        if road == "library":
            return [[side.door, tensor, *options, *of_door, f"--iters={iters}"]]
        if road == "stopped":
            return [[side.door, tensor, *options, *of_door, f"--iters={iters}", "--stop=2.1"], again]
        if road == "resumed":
            return [[*program, tensor, *options, *last, f"--iters={iters // 2}"], again]
        return [[*program, tensor, *options, *last, f"--iters={iters}"]]

    # ---- running ----

    def _environment(self, side, isa=None):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("OMP_", "GOMP_", "TSTREAM_", "TS_"))}
        env.update(LC_ALL="C", LD_LIBRARY_PATH=os.path.join(side.build_dir, "lib"),
                   OMP_WAIT_POLICY="passive", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
                   OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl_base_warn_component_unused="0",
                   OMPI_MCA_btl_vader_single_copy_mechanism="none",
                   OMPI_MCA_hwloc_base_binding_policy="none")
        if isa is not None:
            env["TS_BITS_ISA"] = isa
        env.update(tshard=side.tool("tshard"), tstream=side.tool("tstream"), door=side.door,
                   golden=os.path.join(self.top, "tests", "golden"), inputs="../../inputs",
                   tensors="../../tensors", bin=os.path.join(side.build_dir, "tools"))
        return env

    def _run(self, name, side, steps, isa=None, before=None, result=None):
        """Runs the steps in the folder of the case; gives where the results are then."""
        here = os.path.join(self.dir, "run", _key(name))
        remove(here)
        os.makedirs(here)
        if before is not None:
            before(here)
        env = self._environment(side, isa)
        with tempfile.TemporaryDirectory(prefix="tsb") as own, \
                open(os.path.join(here, "stderr"), "wb") as err, \
                open(os.path.join(here, "stdout"), "wb") as out, \
                open(os.path.join(here, "exit"), "w", encoding="ascii") as ends:
            # several mpirun at once would make and remove one folder of all
            env.update(OMPI_MCA_orte_tmpdir_base=own, PRTE_MCA_prte_tmpdir_base=own)
            for number, words in enumerate(steps):
                try:
                    status = subprocess.run(words, cwd=here, env=env, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, timeout=LIMIT).returncode
                except subprocess.TimeoutExpired:
                    status = f"after {LIMIT} s"
                ends.write(f"{status}\n")
                if status == 3 and words[0] == side.door:
                    raise Apart("the library is not asked for that here")
                if status != 0:
                    break
                for left in ("out", "out.partial"):
                    if number + 1 < len(steps) and os.path.isdir(os.path.join(here, left)):
                        shutil.copytree(os.path.join(here, left), _first(here, left), symlinks=True)
        to = os.path.join(self.dir, "results", result or side.name, _key(name))
        remove(to)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(here, to)
        return to

    def _both(self, name, steps, isa=None):
        return [self._run(name, side, steps(side), isa) for side in (self.base, self.head)]

    def _forget(self, results, found):
        if not found and not self.args.keep:
            for folder in results:
                remove(folder)

    def _case(self, case):
        """What comes of a case: a Result, or why it is skipped."""
        isa = self.args.isa or case.about.get("isa")
        if isa in self.lacking:
            return self.lacking[isa]
        if self.n_gpus is not None and int(case.about.get("gpus", 0)) > self.n_gpus:
            return f"this machine has {self.n_gpus} GPU"
        try:
            results = self._both(case.name, lambda side: self._steps(case, side), isa)
            remove(os.path.join(results[0], "stdout"))
            remove(os.path.join(results[1], "stdout"))
            found = self._compare(*results)
            refused = _refused(results[0])
            if not found and refused is None:
                found = self._crossed(case, results, isa) + self._twin(case, results[1], isa)
        except Apart as e:
            return str(e)
        except bits_list.ListError as e:
            return f"there is {e} in the build"
        self._forget(results, found)
        if found:
            found.append(f"results are in {results[0]} and {results[1]}")
        unexpected = None if case.pair else refused
        if case.pair and refused is None and not found:
            unexpected = "it is not refused, and the list says so"
        return Result(found, unexpected)

    def _compare(self, one, other):
        found = bits_compare.compare(one, other, self.cases.exceptions)
        if self.args.bits_alone:
            found = [f for f in found if not f.startswith(("stderr: ", "stdout: "))]
        return found

    def _crossed(self, case, results, isa):
        """HEAD goes on with what the base left, and ends with the same."""
        steps = self._steps(case, self.head)
        if len(steps) != 2:
            return []

        def before(here):
            for left in ("out", "out.partial"):
                if os.path.isdir(_first(results[0], left)):
                    shutil.copytree(_first(results[0], left), os.path.join(here, left),
                                    symlinks=True)

        crossed = self._run(case.name, self.head, steps[1:], isa, before, "crossed")
        found = bits_compare.compare(os.path.join(results[0], "out"), os.path.join(crossed, "out"),
                                     self.cases.exceptions)
        self._forget([crossed], found)
        return [f"HEAD goes on with a state of the base: {f}" for f in found]

    def _twin(self, case, result, isa):
        """The program makes the factors that the library made."""
        if case.about.get("road") != "library" or case.about.get("twin") == "no":
            return []
        twin = self._run(case.name, self.head, self._steps(case, self.head, twin=True), isa, None,
                         "twin")
        one, other = os.path.join(result, "out"), os.path.join(twin, "out")
        found = [f for f in bits_compare.compare(one, other, self.cases.exceptions)
                 if not re.match(r"(.*/)?(run[.]json|state|models[.].*):", f)]
        self._forget([twin], found)
        return [f"library and program: {f}" for f in found]

    def _other(self, run):
        name, command = run
        results = self._both(f"run:{name}", lambda side: [["sh", "-eu", "-c", command]],
                             self.args.isa)
        found = self._compare(*results)
        status = _refused(results[0])
        self._forget(results, found)
        return f"run:{name}", Result(found, status)

    def run(self, cases, runs):
        """Name and result of each."""
        made = self._make_tensors(cases)
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            found = list(zip((c.name for c in cases), pool.map(self._case, cases)))
            found += list(pool.map(self._other, runs))
        remove(os.path.join(self.dir, "run"))
        return [(name, result) for name, result in made if result is not None] + found

    # ---- making the list ----

    def _tries(self, case):
        """ok, refused or apart, with the base alone."""
        isa = case.about.get("isa")
        try:
            result = self._run(case.name, self.base, self._steps(case, self.base), isa)
        except Apart:
            return "apart"
        refused = _refused(result)
        remove(result)
        return "ok" if refused is None else "refused"

    def _try_all(self, cases):
        """The same of each; what was tried in this folder before is known."""
        path = os.path.join(self.base.folder, "tried.json")
        known = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                known = json.load(f)
        words = [" ".join([self._input(c)[1], *c.options, *sorted(map("=".join, c.about.items()))])
                 for c in cases]
        todo = {w: c for w, c in zip(words, cases) if w not in known}
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            known.update(zip(todo, pool.map(self._tries, todo.values())))
        with open(path, "w", encoding="utf-8") as f:
            json.dump(known, f)
        return [known[w] for w in words]

    def make_list(self):
        cases = self.cases
        cases.refused, cases.apart, cases.rows = [], [], []
        self.head = self.base
        self.build([self.base])
        pairs = [tuple(sorted(p)) for p in sorted(cases.pairs(), key=sorted)]
        pairs.sort()
        tried = [bits_list.Case(cases.axes, cases.usual(p), p) for p in pairs]
        self._make_tensors(tried)
        for pair, status in zip(pairs, self._try_all(tried)):
            if status != "ok":
                (cases.refused if status == "refused" else cases.apart).append(pair)
        print(f"{len(pairs)} pairs, {len(cases.refused)} refused, {len(cases.apart)} apart", flush=True)
        cases.rows = bits_list.cover(
            cases, lambda rows: [s == "ok" for s in self._try_all(
                [bits_list.Case(cases.axes, r) for r in rows])], lambda text: print(text, flush=True))
        self._write_list()

    def _write_list(self):
        with open(self.cases.path, encoding="utf-8") as f:
            kept = [line for line in f if not re.match("(refused|apart|case) ", line)]
        for kind, pairs in (("refused", self.cases.refused), ("apart", self.cases.apart)):
            kept += [f"{kind} {' '.join('='.join(item) for item in pair)}\n" for pair in pairs]
        kept += [f"case {' '.join(row)}\n" for row in self.cases.rows]
        with open(self.cases.path, "w", encoding="utf-8") as f:
            f.writelines(kept)


def _key(name):
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def _first(folder, left):
    return os.path.join(folder, left.replace("out", "first"))


def _refused(result):
    """The sentence of a case that ended in an error, else None."""
    with open(os.path.join(result, "exit"), encoding="ascii") as f:
        ends = f.read().split("\n")[:-1]
    if ends and ends[-1] == "0":
        return None
    with open(os.path.join(result, "stderr"), encoding="utf-8", errors="replace") as f:
        said = f.read().strip().splitlines()
    return f"exit {ends[-1] if ends else '?'}: {said[0] if said else 'nothing is said'}"
