'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const root = document.getElementById('report');
const SVG = 'http://www.w3.org/2000/svg';

// ---- Small things ----------------------------------------------------------------------------------------------------

function fill(node, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
        if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
        else if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    for (const child of children.flat()) {
        if (child !== null && child !== undefined) node.append(child);
    }
    return node;
}
const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const real = v => v !== null && Number.isFinite(v);

function text(v, digits = 3) {
    if (!real(v)) return '–';
    if (v === 0) return '0';
    const size = Math.abs(v);
    if (size >= 1e5 || size < 1e-4) return v.toExponential(1).replace('-', '−').replace('+', '');
    return String(Number(v.toPrecision(digits))).replace('-', '−');
}
const percent = v => real(v) ? (100 * v).toFixed(v > 0 && v < .0995 ? 1 : 0) + ' %' : '–';

const tip = html('div', {id: 'tip'});
function hover(node, say) {
    node.addEventListener('mousemove', event => {
        tip.textContent = say();
        tip.style.display = 'block';
        tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + 'px';
        tip.style.top = event.clientY + 14 + 'px';
    });
    node.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
    return node;
}

function ticks(low, high, count) {
    const raw = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find(m => m * power >= raw * .75) * power;
    const list = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) list.push(i * step);
    return list;
}

function mix(stops, t) {
    const at = Math.max(0, Math.min(1, t)) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(at));
    const part = (color, k) => parseInt(color.slice(1 + 2 * k, 3 + 2 * k), 16);
    const value = k => Math.round(part(stops[i], k) + (at - i) * (part(stops[i + 1], k) - part(stops[i], k)));
    return `rgb(${value(0)},${value(1)},${value(2)})`;
}
const SEQUENTIAL = ['#3b1f5e', '#39528b', '#26828e', '#35b779', '#a8db34', '#fde725'];
const DIVERGING = ['#2b62b8', '#8fb4e3', '#dfe3ea', '#ebaa86', '#c0452c'];
const TIME = ['#8fa9d6', '#6f7fc4', '#8a5cab', '#b94a86', '#d9534f'];

// ---- A chart of lines over steps ---------------------------------------------------------------------------------------

