"""`make class-load`: a class at once on a JupyterHub of this machine, and what each learner waits for and takes.

Run as `python -m tests.class_load [learners [lesson …]]`; without arguments ten learners do lessons 01, 03 and 07.  A
learner is this program: it logs in, has a server started, opens a lesson and runs its cells, all through the hub's
proxy, by the requests and the socket that a browser uses.  What draws a page is not there, and runs on the learner's
machine anyway.  Each answers all exercises, saves after every answer while others run, and at the end reads the lesson
back, through the hub and from the disk.  All begin a lesson together, which is the hardest a class can do.

It ends with 1 if anybody did not finish, saw an error or another output than the lesson has stored, or lost something.
"""

import asyncio
import json
import os
import re
import secrets
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import asynccontextmanager, suppress
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

import nbformat
import psutil
from nbformat.v4 import output_from_msg
from tornado.httpclient import AsyncHTTPClient, HTTPError, HTTPRequest
from tornado.websocket import websocket_connect

from mha.exercises.judge import exercises
from tests.outputs import NOTEBOOKS, ROOT, ignored, normal

COURSE = ("notebooks", "mha", "data")  # what each learner's home gets, as from a clone
PATIENCE = 900  # seconds that anything may take
OWN = ("mha.runtime.setup(", "check(", "progress(")  # prints what differs between machines, or learners


class Learner:
    """One learner: their name, the hub's address, their home, and what they took by lesson."""

    def __init__(self, name, hub, home):
        self.name, self.hub, self.home = name, hub, home
        self.headers, self.started, self.took, self.faults = {}, None, {}, []

    async def ask(self, method, path, content=None):
        """The hub's answer to a request for one of its pages, as JSON; HTTPClientError if it refuses."""
        body = None if content is None else json.dumps(content)
        page = HTTPRequest(self.hub + path, method, self.headers, body, request_timeout=PATIENCE)
        page.allow_nonstandard_methods = True  # a POST without a body, too
        answer = await AsyncHTTPClient().fetch(page)
        return json.loads(answer.body or "null")

    async def log_in(self):
        """By the form, as a browser does; its cookies fetch a token, which opens all that follows."""
        cookies = SimpleCookie()

        async def visit(method, path, body=None, kind="application/x-www-form-urlencoded"):
            headers = {"Cookie": "; ".join(f"{one.key}={one.value}" for one in cookies.values()), "Content-Type": kind}
            page = HTTPRequest(self.hub + path, method, headers, body, request_timeout=PATIENCE, follow_redirects=False)
            answer = await AsyncHTTPClient().fetch(page, raise_error=False)
            for line in answer.headers.get_list("Set-Cookie"):
                cookies.load(line)
            return answer

        await visit("GET", "/hub/login")
        form = {"username": self.name, "password": "", "_xsrf": cookies["_xsrf"].value}
        await visit("POST", "/hub/login", urlencode(form))
        await visit("GET", "/hub/home")
        query = urlencode({"_xsrf": cookies["_xsrf"].value})
        answer = await visit("POST", f"/hub/api/users/{self.name}/tokens?{query}", "{}", "application/json")
        answer.rethrow()
        self.headers = {"Authorization": f"token {json.loads(answer.body)['token']}"}

    async def start(self):
        began = time.monotonic()
        await self.log_in()
        await self.ask("POST", f"/hub/api/users/{self.name}/server")
        while not (await self.ask("GET", f"/hub/api/users/{self.name}"))["servers"].get("", {}).get("ready"):
            await asyncio.sleep(0.5)
        self.started = time.monotonic() - began

    async def work(self, lesson):
        """Open a lesson, run all its cells, answer its exercises, save, and read back what was saved."""
        began, path = time.monotonic(), f"notebooks/{lesson}.ipynb"
        api = f"/user/{self.name}/api"
        notebook = nbformat.from_dict((await self.ask("GET", f"{api}/contents/{path}"))["content"])
        wanted = {"path": path, "name": lesson, "type": "notebook", "kernel": {"name": "python3"}}
        session = await self.ask("POST", f"{api}/sessions", wanted)
        address = f"{self.hub}{api}/kernels/{session['kernel']['id']}/channels".replace("http", "ws", 1)
        kernel = await websocket_connect(HTTPRequest(address, headers=self.headers, request_timeout=PATIENCE))
        for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
            cell.source, answered = answer(cell.source, self.name)
            cell.outputs, cell.execution_count = await run(kernel, cell.source)
            if answered:
                await self.ask("PUT", f"{api}/contents/{path}", {"type": "notebook", "content": notebook})
        await self.ask("PUT", f"{api}/contents/{path}", {"type": "notebook", "content": notebook})
        seconds = time.monotonic() - began
        self.faults += faults(nbformat.read(NOTEBOOKS / f"{lesson}.ipynb", 4), notebook)
        returned = nbformat.from_dict((await self.ask("GET", f"{api}/contents/{path}"))["content"])
        for place, there in {"the hub": returned, "the disk": nbformat.read(self.home / path, 4)}.items():
            self.faults += [] if essence(there) == essence(notebook) else [f"{lesson} came back otherwise from {place}"]
        (process,) = (one for one in psutil.process_iter() if session["kernel"]["id"] in " ".join(words(one)))
        self.took[lesson] = {"seconds": seconds, "processor": sum(process.cpu_times()[:4]), "kernel": peak(process)}
        kernel.close()
        await self.ask("DELETE", f"{api}/sessions/{session['id']}")


