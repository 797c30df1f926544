"""The documentation: every code block runs, every link leads somewhere, and the reference is complete and up to date."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import typer
import yaml
from helpers.blocks import ROOT, Block, blocks, pages, run, shown_values
from helpers.command_line import invoke
from helpers.shell_blocks import FEWER, SHELL, commands, is_short, make_what_is_named

import gvfx
import gvfx_paper
from gvfx.cli import app

EXAMPLES, REFERENCE = "docs/examples.md", "docs/reference/"  # written by docs/make_examples.py and make_reference.py
WITH_PYTHON = [page for page in pages() if any(b.language == "python" for b in blocks(page)) and not page.startswith(REFERENCE)]
OTHERS = (
    "git",
    "cd",
    "export",
    "chmod",
    "openssl",
    "ssh",
    "sbatch",
    "kubectl",
    "apt-get",
    "docker",
    "pre-commit",
    "conda",
)  # not ours
KINDS = ("python", "sh", "toml", "yaml", "dockerfile")  # the last: tests/experiments/test_kubernetes_recipe.py


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working directory, and the search path for modules as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_module", raising=False)  # of another page
    return tmp_path


# --- code blocks -------------------------------------------------------------------------------------------------


@pytest.fixture
def page_module(monkeypatch):
    """The program that a page makes, as a module of the reader's own."""
    module = ModuleType("page_of_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def run_page(page: str, names: dict, slow: bool = False) -> None:
    """Run the Python blocks of a page in order, as one program; compare their outputs."""
    for block in blocks(page):
        if block.language != "python":
            continue
        compile(block.code, str(block), "exec")
        if block.missing or ("slow" in block.how and not slow):
            continue
        printed = run(block, names)
        if block.output is not None and block.is_whole:
            assert printed.rstrip() == block.output.code.rstrip(), f"{block.output}: write it by python -m helpers.blocks {page}"


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_python_blocks_run(page, folder, page_module):
    run_page(page, vars(page_module))


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in WITH_PYTHON if any("slow" in b.how for b in blocks(p))])
def test_slow_python_blocks_run(page, folder, page_module):
    run_page(page, vars(page_module), slow=True)


def accepted_by_dask(arguments: list[str]) -> bool:
    """Whether `dask scheduler` or `dask worker` has these options."""
    command = import_module(f"distributed.cli.dask_{arguments[0]}").main
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    return all(word.split("=")[0] in known for word in arguments[1:] if word.startswith("-"))


def parsed(arguments: list[str]) -> None:
    """Let the command line's own parser read the arguments; raises if they are not accepted."""
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="gvfx")
    if arguments and arguments[0].startswith("-"):
        assert any(arguments[0] in parameter.opts for parameter in group.get_params(context)), arguments
        return
    command = group.get_command(context, arguments[0])
    assert command is not None, arguments
    rest = arguments[1:]
    while hasattr(command, "get_command"):
        context = typer.Context(command, info_name=arguments[0], parent=context)
        command, rest = command.get_command(context, rest[0]), rest[1:]
        assert command is not None, arguments
    command.make_context(arguments[0], rest, parent=context)


def test_every_block_is_of_a_kind_that_is_tested():
    """Python, shell, TOML, YAML, Dockerfiles; an output below a Python block; or a note that says what else it is."""
    outputs = {(b.output.page, b.output.line) for page in pages() for b in blocks(page) if b.output is not None}
    lost = []
    for page in pages():
        for block in blocks(page):
            noted = block.how.startswith(("not code", "in "))
            known = block.language in KINDS or (block.page, block.line) in outputs or noted
            if not known and page != EXAMPLES and not page.startswith(REFERENCE):
                lost.append(str(block))
    assert not lost, f"blocks that no test covers: {lost}"
    assert len([b for page in pages() for b in blocks(page)]) > 100


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_shell_blocks_run_or_are_accepted(block, folder):
    """Short commands of gvfx are run with small numbers, in order; long ones are read by the parser (and run by
    tests/test_docs_commands.py); targets and files exist."""
    makefile = (ROOT / "Makefile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    make_what_is_named(block.code)
    for line in commands(block):
        program, *arguments = shlex.split(line)
        while "=" in program:  # a variable before the command
            program, *arguments = arguments
        name = Path(program).name
        if name == "gvfx":
            parsed(arguments)
            if is_short(arguments):
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "until: .* runs ended before")  # with so few steps
                    ran = invoke(*arguments, *FEWER[arguments[0]].split())
                assert ran.exit_code == 0, f"{line}: {ran.output}"
        elif name == "make":
            assert re.search(rf"^{arguments[0]}:", makefile, re.M), line
        elif name == "pip" or arguments[:2] == ["-m", "pip"]:
            extras = re.findall(r"\[([\w,]+)\]", line)
            assert {e for each in extras for e in each.split(",")} <= {*project["optional-dependencies"]}, line
            assert all((ROOT / file).exists() for file in re.findall(r"(?:-c|--constraint|-r) (\S+)", line)), line
        elif name in ("python", "python3", "pytest"):
            files = [a for a in arguments if a.endswith(".py") or a.startswith("tests/")]
            assert (files and all((ROOT / file).exists() for file in files)) or arguments[:1] == ["-m"], line
        elif name == "dask":
            assert accepted_by_dask(arguments), line
        else:
            assert name in OTHERS, f"{line}: say in tests/test_docs.py how it is tested"


