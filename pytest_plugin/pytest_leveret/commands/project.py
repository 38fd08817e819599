"""What a project shows of itself: its settings of pytest, what starts its RabbitMQ, its URLs, and what consumes.

Everything is read from files; nothing of the project is imported or run.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Names of variables that hold the URL of a broker.
_BROKER: Final = re.compile(r"AMQP|RABBIT|BROKER", re.IGNORECASE)
_URL: Final = re.compile(r"(^|_)(URL|URI|DSN)S?$", re.IGNORECASE)
# The options that name packages whose RabbitMQ leveret can replace, by the module that a suite imports.
_REPLACED: Final = {"testcontainers": "testcontainers", "pytest_rabbitmq": "pytest-rabbitmq"}
_FIXTURES: Final = {
    "rabbitmq": "pytest-rabbitmq",
    "rabbitmq_proc": "pytest-rabbitmq",
    "docker_services": "pytest-docker",
}
# Files that list what the tests install, and how they list pytest and leveret.
_REQUIREMENTS: Final = ("requirements*.txt", "requirements/*.txt", "pyproject.toml", "setup.cfg", "setup.py")
_PYTEST: Final = re.compile(r"""(?:^[ \t]*|['"])pytest[ \t]*(?:\[[^\]]*\][ \t]*)?(?:[<>=~!'",;]|$)""", re.MULTILINE)
_LEVERET: Final = re.compile(r"\bleveret\b")
_OURS: Final = ("leveret", "leveret_session")
_CLIENTS: Final = ("celery", "faststream", "dramatiq", "taskiq", "nameko", "kombu", "aio_pika", "aiormq", "pika")
_SKIPPED: Final = frozenset({"node_modules", "site-packages", "build", "dist", "__pycache__", "venv"})
_IMAGE: Final = re.compile(r"""\bimage:\s*['"]?(\S*\brabbitmq(?::[^'"\s]*)?)""")
_LARGEST_FILE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FoundConsumer:
    """What consumes from a queue: an app or a function of a module, and how it is started."""

    # "celery", "faststream", or the client of a function that consumes: "pika" or "aio_pika".
    kind: str
    module: str
    name: str
    queue: str
    # Whether the function takes one argument, the URL.
    takes_url: bool = False


@dataclass
class Project:
    """What was read."""

    root: Path
    # The file with pytest's settings; None if there is none yet.
    settings: Path | None = None
    variables: set[str] = field(default_factory=set)
    replaces: set[str] = field(default_factory=set)
    # The fixtures that the project makes itself, and those that its tests take.
    fixtures: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)
    # Whether its tests already read a variable with a URL, or take a fixture of leveret.
    has_tests: bool = False
    clients: set[str] = field(default_factory=set)
    consumers: list[FoundConsumer] = field(default_factory=list)
    # The image of RabbitMQ in a compose file.
    image: str | None = None
    compose: Path | None = None
    # The file that lists pytest as installed, if no such file lists leveret.
    requirements: Path | None = None
    # Modules that could not be parsed.
    unread: list[Path] = field(default_factory=list)


def read(root: Path) -> Project:
    """Return what the files below a folder show. Raises NotADirectoryError if there is no such folder."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no folder; run `leveret init` in the folder of your project, or name it")
    project = Project(root, _settings_of(root), requirements=_requirements_of(root))
    for path in sorted(_files(root)):
        if path.suffix == ".py":
            _read_module(project, path)
        elif "compose" in path.name:
            image = _IMAGE.search(path.read_text(encoding="utf-8", errors="replace"))
            if image is not None:
                project.image, project.compose = image[1], path
    # A fixture of the project's own hides that of a plugin.
    project.replaces |= {_FIXTURES[name] for name in project.requested - project.fixtures if name in _FIXTURES}
    project.has_tests = project.has_tests or not project.requested.isdisjoint(_OURS)
    return project


def _settings_of(root: Path) -> Path | None:
    """Return the file that pytest takes its settings from, by pytest's own order."""
    sections = {
        "pytest.ini": "[pytest]",
        "pyproject.toml": "[tool.pytest",
        "tox.ini": "[pytest]",
        "setup.cfg": "[tool:pytest]",
    }
    for name, section in sections.items():
        path = root / name
        if path.is_file() and section in path.read_text(encoding="utf-8", errors="replace"):
            return path
    return None


