#!/usr/bin/env python3
"""Draws what roofline_bench printed as an SVG and prints it as a table: roofline.py measured.tsv out.svg [title]

Across: operations for each byte that has to be moved; up: operations a second, both on logarithmic scales. The line is
the machine's limit, bandwidth to the left of its knee and arithmetic to the right. Each part of a training step is a
dot, the larger the more time a step spends on it.
"""
import html
import math
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 560, 70, 20, 50, 50
X_RANGE, Y_DECADES = (0.05, 500.0), 3.2


def read(path):
    limits, parts = {}, []
    for line in open(path):
        fields = line.rstrip("\n").split("\t")
        if len(fields) == 2:
            limits[fields[0]] = float(fields[1])
        else:
            name, count, operations, data, seconds = fields[0], *map(float, fields[1:])
            parts.append({"name": name, "count": int(count), "seconds": seconds, "rate": operations / seconds,
                          "intensity": operations / data,
                          "limit": min(limits["peak"], limits["bandwidth"] * operations / data)})
    return limits, parts


def table(limits, parts):
    print(f"arithmetic {limits['peak'] / 1e9:.0f} GFLOP/s, memory {limits['bandwidth'] / 1e9:.1f} GB/s")
    print(f"{'':24}  {'times':>5}  {'ms':>8}  {'GFLOP/s':>8}  {'FLOP/byte':>9}  of the limit")
    for part in parts:
        print(f"{part['name']:24}  {part['count']:5}  {part['seconds'] * 1e3:8.3f}  {part['rate'] / 1e9:8.1f}  "
              f"{part['intensity']:9.2f}  {part['rate'] / part['limit']:6.0%}")
    total = sum(part["count"] * part["seconds"] for part in parts)
    least = sum(part["count"] * part["seconds"] * part["rate"] / part["limit"] for part in parts)
    print(f"{'all':24}  {'':5}  {total * 1e3:8.1f}  at the limits {least * 1e3:.1f} ms")


def draw(limits, parts, path, title):
    top = 10 ** math.ceil(math.log10(limits["peak"]))
    bottom = top / 10 ** Y_DECADES

    def x(intensity):
        share = math.log(intensity / X_RANGE[0]) / math.log(X_RANGE[1] / X_RANGE[0])
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(rate):
        share = math.log(max(rate, bottom) / bottom) / math.log(top / bottom)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    shapes = [f'<text x="{LEFT}" y="26" font-size="16">{html.escape(title)}</text>',
              f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">operations for each byte</text>',
              f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">'
              'GFLOP/s</text>']
    for tick in (0.1, 1, 10, 100):
        shapes.append(f'<path d="M{x(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e5e5e5"/>'
                      f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g}</text>')
    rate = top
    while rate > bottom:
        shapes.append(f'<path d="M{LEFT} {y(rate):.1f}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>'
                      f'<text x="{LEFT - 6}" y="{y(rate) + 4:.1f}" text-anchor="end">{rate / 1e9:g}</text>')
        rate /= 10
    knee = limits["peak"] / limits["bandwidth"]
    start = max(X_RANGE[0], bottom / limits["bandwidth"])
    shapes.append(f'<path d="M{x(start):.1f} {y(start * limits["bandwidth"]):.1f}L{x(knee):.1f} '
                  f'{y(limits["peak"]):.1f}H{WIDTH - RIGHT}" stroke="#333" stroke-width="2" fill="none"/>'
                  f'<text x="{x(knee) + 8:.1f}" y="{y(limits["peak"]) - 8:.1f}">{limits["peak"] / 1e9:.0f} GFLOP/s, '
                  f'{limits["bandwidth"] / 1e9:.0f} GB/s</text>')
    total = sum(part["count"] * part["seconds"] for part in parts)
    labels = {}  # text to place
    for part in sorted(parts, key=lambda p: -p["rate"]):
        backward = part["name"].endswith("backward")
        radius = 3 + 20 * math.sqrt(part["count"] * part["seconds"] / total)
        cx, cy = x(part["intensity"]), y(part["rate"])
        shapes.append(f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}" fill="{"#e4572e" if backward else "#5b8def"}"'
                      f' fill-opacity="0.55"><title>{html.escape(part["name"])}: {part["rate"] / 1e9:.1f} GFLOP/s, '
                      f'{part["rate"] / part["limit"]:.0%} of the limit</title></circle>')
        # Dots of linear layers lie on each other: one label for all, and beside the largest.
        label = "linear layers" if part["name"].startswith("linear") else part["name"]
        if not backward and label not in labels:
            at = cy + 4
            while any(abs(at - top) < 12 and abs(cx - left) < 110 for left, top in labels.values()):
                at += 12
            labels[label] = (cx, at)
            is_crowded = cx > WIDTH - 200
            shapes.append(f'<text x="{cx - 26 if is_crowded else cx + radius + 3:.1f}" y="{at:.1f}" '
                          f'text-anchor="{"end" if is_crowded else "start"}">{html.escape(label)}</text>')
    shapes.append(f'<circle cx="{LEFT + 16}" cy="{TOP + 14}" r="6" fill="#5b8def" fill-opacity="0.55"/>'
                  f'<text x="{LEFT + 28}" y="{TOP + 18}">forward</text>'
                  f'<circle cx="{LEFT + 16}" cy="{TOP + 34}" r="6" fill="#e4572e" fill-opacity="0.55"/>'
                  f'<text x="{LEFT + 28}" y="{TOP + 38}">backward; the larger, the more of a step\'s time</text>')
    with open(path, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                   f'font-size="11"><rect width="100%" height="100%" fill="#fff"/>' + "\n".join(shapes) + "</svg>\n")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    limits, parts = read(sys.argv[1])
    table(limits, parts)
    draw(limits, parts, sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "GPT-2 124M, parts of a training step")


main()
