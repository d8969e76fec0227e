"""A real JupyterLab and a real Chromium, for the browser tests and `make bench`."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
SETTINGS = {  # every cell stays in the page, so that every output can be looked at; no news, no autosave
    "@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"},
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


def find_chromium():
    """The machine's own, or else the one that `playwright install chromium` fetched, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


ON_WINDOWS = os.name == "nt"
CHROMIUM = None if ON_WINDOWS else find_chromium()
WITHOUT = "ending a server with its kernels is written for Unix" if ON_WINDOWS else "NOT CHECKED: no Chromium is here"


@contextmanager
def server(folder, application="lab", environment=None):
    """JupyterLab, or "notebook", over a folder of notebooks, without the user's settings; yields its address.

    The package is importable there, unless an `environment` is given.
    """
    home = folder / ".jupyter"
    for name, setting in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(setting))
    page = home / "config" / "labconfig" / "page_config.json"
    page.parent.mkdir(parents=True)
    page.write_text(json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = (environment or os.environ | {"PYTHONPATH": str(ROOT)}) | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    command = [sys.executable, "-m", "jupyter", application, "--no-browser", "--allow-root"]
    command += [
        f"--ServerApp.root_dir={folder}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=t",
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token=t", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # the server and the kernels that it started
        process.wait(30)


def _wait_for(address, process):
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with {process.returncode} before it answered")
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("JupyterLab did not answer within a minute")


@contextmanager
def browser():
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield chromium
        finally:
            chromium.close()


def listen(page, complaints):
    """What the console of this page complains of is added to the list."""
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda line: line.type == "error" and complaints.append(line.text))


def offline_page(chromium, complaints, width, height, look="light"):
    """A page without a network; what it asks for beyond files, and its console's complaints, are added to the list."""
    page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=look, offline=True)
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
    listen(page, complaints)
    return page


class Lesson:
    """A notebook open in JupyterLab, and what its console complained about."""

    def __init__(self, chromium, address, name, road="doc/tree"):
        self.complaints = []
        self.page = chromium.new_page(viewport={"width": 1280, "height": 900})
        listen(self.page, self.complaints)
        self.page.goto(f"{address}/{road}/{name}?token=t&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.wait_for_idle()

    def wait_for_idle(self, seconds=120):
        """Wait for a kernel that is there and idle: before it is there, the indicator says idle, too."""
        self.page.wait_for_function(
            """() => { const name = document.querySelector('.jp-Toolbar-kernelName')?.textContent.trim()
                       return name && name != 'No Kernel' }""",
            timeout=1000 * seconds,
        )
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', timeout=1000 * seconds)

    def menu(self, bar, command):
        self.page.locator(f'#jp-MainMenu .lm-MenuBar-itemLabel:text-is("{bar}")').click()
        self.page.locator(f'li.lm-Menu-item[data-command="{command}"]').click()

    def run_all(self, seconds=120):
        """Run All, and wait until all code cells but folded ones show their number and the kernel is idle."""
        self.menu("Edit", "editmenu:clear-all")
        self.menu("Run", "runmenu:run-all")
        self.page.wait_for_function(
            r"""() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]
                      .every(prompt => /^$|\[\d+\]/.test(prompt.textContent))""",
            timeout=1000 * seconds,
        )
        self.wait_for_idle(seconds)

    def cell(self, number):
        return self.page.locator(".jp-Cell").nth(number)

    def view(self, number):
        """The drawing in this cell's output."""
        return self.cell(number).locator("svg[role=img]")

    def cells_with_views(self):
        """The numbers of the cells whose output moves."""
        cells = self.page.locator(".jp-Cell")
        return [number for number in range(cells.count()) if cells.nth(number).locator("svg[role=img]").count()]

    def run_cell(self, number, wait=True):
        """Run one cell by the keyboard; wait until it has run."""
        prompt = self.cell(number).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        self.cell(number).locator(".jp-InputArea-editor").click()
        self.page.keyboard.press("Control+Enter")
        if wait:
            self.page.wait_for_function(
                r"""([number, before]) => {
                    const cell = document.querySelectorAll('.jp-Cell')[number]
                    const now = cell.querySelector('.jp-InputPrompt').textContent
                    return now != before && /\[\d+\]/.test(now) }""",
                arg=[number, before],
                timeout=60_000,
            )
            self.wait_for_idle()

    def restart_kernel(self):
        self.menu("Kernel", "kernelmenu:restart")
        self.page.locator(".jp-Dialog button.jp-mod-accept").click()
        self.page.wait_for_selector(".jp-Dialog", state="detached")
        self.wait_for_idle()

    def save_and_end(self):
        """Store the notebook, end its kernel and close the page."""
        self.menu("File", "docmanager:save")
        self.page.wait_for_timeout(1000)
        self.end()

    def end(self):
        """End all kernels and close the page."""
        self.page.evaluate(
            """async () => { for (const session of await (await fetch('/api/sessions?token=t')).json())
                                await fetch(`/api/sessions/${session.id}?token=t`, { method: 'DELETE' }) }"""
        )
        self.close()

    def errors(self):
        """The error outputs on the page."""
        return self.page.locator(
            '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]'
        ).all_inner_texts()

    def close(self):
        self.page.close()


def press(lesson, cell, key="ArrowRight", slider=0):
    """Press a key on a slider of this cell's view."""
    handle = lesson.cell(cell).locator(".noUi-handle:visible").nth(slider)
    handle.focus()
    handle.press(key)


def wait_for_change(lesson, cell, before):
    """Wait until the drawing of this cell's view is another than before."""
    lesson.page.wait_for_function(
        """([cell, before]) => document.querySelectorAll('.jp-Cell')[cell]
                                     .querySelector('svg[role=img]').outerHTML != before""",
        arg=[cell, before],
        timeout=20_000,
    )
