#!/usr/bin/env python3
"""Draws one step of a profiler's trace as an SVG: draw_trace.py trace.json step out.svg

Each track's spans are drawn by their time and depth, as trace viewers do; below them the live memory.
"""
import html
import json
import sys

COLORS = {"step": "#8d99ae", "module": "#5b8def", "forward": "#3fb68b", "pass": "#b4a7d6", "module backward": "#f2a65a",
          "backward": "#e4572e", "forward in backward": "#f4b6a6", "optimizer": "#9b5de5"}
WIDTH, LEFT, ROW, TOP = 1200, 70, 22, 34


def layout(spans):
    """Gives each span the number of spans around it; they come from the outside in."""
    stack = []
    for span in spans:
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= span["ts"] + 1e-6:
            stack.pop()
        span["depth"] = len(stack)
        stack.append(span)


def main(path, step_name, out):
    events = json.load(open(path))["traceEvents"]
    step = next(e for e in events if e["ph"] == "X" and e["name"] == "step " + step_name)
    begin, end = step["ts"], step["ts"] + step["dur"]
    scale = (WIDTH - LEFT - 10) / (end - begin)
    x = lambda ts: LEFT + (ts - begin) * scale
    shapes, y = [], TOP
    for track in sorted({e["tid"] for e in events if e["ph"] == "X"}):
        spans = [e for e in events if e["ph"] == "X" and e["tid"] == track]
        layout(spans)
        spans = [e for e in spans if e["ts"] >= begin - 1e-6 and e["ts"] + e["dur"] <= end + 1e-6]
        if not spans:
            continue
        shapes.append(f'<text x="4" y="{y + 15}">{"steps" if track == 0 else f"thread {track}"}</text>')
        for e in spans:
            left, width, top = x(e["ts"]), max(e["dur"] * scale, 0.4), y + e["depth"] * ROW
            name = html.escape(e["name"])
            tip = html.escape(f'{e["name"]}: {e["dur"]:.1f} us {e.get("args", "")}')
            shapes.append(f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{ROW - 2}" rx="2" '
                          f'fill="{COLORS.get(e["cat"], "#ccc")}"><title>{tip}</title></rect>')
            if width > 7 * len(e["name"]):
                shapes.append(f'<text x="{left + 4:.2f}" y="{top + 14}">{name}</text>')
        y += (max(e["depth"] for e in spans) + 1) * ROW + 10
    live = [(e["ts"], e["args"]["live"]) for e in events if e["ph"] == "C" and begin <= e["ts"] <= end]
    if live:
        low, high = min(v for _, v in live), max(v for _, v in live)
        points, last = [], None
        for ts, value in live:
            level = y + 50 - 46 * (value - low) / max(high - low, 1)
            points += ([f"{x(ts):.2f},{last:.2f}"] if last is not None else []) + [f"{x(ts):.2f},{level:.2f}"]
            last = level
        shapes.append(f'<text x="4" y="{y + 14}">memory</text><polyline points="{" ".join(points)}" fill="none" '
                      f'stroke="#444" stroke-width="1.2"/><text x="{LEFT}" y="{y + 66}" fill="#666">'
                      f'{low / 2**20:.2f} to {high / 2**20:.2f} MiB live</text>')
        y += 76
    with open(out, "w") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
                   f'font-family="sans-serif" font-size="11"><rect width="{WIDTH}" height="{y}" fill="#fff"/>'
                   f'<text x="{LEFT}" y="20" font-size="13">step {html.escape(step_name)}, '
                   f'{(end - begin) / 1000:.2f} ms</text>\n' + "\n".join(shapes) + "\n</svg>\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