def _requirements_of(root: Path) -> Path | None:
    listed = {
        path: path.read_text(encoding="utf-8", errors="replace")
        for pattern in _REQUIREMENTS
        for path in sorted(root.glob(pattern))
    }
    if any(_LEVERET.search(text) for text in listed.values()):
        return None
    return next((path for path, text in listed.items() if _PYTEST.search(text)), None)


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
        folders[:] = [name for name in folders if not (Path(folder) / name / "pyvenv.cfg").exists()]
        for name in names:
            path = Path(folder) / name
            if path.suffix in (".py", ".yml", ".yaml") and path.stat().st_size <= _LARGEST_FILE:
                yield path


def _read_module(project: Project, path: Path) -> None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError):
        project.unread.append(path)
        return
    module = _module_name(project.root, path)
    is_test = path.name.startswith(("test_", "conftest")) or path.stem.endswith("_test")
    imported = {name.split(".")[0] for name in _imports(tree)}
    project.clients |= imported & {*_CLIENTS}
    project.replaces |= {_REPLACED[name] for name in imported & _REPLACED.keys()}
    variables: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            variables |= _variables_of_call(node)
        elif isinstance(node, ast.Subscript) and _text(node.slice) and "environ" in ast.unparse(node.value):
            variables |= _if_url(_text(node.slice), "")
        elif is_test and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            project.requested |= {it.arg for it in node.args.args}
            if any("fixture" in ast.unparse(it) for it in node.decorator_list):
                project.fixtures.add(node.name)
    project.variables |= variables
    project.has_tests = project.has_tests or (is_test and bool(variables))
    if not is_test:
        project.consumers += _consumers(tree, module, imported)


def _module_name(root: Path, path: Path) -> str:
    parts = list(path.relative_to(root).with_suffix("").parts)
    if parts[0] in ("src", "lib"):
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _variables_of_call(call: ast.Call) -> set[str]:
    """Return the variable with a broker's URL that os.environ.get(), os.getenv(), env() or the like reads here."""
    name = ast.unparse(call.func)
    if not call.args or not re.search(r"environ\.get$|getenv$|(^|\.)env(\.\w+)?$|config$", name):
        return set()
    default = (
        call.args[1] if len(call.args) > 1 else next((it.value for it in call.keywords if it.arg == "default"), None)
    )
    return _if_url(_text(call.args[0]), _text(default))


def _if_url(variable: str, default: str) -> set[str]:
    holds_url = default.startswith("amqp") or (_BROKER.search(variable) and _URL.search(variable))
    return {variable} if variable.isidentifier() and holds_url else set()


def _consumers(tree: ast.Module, module: str, imported: set[str]) -> Iterator[FoundConsumer]:
    """Yield what a module consumes with: a Celery app, a FastStream broker, or functions that call a client."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name):
            made = ast.unparse(node.value.func).rsplit(".", 1)[-1]
            name = node.targets[0].id
            if made == "Celery":
                yield FoundConsumer("celery", module, name, _queue_of_celery(tree) or "celery")
            elif made == "RabbitBroker":
                for queue in _first_texts(tree, f"{name}.subscriber"):
                    yield FoundConsumer("faststream", module, name, queue)
                    break
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "pika" if isinstance(node, ast.FunctionDef) else "aio_pika"
            arguments = node.args.args[: len(node.args.args) - len(node.args.defaults)]
            is_started = "start_consuming" in ast.unparse(node) if kind == "pika" else True
            queue = next(iter(_consumed(node)), "")
            if kind in imported and queue and is_started and len(arguments) <= 1:
                takes_url = bool(arguments) and "url" in arguments[0].arg.lower()
                if takes_url or not arguments:
                    yield FoundConsumer(kind, module, node.name, queue, takes_url)


def _queue_of_celery(tree: ast.Module) -> str:
    """Return a queue that a worker of the app consumes: the first of task_queues, or else the default one."""
    given: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            given[ast.unparse(node.targets[0]).rpartition(".")[2]] = node.value
        elif isinstance(node, ast.Call):
            given |= {it.arg: it.value for it in node.keywords if it.arg is not None}
    queues = given.get("task_queues", tree)
    declared = [] if queues is tree else [*_first_texts(queues, "Queue"), *_first_texts(queues, "kombu.Queue")]
    return next(iter(declared), _text(given.get("task_default_queue")))


def _first_texts(tree: ast.AST, function: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function and node.args and _text(node.args[0]):
            yield _text(node.args[0])


def _consumed(function: ast.AST) -> Iterator[str]:
    """Yield the queues that a function consumes from, by name."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func).rsplit(".", 1)[-1]
        if called in ("basic_consume", "declare_queue", "get_queue"):
            given = [*node.args[:1], *(it.value for it in node.keywords if it.arg in ("queue", "name"))]
            yield from filter(None, map(_text, given))
