"""What a project shows of itself: how its code finds RabbitMQ, what starts one for its tests, and what consumes.

Everything is read from files; nothing of the project is imported or run.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pytest_leveret.commands.addresses import Addresses
from pytest_leveret.commands.module_reader import CLIENTS, Binding, ModuleReader, bind, bindings, settings_fields

# The fixtures of packages whose RabbitMQ leveret can replace.
_FIXTURES: Final = {
    "rabbitmq": "pytest-rabbitmq",
    "rabbitmq_proc": "pytest-rabbitmq",
    "docker_services": "pytest-docker",
}
# Where pytest has its settings, in its own order, and the section that it looks for.
_SETTINGS: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
SECTION: Final = re.compile(r"^\[(?:tool\.pytest(?:\.ini_options)?|tool:pytest|pytest)\][ \t]*(?:#.*)?\n", re.MULTILINE)
# Files that list what the tests install, and how they list pytest and leveret.
_REQUIREMENTS: Final = ("requirements*.txt", "requirements/*.txt", "pyproject.toml", "setup.cfg", "setup.py")
_PYTEST: Final = re.compile(r"""(?:^[ \t]*|['"])pytest[ \t]*(?:\[[^\]]*\][ \t]*)?(?:[<>=~!'",;]|$)""", re.MULTILINE)
_LEVERET: Final = re.compile(r"\bleveret\b")
_OURS: Final = ("leveret", "leveret_session", "make_leveret")
# What is no code of the tests; examples and benchmarks name servers that no test needs.
_SKIPPED: Final = frozenset(
    {"node_modules", "site-packages", "build", "dist", "__pycache__", "venv", "docs", "doc", "examples", "benchmarks"}
)
# A line of a file of settings that gives a variable a value.
_GIVEN: Final = re.compile(
    r"""^[ \t]*(?:-[ \t]+)?(?:export\s+)?["']?([A-Za-z_]\w*)["']?[ \t]*[:=][ \t]*["']?([^\s"'#]+)""", re.MULTILINE
)
# An image with a version, wherever it stands but in a comment: it has no port, and is no host of a URL.
_TAGGED: Final = re.compile(r"^(?:[^#\n]*[\s'\"])?((?:[\w.-]+/)*rabbitmq:\d\d?(?!\d)[\w.-]*)", re.MULTILINE)
# The settings that code reads.
_OF_CODE: Final = (".ini", ".cfg", ".toml", ".yml", ".yaml", ".json")
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
    addresses: Addresses = field(default_factory=Addresses)
    replaces: set[str] = field(default_factory=set)
    # The fixtures that the project makes itself, and those that its tests take.
    fixtures: set[str] = field(default_factory=set)
    requested: set[str] = field(default_factory=set)
    # The modules that import a client.
    speaking: set[str] = field(default_factory=set)
    # Whether its tests already have to do with a broker.
    has_tests: bool = False
    consumers: list[FoundConsumer] = field(default_factory=list)
    # The images of RabbitMQ in compose files and workflows, by file.
    images: dict[Path, str] = field(default_factory=dict)
    # The module that starts RabbitMQ with docker-py, which leveret does not replace.
    docker_py: Path | None = None
    # The file that lists pytest as installed, if no such file lists leveret.
    requirements: Path | None = None
    # What files set as variables, but for those of the containers of a compose file.
    given: set[str] = field(default_factory=set)
    # Modules that could not be parsed.
    unread: list[Path] = field(default_factory=list)

    def name(self, path: Path) -> str:
        """Return how a reader of the project calls a file."""
        return path.relative_to(self.root).as_posix()


def read(root: Path) -> Project:
    """Return what the files below a folder show. Raises NotADirectoryError if there is no such folder."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is no folder; run `leveret init` in the folder of your project, or name it")
    listed = _listed(root)
    project = Project(root, _settings_of(root), requirements=_requirements_of(listed))
    modules: dict[Path, ast.Module] = {}
    texts: dict[Path, str] = {}
    for path in sorted(_files(root)):
        texts[path] = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".py":
            try:
                modules[path] = ast.parse(texts[path])
            except (SyntaxError, ValueError):
                project.unread.append(path)
            continue
        if "compose" not in path.name:
            project.given.update(name for name, _ in _GIVEN.findall(texts[path]))
        if path.suffix in (".yml", ".yaml") or path.name.startswith("Dockerfile"):
            _read_yaml(project, path, texts[path])
        elif path.suffix != ".json":
            project.addresses.read_settings(dict(_GIVEN.findall(texts[path])))
    nodes = (node for tree in modules.values() for node in ast.walk(tree))
    fields = settings_fields({node.name: node for node in nodes if isinstance(node, ast.ClassDef)})
    own = {path: bindings(tree, fields) for path, tree in modules.items()}
    bound = {**fields}
    for each in own.values():
        bind(bound, each)
    # Tests come last, because what they import says whether they have to do with a broker.
    for path, tree in sorted(modules.items(), key=lambda it: _is_test(it[0])):
        _read_module(project, path, tree, texts[path], bound | own[path])
    for path, tree in modules.items():
        reader = ModuleReader(project.addresses, project.name(path), {})
        reader.read_constants(tree)
        project.has_tests = project.has_tests or (_is_test(path) and reader.has_found)
    code = "\n".join(texts[path] for path in modules)
    for path, text in texts.items() if project.addresses.clients else ():
        if path.suffix in _OF_CODE and path.name in code and path not in project.images:
            project.addresses.read_file(text, project.name(path))
    # A fixture of the project's own hides that of a plugin.
    for name in project.requested - project.fixtures:
        package = _FIXTURES.get(name)
        if package == "pytest-docker" and project.images:
            project.replaces.add(package)
        if package == "pytest-rabbitmq" and (package in "\n".join(listed.values()) or find_spec("pytest_rabbitmq")):
            project.replaces.add(package)
    project.addresses.has_server = bool(project.images)
    project.has_tests = project.has_tests or bool(project.replaces) or not project.requested.isdisjoint(_OURS)
    return project


def _read_yaml(project: Project, path: Path, text: str) -> None:
    """Read the images and variables of a compose file, workflow or Dockerfile, with what .env beside it gives."""
    from pytest_leveret.standins.compose import VARIABLE, env_file
    from pytest_leveret.standins.server import is_rabbitmq

    # Tests keep large answers of HTTP in YAML.
    if not re.search("rabbit|amqp", text, re.IGNORECASE):
        return
    given = next((env_file(it) for it in (path.parent / ".env", project.root / ".env") if it.is_file()), {})
    filled = VARIABLE.sub(lambda it: given.get(it[1] or it[3]) or it[2] or it[0], text)
    # Its lines say most of it, if it is a template of YAML or there is no PyYAML.
    lines = _GIVEN.findall(filled)
    documents: list[Any] = [*({name: value} for name, value in lines), dict(lines)]
    with suppress(ImportError):
        import yaml

        with suppress(yaml.YAMLError):
            documents = list(yaml.load_all(filled, Loader=yaml.BaseLoader))
    for mapping in _mappings(documents):
        texts = {name: value for name, value in mapping.items() if isinstance(value, str)}
        project.addresses.read_settings(texts)
        if is_rabbitmq(texts.get("image", "")):
            project.images.setdefault(path, texts["image"])
    if (tagged := _TAGGED.search(filled)) is not None:
        project.images.setdefault(path, tagged[1])


def _mappings(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the mappings of a document. A list of NAME=value is one."""
    if isinstance(node, list):
        yield dict(it.split("=", 1) for it in node if isinstance(it, str) and "=" in it)
    elif isinstance(node, dict):
        yield node
    for each in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from _mappings(each)


def _settings_of(root: Path) -> Path | None:
    """Return the file that pytest takes its settings from, by pytest's own order."""
    for name in _SETTINGS:
        path = root / name
        if path.is_file() and SECTION.search(path.read_text(encoding="utf-8", errors="replace")):
            return path
    return None


def _listed(root: Path) -> dict[Path, str]:
    return {
        path: path.read_text(encoding="utf-8", errors="replace")
        for pattern in _REQUIREMENTS
        for path in sorted(root.glob(pattern))
    }


def _requirements_of(listed: dict[Path, str]) -> Path | None:
    if any(_LEVERET.search(text) for text in listed.values()):
        return None
    return next((path for path, text in listed.items() if _PYTEST.search(text)), None)


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [
            name for name in folders if (name == ".github" or not name.startswith(".")) and name not in _SKIPPED
        ]
        folders[:] = [name for name in folders if not (Path(folder) / name / "pyvenv.cfg").exists()]
        for name in names:
            path = Path(folder) / name
            is_setting = name.startswith((".env", "Dockerfile")) or path.suffix in (".env", *_OF_CODE)
            if (path.suffix == ".py" or is_setting) and path.is_file() and path.stat().st_size <= _LARGEST_FILE:
                yield path


def _read_module(project: Project, path: Path, tree: ast.Module, text: str, bound: dict[str, Binding]) -> None:
    names = set(_imports(tree))
    imported = {name.split(".")[0] for name in names}
    reader = ModuleReader(project.addresses, project.name(path), bound)
    reader.read(tree)
    speaks_of_rabbitmq = "rabbit" in text.lower()
    if "testcontainers" in imported and (speaks_of_rabbitmq or ("DockerCompose" in text and project.images)):
        project.replaces.add("testcontainers")
    if "pytest_rabbitmq" in imported:
        project.replaces.add("pytest-rabbitmq")
    if "docker" in imported and re.search(r"containers\.(run|create)\(", text) and "rabbitmq" in text:
        project.docker_py = path
    project.fixtures |= set(_fixtures(tree))
    if _is_test(path):
        uses = names | imported
        project.has_tests = project.has_tests or reader.has_found or bool(uses & {*CLIENTS, *project.speaking})
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                project.requested |= {it.arg for it in node.args.args}
    elif imported & CLIENTS:
        project.speaking.add(_module_name(project.root, path))
        project.consumers += _consumers(tree, _module_name(project.root, path), imported)


def _fixtures(tree: ast.Module) -> Iterator[str]:
    """Yield the names of fixtures that a module defines, or has from a function or a module of the project."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in map(ast.unparse, node.decorator_list):
                if "fixture" in decorator:
                    named = re.search(r"name=['\"](\w+)", decorator)
                    yield named[1] if named else node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("pytest_"):
            yield from (it.asname or it.name for it in node.names)


def _is_test(path: Path) -> bool:
    return path.name.startswith(("test", "conftest")) or path.stem.endswith("_test")


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