def words(process):
    """Its command line; none if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def peak(process):
    """The largest memory that a process has had, in MB (Linux)."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text("utf-8"))[1]) * 1024 / 1e6


def answer(source, name):
    """(The cell with a right answer written into it, signed, whether it had an exercise.)"""
    asked = re.search(r"^def (my_\w+)\(.*\n    return \.\.\.\n(?:.*\n)*?check\(\"([\d.]+)\"", source, re.M)
    if not asked:
        return source, False
    title, number = asked.groups()
    exercise = exercises(number.split(".")[0].zfill(2))[number]
    body = re.sub(r"^def \w+\(", f"def {title}(", exercise.source.strip(), count=1, flags=re.M)
    return re.sub(r"^def my_\w+\(.*\n    return \.\.\.\n", f"# {name}\n{body}\n", source, count=1, flags=re.M), True


async def run(kernel, source):
    """(The outputs of a cell, its number) when the kernel has run it and is idle again."""
    number = secrets.token_hex(8)
    header = {"msg_id": number, "msg_type": "execute_request", "session": number, "username": "", "version": "5.3"}
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    await kernel.write_message(json.dumps(message))
    outputs, count, idle = [], None, False
    while not (idle and count):
        told = await asyncio.wait_for(kernel.read_message(), PATIENCE)
        if told is None:
            raise ConnectionError("the kernel's connection was lost")
        if isinstance(told, bytes):  # numbers for a view
            continue
        told = json.loads(told)
        kind, inside = told["header"]["msg_type"], told["content"]
        if kind == "status" and inside["execution_state"] in ("restarting", "dead"):
            raise ConnectionError("the kernel died")
        if told["parent_header"].get("msg_id") != number:
            continue
        if kind in ("stream", "display_data", "execute_result", "error"):
            outputs.append(output_from_msg(told))
        elif kind == "execute_reply":
            count = inside["execution_count"]
        idle = idle or (kind == "status" and inside["execution_state"] == "idle")
    return outputs, count


def essence(notebook):
    """What a learner would miss: of each cell its text, outputs and number."""
    return [(c.source, c.get("outputs"), c.get("execution_count")) for c in notebook.cells]


def said(cell):
    """What a cell shows in words."""
    return "".join(one.get("text", one.get("data", {}).get("text/plain", "")) for one in cell.outputs)


def faults(stored, done):
    """A sentence for each cell that did not do what the stored lesson shows, or whose answer was not found right."""
    found = []
    stored, done = normal(stored), normal(nbformat.from_dict(done))
    for before, cell in zip(stored.cells, done.cells, strict=True):
        errors = [f"{one.ename}: {one.evalue}" for one in cell.get("outputs", []) if one.output_type == "error"]
        if errors:
            found.append(f"{cell.id} ended with {errors[0]}")
        elif "\ncheck(" in cell.source and not said(cell).startswith("✓"):
            found.append(f"{cell.id} has no answer that was found right: {said(cell)[:80]!r}")
        elif not (cell.cell_type != "code" or ignored(cell) or any(own in cell.source for own in OWN)):
            shown, wanted = said(cell), said(before)
            found += [] if shown == wanted else [f"{cell.id} shows {shown[:80]!r} for {wanted[:80]!r}"]
    return found


