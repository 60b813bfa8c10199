"""The MkDocs hooks of the documentation site, which `scripts/book` builds.

Pages are plain Markdown whose links also work in a repository browser. The hooks adapt the pages to the site: they generate the
navigation, add the documents of the repository's root, replace links that leave docs/, insert the measured times into the first page, and
load the diagram library mermaid from the site instead of the network.
"""
from __future__ import annotations

import hashlib
import importlib.metadata
import math
import posixpath
import re
import statistics
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

#: Documents in the repository's root that the site can show, each with the name of its page. docs/SUMMARY.md selects them.
ROOT_PAGES = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}

MERMAID = "site/mermaid.min.js"
MERMAID_SHA256 = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"


def navigation(summary: str) -> list:
    """Returns the text of docs/SUMMARY.md as MkDocs' `nav`. A heading `## Title` starts a tab. An indented entry is a child of the last entry
    without indentation."""
    top: list = []
    section, entry = top, None
    for line in summary.splitlines():
        if heading := re.match(r"## (.+)", line):
            section = []
            top.append({heading[1]: section})
        elif found := re.match(r"( *)- \[(.+)\]\((.+)\)", line):
            indent, title, target = found.groups()
            page = ROOT_PAGES.get(target.removeprefix("../"), target)
            if not indent:
                entry = {title: page}
                section.append(entry)
            else:
                (parent, pages), = entry.items()
                if isinstance(pages, str):
                    # An entry with indented entries becomes a section. Its own page comes first, and has the title of the section.
                    entry[parent] = pages = [pages]
                pages.append({title: page})
    return top


def on_config(config):
    """Sets the navigation of the site. MkDocs calls this hook after it has read its configuration."""
    config.nav = navigation((DOCS / "SUMMARY.md").read_text())
    return config


def root_documents() -> dict[str, str]:
    """Returns the entries of `ROOT_PAGES` that docs/SUMMARY.md lists."""
    summary = (DOCS / "SUMMARY.md").read_text()
    return {name: page for name, page in ROOT_PAGES.items() if f"](../{name})" in summary}


def on_files(files, config):
    """Adds the documents of the repository's root and the script of mermaid to the files of the site."""
    for name, page in root_documents().items():
        files.append(File.generated(config, page, content=relink((ROOT / name).read_text(), ROOT, name)))
    mermaid = importlib.metadata.distribution("artoo-mermaid").locate_file("artoo_mermaid/assets/mermaid.min.js")
    content = Path(mermaid).read_bytes()
    if hashlib.sha256(content).hexdigest() != MERMAID_SHA256:
        raise PluginError("mermaid.min.js of artoo-mermaid does not have the SHA-256 that docs/site/hooks.py names")
    files.append(File.generated(config, MERMAID, content=content))
    return files


def relink(markdown: str, folder: Path, name: str) -> str:
    """Replaces the links of a document that leave docs/. `folder` and `name` are the folder and the path of the document. A link to a
    document of the root becomes a link to its page. A link to any other file outside docs/ becomes its label, without a link."""
    listed_pages = {ROOT / document: page for document, page in root_documents().items()}
    listed_pages[ROOT / "README.md"] = "index.md"
    link_base = DOCS if folder == ROOT else folder

    def replace_link(found: re.Match) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        path = Path(posixpath.normpath(folder / target))
        if not path.exists():
            raise PluginError(f"{name} links to {target}, which does not exist")
        if path in listed_pages:
            target = posixpath.relpath(listed_pages[path], link_base.relative_to(DOCS).as_posix())
        elif path.is_relative_to(DOCS) and path.suffix in (".md", ".svg", ".png"):
            target = posixpath.relpath(path, link_base)
        else:
            return label
        return f"[{label}]({target}{anchor})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    link_pattern = r"\[((?:[^\[\]]|\[[^\[\]]*\])+)\]\(((?![a-z]+:|#)[^)#\s]+)(#[^)\s]*)?\)"
    return "".join(part if part.startswith("```") else re.sub(link_pattern, replace_link, part) for part in parts)


def on_page_markdown(markdown, page, config, files):
    """Returns the Markdown of a page of docs/ with replaced links, and with the measured times at the marker `<!-- measured -->`."""
    if page.file.abs_src_path is None or page.file.src_uri in root_documents().values():
        return markdown
    path = Path(page.file.abs_src_path)
    markdown = relink(markdown, path.parent, page.file.src_uri)
    if "<!-- measured -->" in markdown:
        markdown = markdown.replace("<!-- measured -->", measured_section())
    return markdown


def on_post_page(output, page, config):
    """Loads the local mermaid script on a page with a diagram. Without it, Material for MkDocs would load mermaid from the network."""
    if 'class="mermaid"' not in output:
        return output
    source = posixpath.relpath(MERMAID, posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{source}"></script></head>', 1)


def measured_section() -> str:
    """Returns the HTML of the measured times on the first page: three numbers and a chart, from the table of docs/benchmarks.md."""
    rows = re.findall(r"^\| (\S[^|]*) \| [\d.]+ \| [\d.]+ \| ([\d.]+) \| [\d.]+ \|$", (DOCS / "benchmarks.md").read_text(), re.M)
    ratios = sorted((float(ratio), name) for name, ratio in rows)
    if len(ratios) < 20:
        raise PluginError("docs/benchmarks.md has no table of measured times")
    values = [ratio for ratio, _ in ratios]
    mean = math.exp(statistics.fmean(map(math.log, values)))
    numbers = [(f"{mean:.2f}", "of the time of NVIDIA's compiler, geometric mean"), (f"{statistics.median(values):.2f}", "of the time, median"),
               (f"{sum(value < 1 for value in values)} of {len(values)}", "kernels take less time")]
    cards = "".join(f"<div><strong>{number}</strong>{text}</div>" for number, text in numbers)
    return f'<div class="numbers">{cards}</div>\n\n{ratio_chart(ratios)}'


def ratio_chart(ratios: list[tuple[float, str]]) -> str:
    """Returns a chart with one bar per kernel on a logarithmic scale. A bar below the line at 1 means that our code takes less time."""
    width, height, left, low, high = 920, 260, 44, 0.03, 2.0
    y = lambda ratio: 16 + (height - 32) * (1 - math.log(ratio / low) / math.log(high / low))
    step = (width - left) / len(ratios)
    grid_lines = "".join(f'<line class="grid" x1="{left}" x2="{width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/><text x="0" y="{y(tick) + 4:.1f}">{tick:g}</text>'
                    for tick in (0.05, 0.1, 0.2, 0.5, 2))
    bars = []
    for index, (ratio, name) in enumerate(ratios):
        top, bottom = sorted((y(ratio), y(1)))
        bars.append(f'<rect class="{"bar" if ratio < 1 else "slower"}" x="{left + index * step + 2:.1f}" y="{top:.1f}" width="{step - 4:.1f}" '
                    f'height="{max(bottom - top, 1):.1f}"><title>{name}: {ratio:g}</title></rect>')
    unit = f'<line class="unit" x1="{left}" x2="{width}" y1="{y(1):.1f}" y2="{y(1):.1f}"/><text x="0" y="{y(1) + 4:.1f}">1</text>'
    label = "Time of each of the measured kernels relative to NVIDIA's compiler, on a logarithmic scale"
    return f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{grid_lines}{"".join(bars)}{unit}</svg>'