@pytest.mark.parametrize("block", [b for page in pages() for b in blocks(page) if b.language == "yaml"], ids=str)
def test_yaml_blocks_are_read(block):
    assert all(part["kind"] and part["metadata"]["name"] for part in yaml.safe_load_all(block.code))


@pytest.mark.parametrize("block", [b for page in pages() for b in blocks(page) if b.language == "toml"], ids=str)
def test_toml_blocks_are_questions(block, folder):
    Path("questions.toml").write_text(block.code)
    assert invoke("check", "FrozenLake-v1", "--questions", "questions.toml").exit_code == 0


@pytest.mark.parametrize("block", [b for page in pages() for b in blocks(page) if b.how.startswith("in ")], ids=str)
def test_a_quoted_output_is_the_other_pages(block):
    other = (ROOT / block.how.split()[1]).read_text()
    assert all(line in other for line in block.code.splitlines())


def test_examples_with_an_output_are_files_that_tests_run():
    sections = re.findall(r"^## (\S+)\n\n.*\[Source\]\(\.\./examples/(\S+)\.py\)", (ROOT / EXAMPLES).read_text(), re.M)
    assert len(sections) >= 15
    assert all(name == file and (ROOT / "examples" / f"{file}.py").exists() for name, file in sections)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) < 120


# --- links -------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)\)")


def slugs(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in re.findall(r"^#+ +(.*?) *$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_files_and_headings(page):
    text = (ROOT / page).read_text()
    broken = []
    for target in LINK.findall(re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in slugs(file.read_text())):
            broken.append(target)
    assert not broken


def test_every_page_is_in_the_navigation():
    """By its name or a pattern; so is every page that is named, unless it is still to be written."""
    text = (ROOT / "zensical.toml").read_text()
    named = set(re.findall(r'"([\w/*.-]+\.md|[\w/]*\*)"', text))
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert name in named or any("*" in each and Path(name).match(each) for each in named) or name.startswith("reference/"), (
            name
        )


# --- the reference -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference():
    return runpy.run_path(str(ROOT / "docs" / "make_reference.py"))


def test_the_reference_is_what_make_reference_writes(reference):
    old = [name for name, text in reference["written"]().items() if (ROOT / REFERENCE / name).read_text() != text]
    assert not old, f"docs/reference is out of date ({', '.join(old)}); run `python docs/make_reference.py`."


def test_every_public_name_has_its_place_a_purpose_and_an_example(reference):
    listed = [name for _, names in reference["GROUPS"].values() for name in names.split()]
    assert sorted(listed) == sorted([*gvfx.__all__, *gvfx_paper.__all__]), (
        "GROUPS of docs/make_reference.py lists every public name once"
    )
    _, shown = reference["examples"]()
    bare = [name for name in listed if not reference["purpose"](reference["public"](name)).endswith((".", "?"))]
    assert not bare, f"names whose docstring does not begin with a sentence: {bare}"
    assert not set(listed) - set(shown), f"names without an example: {sorted(set(listed) - set(shown))}"
    methods = {f"Result.{name}" for name, value in vars(gvfx.Result).items() if inspect.isfunction(value) and name[0] != "_"}
    assert not methods - set(shown), f"methods without an example: {sorted(methods - set(shown))}"


@pytest.fixture(scope="module")
def prepared(reference):
    """What the examples begin with."""
    names: dict = {}
    exec(reference["examples"]()[0], names)
    return names


@pytest.mark.parametrize("name", re.findall(r"^# %% (\S+)", (ROOT / REFERENCE / "examples.py").read_text(), re.M))
def test_an_example_runs_and_shows_what_it_says(name, reference, prepared, folder):
    code, needs = reference["examples"]()[1][name]
    compile(code, name, "exec")
    block = Block("", 0, "python", code, f"needs {needs}" if needs else "", 0, 0)
    if not block.missing:
        wrong = [f"{text}: {value}, not {said}" for text, value, said in shown_values(code, dict(prepared)) if value != said]
        assert not wrong


def test_every_command_and_option_is_in_the_reference():
    page = (ROOT / REFERENCE / "cli.md").read_text()
    group = typer.main.get_command(app)
    context = typer.Context(group, info_name="gvfx")
    for name in group.list_commands(context):
        assert f"## gvfx {name}\n" in page
        options = [p for p in group.get_command(context, name).params if p.param_type_name == "option"]
        missing = [option for p in options if not getattr(p, "hidden", False) for option in p.opts if f"{option}" not in page]
        assert not missing, f"gvfx {name}: {missing}"
