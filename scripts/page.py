"""Writes HTML pages with tables and plots, for the scripts that compare results. A page is self-contained and loads nothing."""
import html, json, math

STYLE = '''
:root { --ink: #1c2430; --soft: #667085; --line: #d5dae2; --ground: #ffffff; --better: #1b7f5c; --worse: #b4432f; --mark: #2c5fb3 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #98a2b3; --line: #39414d; --ground: #14181e; --better: #4fc09a; --worse: #e8816c; --mark: #7aa7f0 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 66rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem } p { max-width: 46rem } .soft { color: var(--soft) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .2rem .7rem .2rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th { position: sticky; top: 0; background: var(--ground); color: var(--soft); font-weight: 600 }
th:first-child, td:first-child { text-align: left }
svg { font: 12px system-ui, sans-serif; max-width: 100%; height: auto } svg text { fill: var(--ink) } svg .soft { fill: var(--soft) }
svg line { stroke: var(--line) } svg line.even { stroke: var(--soft) } .better { fill: var(--better) } .worse { fill: var(--worse) } .mark { fill: var(--mark) }
'''


def write_page(path, title, about, sections):
    """Writes a page to a file. `sections` are pairs of a heading and an HTML body."""
    parts = ''.join(f'<section><h2>{html.escape(heading)}</h2>{body}</section>\n' for heading, body in sections)
    text = (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f'<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body><h1>{html.escape(title)}</h1>'
            f'<p>{html.escape(about)}</p>\n{parts}</body></html>\n')
    with open(path, 'w') as file:
        file.write(text)


def write_json(path, value):
    """Writes a value to a file as JSON."""
    with open(path, 'w') as file:
        json.dump(value, file, indent=1)
        file.write('\n')


def format_cell(value):
    """Returns the text of a table cell or a label: a number with three or four digits, a text as it is, or a dash for None."""
    if value is None:
        return '–'
    if isinstance(value, str):
        return value
    if value == 0:
        return '0'
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f'{value:.{min(digits, 6)}f}' if abs(value) >= 1e-4 else f'{value:.2e}'


def table(head, rows):
    """Returns an HTML table. The first column has text, the others numbers or text."""
    cells = lambda row, tag: ''.join(f'<{tag}>{html.escape(format_cell(cell))}</{tag}>' for cell in row)
    body = ''.join(f'<tr>{cells(row, "td")}</tr>' for row in rows)
    return f'<div class="wide"><table><thead><tr>{cells(head, "th")}</tr></thead><tbody>{body}</tbody></table></div>'


def axis_labels(low, high):
    """Returns the labels of a logarithmic axis from `low` to `high`: 1, 2 and 5 times powers of ten, or only the powers if there are many."""
    candidates = [mantissa * 10 ** exponent for exponent in range(-12, 13) for mantissa in (1, 2, 5)]
    inside = [value for value in candidates if low <= value <= high]
    return inside if len(inside) <= 8 else [value for value in inside if f'{value:e}'[0] == '1']


def ratio_chart(rows, axis_label):
    """Returns a bar chart of pairs (label, ratio) on a logarithmic scale. A bar goes from 1 to the left for a ratio below 1 (better), or to
    the right (worse). The worst ratio is first."""
    rows = sorted(rows, key=lambda row: -row[1])
    largest = max([2.0] + [max(ratio, 1 / ratio) for _, ratio in rows]) * 1.1
    left, width, step = 330, 560, 17
    position = lambda value: left + width * (math.log(value) / math.log(largest) + 1) / 2
    height = step * len(rows) + 46
    out = [f'<svg viewBox="0 0 {left + width + 70} {height}" role="img" aria-label="{html.escape(axis_label)}">']
    for value in axis_labels(1 / largest, largest):
        out.append(f'<line class="{"even" if value == 1 else ""}" x1="{position(value):.1f}" x2="{position(value):.1f}" y1="24" y2="{height - 18}"/>'
                   f'<text class="soft" x="{position(value):.1f}" y="16" text-anchor="middle">{format_cell(value)}</text>')
    for index, (label, ratio) in enumerate(rows):
        y, ends = 28 + step * index, sorted((position(1), position(ratio)))
        out.append(f'<text x="{left - 40}" y="{y + 11}" text-anchor="end">{html.escape(label)}</text>'
                   f'<rect class="{"better" if ratio <= 1 else "worse"}" x="{ends[0]:.1f}" y="{y + 1}" width="{max(ends[1] - ends[0], 1):.1f}" height="{step - 5}">'
                   f'<title>{html.escape(label)}: {format_cell(ratio)}</title></rect>'
                   f'<text class="soft" x="{left + width + 10}" y="{y + 11}">{format_cell(ratio)}</text>')
    out.append(f'<text class="soft" x="{position(1):.1f}" y="{height - 4}" text-anchor="middle">{html.escape(axis_label)}</text></svg>')
    return '<div class="wide">' + ''.join(out) + '</div>'


def scatter_chart(points, across, up):
    """Returns a scatter plot of triples (label, x, y) with the line x = y. Both axes have the same logarithmic scale. `across` and `up` are
    the titles of the axes."""
    values = [value for _, x, y in points for value in (x, y)]
    low, high = min(values) / 1.3, max(values) * 1.3
    size, left = 420, 62
    position = lambda value: size * math.log(value / low) / math.log(high / low)
    x_of, y_of = lambda value: left + position(value), lambda value: 12 + size - position(value)
    out = [f'<svg viewBox="0 0 {left + size + 20} {size + 60}" style="max-width: 34rem" role="img" aria-label="{html.escape(up)} and {html.escape(across)}">']
    for value in axis_labels(low, high):
        out.append(f'<line x1="{x_of(value):.1f}" x2="{x_of(value):.1f}" y1="12" y2="{12 + size}"/><line x1="{left}" x2="{left + size}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}"/>'
                   f'<text class="soft" x="{x_of(value):.1f}" y="{size + 28}" text-anchor="middle">{format_cell(value)}</text>'
                   f'<text class="soft" x="{left - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{format_cell(value)}</text>')
    out.append(f'<line class="even" x1="{x_of(low):.1f}" y1="{y_of(low):.1f}" x2="{x_of(high):.1f}" y2="{y_of(high):.1f}"/>')
    for label, x, y in points:
        out.append(f'<circle class="mark" cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill-opacity="0.75"><title>{html.escape(label)}: {format_cell(x)}, {format_cell(y)}</title></circle>')
    out.append(f'<text class="soft" x="{left + size / 2}" y="{size + 50}" text-anchor="middle">{html.escape(across)}</text>'
               f'<text class="soft" transform="translate(14 {12 + size / 2}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text></svg>')
    return '<div class="wide">' + ''.join(out) + '</div>'


def geometric_mean(values):
    """Returns the geometric mean, and 1 if there are no values."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0