// lines: {x, y, class}; bands: {x, low, high}. Values that aren't real break a line.
function chart(lines, bands, width, height, log) {
    const left = 56, right = 10, top = 8, bottom = 24;
    const xs = lines.flatMap(l => l.x);
    const scaled = v => log ? (v > 0 ? Math.log10(v) : null) : v;
    const ys = lines.flatMap(l => l.y).concat(bands.flatMap(b => b.low.concat(b.high))).filter(real).map(scaled).filter(real);
    let x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
    if (!ys.length) { y0 = 0; y1 = 1; }
    if (x1 <= x0) { x0 -= .5; x1 += .5; }
    const pad = (y1 - y0) * .06 || Math.abs(y1) * .1 || .5;
    y0 -= pad; y1 += pad;
    const X = v => left + (v - x0) / (x1 - x0) * (width - left - right);
    const Y = v => top + (y1 - scaled(v)) / (y1 - y0) * (height - top - bottom);
    const plot = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img'});
    for (const t of ticks(y0, y1, 4)) {
        const y = top + (y1 - t) / (y1 - y0) * (height - top - bottom);
        plot.append(svg('line', {class: 'axis', x1: left, x2: width - right, y1: y, y2: y}),
                    svg('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, text(log ? 10 ** t : t)));
    }
    for (const t of ticks(x0, x1, 5)) {
        if (Number.isInteger(t)) {
            plot.append(svg('text', {x: X(t), y: height - 6, 'text-anchor': 'middle'}, String(t)));
        }
    }
    for (const b of bands) {
        const there = b.x.map((x, i) => i).filter(i => real(b.low[i]) && real(b.high[i]));
        const edge = there.map(i => `${X(b.x[i]).toFixed(1)},${Y(b.high[i]).toFixed(1)}`)
            .concat(there.reverse().map(i => `${X(b.x[i]).toFixed(1)},${Y(b.low[i]).toFixed(1)}`));
        plot.append(svg('polygon', {class: 'band', points: edge.join(' ')}));
    }
    for (const l of lines) {
        let path = '', pen = 'M';
        l.x.forEach((x, i) => {
            if (!real(l.y[i]) || !real(scaled(l.y[i]))) { pen = 'M'; return; }
            path += `${pen}${X(x).toFixed(1)} ${Y(l.y[i]).toFixed(1)}`;
            pen = 'L';
        });
        plot.append(svg('path', {class: l.class || 'line', d: path}));
        if (/^M[^ML]*$/.test(path)) {  // a single point
            const [x, y] = path.slice(1).split(' ');
            plot.append(svg('circle', {class: 'point', cx: x, cy: y, r: 3}));
        }
    }
    const main = lines[0];
    hover(plot, () => '');
    plot.addEventListener('mousemove', event => {
        const box = plot.getBoundingClientRect();
        const at = x0 + ((event.clientX - box.left) / box.width * width - left) / (width - left - right) * (x1 - x0);
        const i = main.x.reduce((best, x, k) => Math.abs(x - at) < Math.abs(main.x[best] - at) ? k : best, 0);
        tip.textContent = `step ${main.x[i]}: ${text(main.y[i], 4)}`;
    });
    return plot;
}

// ---- Histograms, one behind the other --------------------------------------------------------------------------------

function ridges(series) {
    const {low, high, steps, rows} = series.histograms;
    if (!rows.length) return html('p', {class: 'soft'}, 'No histograms were taken.');
    const width = 520, left = 56, right = 58, bottom = 24, lift = 62;
    const gap = Math.max(9, Math.min(22, 170 / rows.length));
    const height = lift + gap * rows.length + bottom;
    // Between one scale for all rows and one for each: narrow rows would dwarf wide ones.
    const peak = Math.max(...rows.flat()) || 1;
    const heights = rows.map(row => lift / Math.sqrt(peak * (Math.max(...row) || peak)));
    const X = v => left + (v - low) / (high - low) * (width - left - right);
    const plot = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img'});
    for (const t of ticks(low, high, 5)) {
        plot.append(svg('line', {class: 'axis', x1: X(t), x2: X(t), y1: 4, y2: height - bottom}),
                    svg('text', {x: X(t), y: height - 6, 'text-anchor': 'middle'}, text(t)));
    }
    const every = Math.ceil(13 / gap);
    rows.forEach((row, r) => {
        const base = lift + gap * (r + .6);
        const width_of = (high - low) / row.length;
        let path = `M${X(low)} ${base}`;
        row.forEach((v, i) => {
            path += `L${X(low + (i + .5) * width_of).toFixed(1)} ${(base - v * heights[r]).toFixed(1)}`;
        });
        const shape = svg('path', {class: 'ridge', d: path + `L${X(high)} ${base}Z`, 'fill-opacity': .82,
                                   fill: mix(TIME, rows.length > 1 ? r / (rows.length - 1) : 1)});
        const k = series.steps.indexOf(steps[r]);
        plot.append(hover(shape, () => `step ${steps[r]}` + (k >= 0 ? `\nzeros ${percent(series.zeros[k])}` : '')));
        if ((rows.length - 1 - r) % every === 0) {
            plot.append(svg('text', {x: left - 8, y: base + 1, 'text-anchor': 'end'}, String(steps[r])));
            if (k >= 0 && series.zeros[k] > .0005) {
                plot.append(svg('text', {x: width - right + 8, y: base + 1}, percent(series.zeros[k]) + ' 0'));
            }
        }
    });
    return plot;
}

// ---- Layers by steps ---------------------------------------------------------------------------------------------------

const METRICS = {
    rms: {label: 'RMS', of: (s, i) => s.rms[i], log: true},
    std: {label: 'std', of: (s, i) => s.std[i], log: true},
    mean: {label: 'mean', of: (s, i) => s.mean[i], diverging: true},
    largest: {label: 'max |x|', of: (s, i) => real(s.min[i]) ? Math.max(-s.min[i], s.max[i]) : null, log: true},
    zeros: {label: 'zeros', of: (s, i) => s.zeros[i], share: true},
    bad: {label: 'non-finite', of: (s, i) => s.bad[i], share: true},
    ratio: {label: 'update / parameter', of: (s, i) => s.ratio[i], log: true},
};

function scaleOf(metric, values) {
    const there = values.filter(real);
    let low = Math.min(...there), high = Math.max(...there);
    if (!there.length) { low = 0; high = 1; }
    if (metric.share) { low = 0; high = metric === METRICS.zeros ? 1 : Math.max(high, 1e-3); }
    if (metric.diverging) { high = Math.max(Math.abs(low), Math.abs(high)) || 1; low = -high; }
    const positive = there.filter(v => v > 0);
    if (metric.log && positive.length && high / Math.min(...positive) > 20) {
        const floor = Math.max(Math.min(...positive), high * 1e-12);
        const span = Math.log(high / floor) || 1;
        return {low: floor, high, log: true, at: v => v > 0 ? Math.log(v / floor) / span : 0, stops: SEQUENTIAL};
    }
    const span = high - low || 1;
    return {low, high, at: v => (v - low) / span, stops: metric.diverging ? DIVERGING : SEQUENTIAL};
}

function heatmap(group, metric, chosen, choose) {
    const all = [...new Set(group.flatMap(s => s.steps))].sort((a, b) => a - b);
    const most = Math.max(2, Math.min(all.length, Math.floor(9000 / group.length)));
    const steps = all.length <= most ? all
        : Array.from({length: most}, (_, i) => all[Math.round(i * (all.length - 1) / (most - 1))]);
    const longest = Math.max(...group.map(s => (s.name + s.type).length + 2));
    const width = 1100, left = Math.min(330, 24 + longest * 6.9), right = 6, line = 20, bottom = 50;
    const cell = (width - left - right) / steps.length;
    const height = group.length * line + bottom;
    const values = group.map(s => new Map(s.steps.map((step, i) => [step, i])));
    const scale = scaleOf(metric, group.flatMap(s => s.steps.map((_, i) => metric.of(s, i))));
    const plot = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', class: 'heatmap'});
    group.forEach((s, r) => {
        const label = svg('text', {class: s === chosen ? 'name chosen' : 'name', x: left - 10, y: r * line + 14,
                                   'text-anchor': 'end', onclick: () => choose(s)}, s.name + ' ');
        label.append(svg('tspan', {fill: 'var(--soft)', 'font-weight': 400}, s.type));
        plot.append(label);
        steps.forEach((step, c) => {
            const i = values[r].get(step);
            const v = i === undefined ? null : metric.of(s, i);
            const bad = i !== undefined && s.bad[i] > 0;
            if (i === undefined) return;
            const color = bad && metric !== METRICS.bad ? 'var(--bad)' : real(v) ? mix(scale.stops, scale.at(v)) : 'var(--zero)';
            const rect = svg('rect', {class: 'cell', x: left + c * cell, y: r * line + 1, width: Math.max(cell - (cell > 6 ? 1 : 0), .6),
                                      height: line - 2, fill: color, onclick: () => choose(s)});
            plot.append(hover(rect, () => `${s.name}, step ${step}\n${metric.label} ${metric.share ? percent(v) : text(v, 4)}` +
                (bad ? `\n${percent(s.bad[i])} not finite` : '')));
        });
        if (s === chosen) {
            plot.append(svg('rect', {class: 'frame', x: left - 1, y: r * line, width: width - left - right + 2, height: line}));
        }
    });
    const y = group.length * line + 16;
    const shown = Math.max(1, Math.ceil(steps.length / 10));
    steps.forEach((step, c) => {
        if (c % shown === 0) {
            plot.append(svg('text', {x: left + (c + .5) * cell, y, 'text-anchor': 'middle'}, String(step)));
        }
    });
    const show = v => metric.share ? percent(v) : text(v);
    for (let i = 0; i < 60; ++i) {
        plot.append(svg('rect', {x: left + i * 4, y: y + 12, width: 4.3, height: 8, fill: mix(scale.stops, i / 59)}));
    }
    plot.append(svg('text', {x: left - 8, y: y + 20, 'text-anchor': 'end'}, show(scale.low)),
                svg('text', {x: left + 248, y: y + 20}, show(scale.high) + (scale.log ? ' (logarithmic)' : '')),
                svg('text', {x: width - right, y: y + 20, 'text-anchor': 'end'}, 'steps →'));
    return plot;
}

// ---- The parts of the page -------------------------------------------------------------------------------------------

const GROUPS = [
    {quantity: 'output', title: 'Outputs of the layers', say: 'What each layer gave.', metrics: ['std', 'mean', 'largest', 'zeros', 'bad']},
    {quantity: 'output_gradient', title: 'Gradients at the layers', say: 'How the loss reaches the output of each layer.', metrics: ['rms', 'largest', 'zeros', 'bad']},
    {quantity: 'gradient', title: 'Gradients of the parameters', say: 'What the optimizer was given.', metrics: ['rms', 'largest', 'zeros', 'bad']},
    {quantity: 'update', title: 'Updates', say: 'What a step changes, beside the parameter itself; about 0.001 is usual.', metrics: ['ratio', 'rms', 'largest']},
    {quantity: 'parameter', title: 'Parameters', say: 'Before the step.', metrics: ['std', 'mean', 'largest', 'zeros', 'bad']},
];
const pages = new Map();  // a group's quantity: how to choose one of its series

function section(info) {
    const group = data.series.filter(s => s.quantity === info.quantity);
    if (!group.length) return null;
    let metric = info.metrics[0], chosen = group[0];
    const choices = html('div', {class: 'choices'}), map = html('div', {class: 'scroll'}), detail = html('div', {class: 'pair'});
    const card = html('section', {class: 'card', id: info.quantity},
                      html('div', {class: 'row'}, html('div', {}, html('h2', {}, info.title), html('p', {class: 'soft'}, info.say)), choices),
                      html('div', {style: 'height:10px'}), map, detail);
    function draw() {
        choices.replaceChildren(...info.metrics.map(m => html('button', {'aria-pressed': m === metric,
            onclick: () => { metric = m; draw(); }}, METRICS[m].label)));
        map.replaceChildren(heatmap(group, METRICS[metric], chosen, choose));
        const s = chosen;
        const band = {x: s.steps, low: s.mean.map((m, i) => real(m) ? m - s.std[i] : null),
                      high: s.mean.map((m, i) => real(m) ? m + s.std[i] : null)};
        const lines = info.quantity === 'update'
            ? html('div', {}, html('h3', {}, `${s.name}: update beside parameter, over steps`),
                   chart([{x: s.steps, y: s.ratio}], [], 520, 236, true))
            : html('div', {}, html('h3', {}, `${s.name}: mean ± std, and the extremes, over steps`),
                   chart([{x: s.steps, y: s.mean}, {x: s.steps, y: s.min, class: 'edge'}, {x: s.steps, y: s.max, class: 'edge'}],
                         [band], 520, 236));
        detail.replaceChildren(lines, html('div', {}, html('h3', {}, `${s.name}: values other than 0, early steps behind`), ridges(s)));
    }
    function choose(s) { chosen = s; draw(); }
    pages.set(info.quantity, name => {
        choose(group.find(s => s.name === name) || chosen);
        card.scrollIntoView({behavior: 'smooth'});
    });
    draw();
    return card;
}

function findings() {
    const severe = ['non-finite', 'exploding', 'no gradient'];
    const list = data.findings.map(f => html('li', {onclick: () => pages.get(f.quantity)?.(f.name)},
        html('span', {class: severe.includes(f.symptom) ? 'pill severe' : 'pill'}, f.symptom), html('span', {}, f.text)));
    return html('section', {class: 'card', id: 'findings'}, html('h2', {}, 'What stands out'),
                list.length ? html('ul', {class: 'findings'}, list)
                            : html('p', {class: 'soft'}, 'Nothing: no dead, exploding or vanishing layers, and every value is finite.'));
}

function scalars() {
    return html('div', {class: 'grid'}, data.scalars.map(s => {
        const last = s.values[s.values.length - 1];
        return html('section', {class: 'card'}, html('div', {class: 'row'}, html('h3', {}, s.name),
            html('span', {class: 'soft'}, `last ${text(last, 4)}`)), chart([{x: s.steps, y: s.values}], [], 420, 190));
    }));
}

function spark(s) {
    const there = s.rms.filter(v => real(v) && v > 0).map(Math.log);
    const low = Math.min(...there), span = Math.max(...there) - low || 1;
    let path = '', pen = 'M';
    s.rms.forEach((v, i) => {
        if (!real(v) || v <= 0) { pen = 'M'; return; }
        path += `${pen}${(2 + 106 * i / Math.max(1, s.rms.length - 1)).toFixed(1)} ${(19 - 16 * (Math.log(v) - low) / span).toFixed(1)}`;
        pen = 'L';
    });
    return svg('svg', {viewBox: '0 0 110 22'}, svg('path', {class: 'line', d: path}));
}

function table() {
    const last = key => s => s[key][s[key].length - 1];
    const columns = [
        ['quantity', s => s.quantity.replace('_', ' ')], ['name', s => s.name], ['type', s => s.type], ['elements', last('count')],
        ['mean', last('mean')], ['std', last('std')], ['min', last('min')], ['max', last('max')], ['rms', last('rms')],
        ['zeros', last('zeros')], ['non-finite', last('bad')], ['rms over steps', null],
    ];
    const flagged = new Set(data.findings.map(f => f.quantity + ' ' + f.name));
    const body = html('tbody'), head = html('tr');
    let by = -1, down = false;
    function draw() {
        const rows = data.series.map((s, i) => [s, i]);
        if (by >= 0) {
            const key = columns[by][1];
            rows.sort(([a, i], [b, k]) => {
                const x = key(a), y = key(b);
                if (x === null || y === null) return (x === null) - (y === null) || i - k;
                const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
                return (down ? -order : order) || i - k;
            });
        }
        body.replaceChildren(...rows.map(([s]) => html('tr', {class: flagged.has(s.quantity + ' ' + s.name) ? 'flagged' : null},
            columns.map(([name, key]) => html('td', {}, !key ? spark(s) : typeof key(s) === 'string' ? key(s)
                : name === 'zeros' || name === 'non-finite' ? percent(key(s)) : name === 'elements' ? String(key(s)) : text(key(s)))))));
        head.replaceChildren(...columns.map(([name, key], c) => html('th', {class: c === by ? 'sorted' : null, onclick: () => {
            if (!key) return;
            down = c === by ? !down : c > 2;
            by = c;
            draw();
        }}, name + (c === by ? (down ? ' ↓' : ' ↑') : ''))));
    }
    draw();
    return html('section', {class: 'card', id: 'table'}, html('h2', {}, 'All series at their last measurement'),
                html('p', {class: 'soft'}, 'A click on a heading sorts.'),
                html('div', {class: 'scroll'}, html('table', {}, html('thead', {}, head), body)));
}

function start() {
    const parameters = new Map(data.series.filter(s => s.quantity === 'parameter').map(s => [s.name, s]));
    for (const s of data.series.filter(s => s.quantity === 'update')) {
        const of = parameters.get(s.name);
        const at = new Map(of ? of.steps.map((step, i) => [step, of.rms[i]]) : []);
        s.ratio = s.steps.map((step, i) => at.get(step) > 0 ? s.rms[i] / at.get(step) : null);
    }
    const theme = html('button', {onclick: () => {
        const dark = document.documentElement.dataset.theme === 'dark' ||
            (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
        document.documentElement.dataset.theme = dark ? 'light' : 'dark';
    }}, 'light / dark');
    const facts = `${data.steps} steps, measured at ${data.every === 1 ? 'each' : `one in ${data.every}`}; ` +
        `measuring took ${text(data.seconds)} s.`;
    root.append(html('header', {}, html('div', {}, html('h1', {}, data.title),
        data.subtitle ? html('p', {}, data.subtitle) : null, html('p', {class: 'soft'}, facts)), theme));
    root.append(findings(), scalars());
    for (const info of GROUPS) {
        const part = section(info);
        if (part) root.append(part);
    }
    root.append(table(), tip);
}
start();
})();
