"""Keep the catalogue of translations in step with the extension's sources.

    python extension/catalogue.py          # take new strings into the .po, and compile it
    python extension/catalogue.py --check  # only say what is out of step

A translator edits ``workbench/locale/*/LC_MESSAGES/workbench.po``. JupyterLab reads the JSON beside
it, which it finds by the entry point group ``jupyterlab.locale``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

from workbench.core.performance.step_sampling import LABELS

ROOT = Path(__file__).parents[1]
LOCALES = ROOT / "workbench" / "locale"
DOMAIN = "workbench"
KEYWORDS = {"__": None, "_n": (1, 2), "_p": ((1, "c"), 2)}
OPTIONS = {"jsx": "true", "parse_template_string": "true"}
# Those of ``workbench.view.phrase``.
PYTHON_KEYWORDS = {"phrase": None, "counted": (1, 2)}
CONTEXT_END = "\4"


def sources() -> list[Path]:
    """Return the TypeScript files that may have strings to translate."""
    found = (ROOT / "extension" / "src").rglob("*.ts*")
    return sorted(path for path in found if "__tests__" not in path.parts)


def python_sources() -> list[Path]:
    """Return the Python files that may have strings for a page to translate."""
    rooms = (ROOT / "workbench" / "view", ROOT / "workbench" / "pages")
    return sorted(path for room in rooms for path in room.rglob("*.py"))


def extracted() -> Catalog:
    """Return all strings of the sources and of the settings schema."""
    catalogue = Catalog(domain=DOMAIN)
    for path in [*sources(), *python_sources()]:
        where = path.relative_to(ROOT).as_posix()
        for message, context in strings(path):
            catalogue.add(message, None, [(where, 0)], context=context)
    for name in LABELS.values():  # which ``extension/messages.py`` writes for the page
        catalogue.add(name)
    for path in sorted((ROOT / "extension" / "schema").glob("*.json")):
        where = path.relative_to(ROOT).as_posix()
        for context, text in schema_strings(json.loads(path.read_text(encoding="utf-8"))):
            catalogue.add(text, None, [(where, 0)], context=context)
    return catalogue


def strings(path: Path) -> list[tuple[str | tuple[str, ...], str | None]]:
    """Return each string of the source at ``path``, or its forms, and its context."""
    method, keywords = (
        ("python", PYTHON_KEYWORDS) if path.suffix == ".py" else ("javascript", KEYWORDS)
    )
    with path.open("rb") as file:
        found = extract(method, file, keywords=keywords, options=OPTIONS)
        return [(message, context) for _, message, _, context in found]


def schema_strings(schema: dict) -> Iterator[tuple[str, str]]:
    """Give each string of a settings schema, with the context that JupyterLab gives it."""
    for key in ("title", "description"):
        yield "schema", schema[key]
    if label := schema.get("jupyter.lab.setting-icon-label"):
        yield "settings", label
    for setting in schema.get("properties", {}).values():
        yield from (("settings", setting[k]) for k in ("title", "description") if k in setting)


def read(path: Path) -> Catalog:
    """Return the translations in the ``.po`` file at ``path``, if there is one."""
    locale = path.parents[1].name
    if not path.exists():
        return Catalog(locale=locale, domain=DOMAIN)
    with path.open("rb") as file:
        return read_po(file, locale=locale, domain=DOMAIN)


def updated(before: Catalog, template: Catalog) -> Catalog:
    """Return ``before`` with the strings of ``template``: new ones are empty, old ones go."""
    after = Catalog(locale=before.locale, domain=DOMAIN)
    for message in template:
        if message.id:
            former = before.get(message.id, message.context)
            translated = former.string if former is not None else None
            after.add(message.id, translated, message.locations, context=message.context)
    return after


def po_text(catalogue: Catalog) -> str:
    """Return ``catalogue`` as a ``.po`` file without dates and places, which change for nothing."""
    body = BytesIO()
    write_po(body, catalogue, width=100, omit_header=True, no_location=True, sort_output=True)
    head = (
        f"Language: {catalogue.locale}",
        "Content-Type: text/plain; charset=utf-8",
        "Content-Transfer-Encoding: 8bit",
        f"Plural-Forms: {catalogue.plural_forms}",
    )
    lines = "".join(f'"{line}\\n"\n' for line in head)
    return f'msgid ""\nmsgstr ""\n{lines}\n{body.getvalue().decode("utf-8")}'


def json_text(catalogue: Catalog) -> str:
    """Return ``catalogue`` as JupyterLab reads it.

    Its front end takes a plural only from a list of two or more, so that a language with one form
    has it twice.
    """
    head = {
        "domain": DOMAIN,
        "language": str(catalogue.locale).replace("_", "-"),
        "plural_forms": catalogue.plural_forms,
    }
    messages: dict[str, object] = {"": head}
    for message in sorted(catalogue, key=_order):
        if message.id and is_translated(message):
            singular = message.id[0] if message.pluralizable else message.id
            key = f"{message.context}{CONTEXT_END}{singular}" if message.context else singular
            forms = list(message.string) if message.pluralizable else [message.string]
            messages[key] = forms * 2 if message.pluralizable and len(forms) == 1 else forms
    return json.dumps(messages, ensure_ascii=False, indent=1) + "\n"


def is_translated(message: Message) -> bool:
    """Whether every form of ``message`` has words."""
    return all(message.string) if message.pluralizable else bool(message.string)


def placeholders(text: str) -> list[str]:
    """Return the places of ``text`` where values go, such as ``%1``."""
    return sorted(set(re.findall(r"%\d+", text)))


def main(check: bool) -> int:
    """Bring all catalogues up to date, or only look; return the exit code."""
    template = extracted()
    stale = []
    for path in sorted(LOCALES.glob(f"*/LC_MESSAGES/{DOMAIN}.po")):
        catalogue = updated(read(path), template)
        for file, text in (
            (path, po_text(catalogue)),
            (path.with_suffix(".json"), json_text(catalogue)),
        ):
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                stale.append(file.relative_to(ROOT))
                if not check:
                    file.write_text(text, encoding="utf-8")
        for message in catalogue:
            if message.id and not is_translated(message):
                print(f"{path.parents[1].name} lacks {message.id!r}")
    for file in stale:
        print(f"{file} {'is out of step' if check else 'was written'}")
    return 1 if check and stale else 0


def _order(message: Message) -> tuple[str, str]:
    return message.id[0] if message.pluralizable else message.id, message.context or ""


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