@asynccontextmanager
async def hub(folder):
    """The address of a JupyterHub, with all that it writes in this folder; and its process."""
    from jupyterhub.utils import random_port  # which only .venv-hub has

    own, inside, proxy = (f"http://127.0.0.1:{random_port()}" for _ in range(3))
    command = [sys.executable, "-m", "jupyterhub", "--log-level=WARN", "--Authenticator.allow_all=True"]
    command += [f"--JupyterHub.bind_url={own}", f"--JupyterHub.hub_bind_url={inside}"]
    command += [f"--ConfigurableHTTPProxy.api_url={proxy}", "--JupyterHub.spawner_class=simple"]
    command += ["--JupyterHub.authenticator_class=dummy"]
    command += [f"--SimpleLocalProcessSpawner.home_dir_template={folder}/{{username}}", "--Spawner.http_timeout=300"]
    command += ["--Spawner.environment=OMP_NUM_THREADS=1", "--Spawner.start_timeout=300", "--Spawner.args=--allow-root"]
    tools = [Path(sys.executable).parent, Path(sys.prefix) / "node_modules" / ".bin"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTERHUB_")}
    environment["PATH"] = os.pathsep.join([*map(str, tools), os.environ["PATH"]])
    with (folder / "hub.log").open("wb") as log:
        process = psutil.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(120):
            with suppress(OSError, HTTPError):
                await AsyncHTTPClient().fetch(f"{own}/hub/health")
                break
            await asyncio.sleep(0.5)
        else:
            raise RuntimeError((folder / "hub.log").read_text("utf-8")[-2000:])
        yield own, process
    finally:
        left = process.children(recursive=True)
        process.terminate()
        _, left = psutil.wait_procs([process, *left], timeout=60)
        for one in left:
            one.kill()


async def watch(process, most):
    """Keep in `most` the largest memory of the hub, of each learner, and of all, looked at every two seconds.

    Shared memory is shared out among those who use it (PSS), so the sum is what the machine must have.
    """
    while True:
        now = Counter()
        for one in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                kernel, owner = "ipykernel_launcher" in words(one), one.environ().get("JUPYTERHUB_USER")
                much = one.memory_full_info().pss / 1e6
                now["all"] += much
                now[(owner, "kernel" if kernel else "server") if owner else "hub"] += much
        for key, much in now.items():
            most[key] = max(most[key], much)
        await asyncio.sleep(2)


COLUMNS = ("seconds", "processor", "kernel", "kernel, shared out", "server, shared out")


def table(took):
    """Lines: a learner each, then the median and the largest; took {learner: {column: number}}."""
    rows = {name: [row.get(column, float("nan")) for column in COLUMNS] for name, row in took.items()}
    columns = list(zip(*rows.values(), strict=True))
    rows |= {"median": map(statistics.median, columns), "largest": map(max, columns)}
    yield f"{'':12}" + "".join(f"{column:>20}" for column in COLUMNS)
    yield from (f"{name:12}" + "".join(f"{number:20.0f}" for number in row) for name, row in rows.items())


async def together(learners, step):
    """Every learner takes a step, all at once; what stops one is that learner's fault and nobody else's."""

    async def taken(learner):
        try:
            await step(learner)
        except Exception as error:
            learner.faults.append("".join(traceback.format_exception_only(error)).strip())

    await asyncio.gather(*map(taken, learners))


async def teach(count, lessons, folder):
    """Let a class do lessons; prints what they took.  Returns all that went wrong, as sentences."""
    AsyncHTTPClient.configure(None, max_clients=10 * count)
    names = [f"learner-{number:02}" for number in range(1, count + 1)]
    for name in names:
        for part in COURSE:
            shutil.copytree(ROOT / part, folder / name / part, ignore=shutil.ignore_patterns("__pycache__"))
    print(f"{count} learners on {os.cpu_count()} cores; load before: {os.getloadavg()[0]:.1f}", flush=True)
    async with hub(folder) as (address, process):
        learners = [Learner(name, address, folder / name) for name in names]
        await together(learners, Learner.start)
        waited = [learner.started for learner in learners if learner.started]
        if waited:
            print(f"server there after: median {statistics.median(waited):.0f} s, largest {max(waited):.0f} s")
        for lesson in lessons:
            most = Counter()
            watching = asyncio.create_task(watch(process, most))
            await together(learners, lambda learner, lesson=lesson: learner.work(lesson))
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            took = {one.name: one.took[lesson] for one in learners if lesson in one.took}
            for name, row in took.items():
                row |= {f"{part}, shared out": most[name, part] for part in ("kernel", "server")}
            print(f"\n{lesson}: seconds, seconds of a core, and megabytes", *(table(took) if took else ()), sep="\n")
            print(f"hub and proxy {most['hub']:.0f}, all together {most['all']:.0f}", flush=True)
    wrong = [f"{one.name}: {fault}" for one in learners for fault in one.faults]
    return wrong + [f"{one.name} did not finish" for one in learners if len(one.took) < len(lessons)]


def main(count="10", *numbers):
    if sys.platform != "linux":
        sys.exit("NOT CHECKED: what a process takes is read as Linux tells it.")
    lessons = [next(NOTEBOOKS.glob(f"{number}_*.ipynb")).stem for number in numbers or ("01", "03", "07")]
    with tempfile.TemporaryDirectory() as folder:
        wrong = asyncio.run(teach(int(count), lessons, Path(folder)))
    print("", *wrong or ["All finished, and nothing was lost."], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
