/* charts.js - small multiples: one figure a metric, the same colours and steps in all. */

const view = { smooth: 0, log: false, hidden: new Set() };
const charts = [];

/* x: the rows of a run; y at row i. A derived metric is a function of columns. */
function ratio(run, above, below) {
    const a = column(run, above), b = column(run, below);
    return a && b ? a.map((v, i) => isNumber(v) && b[i] > 0 ? v / b[i] : null) : null;
}

/* More bands than these hide each other. */
const MOST_BANDS = 2;

/* What people look at first. low, high: edges of a band. when: of which runs. */
const shown = [
    { title: 'Reward', metric: 'avg_reward', low: 'critic/score/min',
        high: 'critic/score/max', note: 'mean; band: least to greatest' },
    { title: 'Exact match, validation', metric: 'val/exact_match', kind: 'share',
        when: run => !['rooms', 'critique'].includes((run.config || {}).environment) },
    { title: 'Success, validation', metric: 'val/success', kind: 'share',
        when: run => (run.config || {}).environment === 'rooms' },
    { title: 'Reward, validation', metric: 'val/reward',
        when: run => (run.config || {}).environment === 'critique' },
    { title: 'Loss', metric: 'loss' },
    { title: 'Response length', metric: 'response_length/mean', low: 'response_length/min',
        high: 'response_length/max', note: 'sampled tokens; band: least to greatest' },
    { title: 'Actions per trajectory', note: 'searches, calls, moves; mean',
        values: run => ratio(run, 'env/number_of_searches', 'training/trajectories') },
    { title: 'Refused actions', metric: 'env/refused_rate', kind: 'share',
        when: run => (column(run, 'env/refused_rate') || []).some(v => v > 0) },
    { title: 'Well-formed responses', metric: 'health/format_rate', kind: 'share' },
    { title: 'KL', metric: 'kl_div', note: 'nats a token' },
    { title: 'Entropy', metric: 'entropy', note: 'nats a token' },
    { title: 'Clip fraction', metric: 'actor/pg_clipfrac', kind: 'share' },
    { title: 'Gradient norm', metric: 'grad_norm', note: 'before clipping' },
    { title: 'Learning rate', metric: 'learning_rate', exact: true,
        values: run => ofUpdates(run, 'learning_rate') },
    { title: 'Rollout against training', metric: 'sampling/sampling_logp_difference/mean',
        note: 'log-prob, mean absolute difference' },
    { title: 'Value loss', metric: 'critic/vf_loss' },
    { title: 'Value explained', metric: 'critic/vf_explained_var' },
    { title: 'Value clip fraction', metric: 'critic/vf_clipfrac', kind: 'share' },
    { title: 'Throughput', metric: 'perf/throughput', note: 'tokens a second' },
    { title: 'Memory', metric: 'perf/rss_bytes', kind: 'bytes' },
    { title: 'Time of a step', metric: 'timing_s/step', kind: 'seconds', note: 'seconds' },
];

/* Names that stand for figures drawn above. */
const drawn = new Set(shown.filter(s => !s.when || runs.some(s.when))
    .flatMap(s => [s.metric, s.low, s.high]));

/* Without the zeros of steps that made no update. */
function ofUpdates(run, name) {
    const skipped = column(run, 'training/skipped_updates') || [];
    const trained = column(run, 'training/trained_trajectories') || [];
    const c = column(run, name);
    return c && c.map((v, i) => v === 0 && (skipped[i] > 0 || trained[i] === 0) ? null : v);
}

function valuesOf(spec, run) {
    if (spec.when && !spec.when(run)) return null;
    return spec.values ? spec.values(run) : spec.metric ? column(run, spec.metric) : null;
}

/* ---- numbers of an axis ---- */

/* About n round numbers from low to high: 1, 2 or 5 times a power of ten. */
function ticks(low, high, n, whole) {
    let step = 10 ** Math.floor(Math.log10((high - low) / n));
    for (const m of [5, 2]) if ((high - low) / (step * m) >= n) { step *= m; break; }
    if ((high - low) / step > 1.6 * n) step *= 2;
    if (whole) step = Math.max(1, Math.round(step));
    const out = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
        out.push(Number((k * step).toPrecision(12)));
    return out;
}

function logTicks(low, high) {
    const out = [];
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.ceil((last - first) / 4);
    for (let e = first; e <= last; e++) {
        for (const m of last - first <= 2 ? [1, 2, 5] : [1]) {
            const v = Number((m * 10 ** e).toPrecision(3));
            if (v >= low && v <= high && (e - first) % every === 0) out.push(v);
        }
    }
    return out;
}

function axisText(v, kind) {
    if (kind === 'bytes') return minus(kinds.bytes(v));
    const size = Math.abs(v);
    if (v !== 0 && size < 1e-3) return plain(v);
    if (size >= 1e4) return minus(scaled(v, 1000, ['', 'k', 'M', 'G', 'T']));
    return minus(String(Number(v.toPrecision(6))));
}

/* Exponential moving average, started without a bias: a weighted mean of what was. */
function smoothed(values, weight) {
    let sum = 0, mass = 0;
    return values.map(v => {
        if (!isNumber(v)) return null;
        sum = weight * sum + v;
        mass = weight * mass + 1;
        return sum / mass;
    });
}

/* ---- one chart ---- */

/* {run, index, x, y, low, high, sparse} for each run that has numbers. */
function linesOf(spec) {
    const out = [];
    runs.forEach((run, index) => {
        const y = valuesOf(spec, run);
        if (!y || !y.some(isNumber)) return;
        const n = y.filter(isNumber).length;
        out.push({
            run, index, x: run.steps, y, sparse: n < .7 * y.length || n === 1,
            exact: spec.exact,
            low: spec.low ? column(run, spec.low) : null,
            high: spec.high ? column(run, spec.high) : null,
        });
    });
    return out;
}

function range(lines, log, share) {
    let low = Infinity, high = -Infinity, left = Infinity, right = -Infinity, unseen = 0;
    for (const l of lines) {
        const bands = lines.length <= MOST_BANDS ? [l.low, l.high] : [];
        for (const list of [l.y, ...bands].filter(Boolean)) {
            list.forEach(v => {
                if (!isNumber(v)) return;
                if (log && v <= 0) { unseen += list === l.y; return; }
                low = Math.min(low, v);
                high = Math.max(high, v);
            });
        }
        left = Math.min(left, l.x[0]);
        right = Math.max(right, l.x[l.x.length - 1]);
    }
    if (!isFinite(low)) return { unseen, nothing: true };
    const most = high;
    if (log && high / low < 1.5) { low /= 1.25; high *= 1.25; }
    else if (low === high) {
        const room = Math.abs(low) / 10 || 1;
        low -= low >= 0 && low - room < 0 ? low : room;
        high += room;
    } else if (!log) {
        const room = (high - low) * .06;
        low = low >= 0 && low - room < 0 ? 0 : low - room;
        high += room;
    }
    if (share && most <= 1) { low = log ? low : Math.max(0, low); high = Math.min(1, high); }
    return { low, high, left, right: right > left ? right : left + 1, unseen };
}

/* An SVG path through the points; gaps stay open unless the line is sparse. */
function path(chart, x, y, bridge) {
    let d = '', pen = false;
    y.forEach((v, i) => {
        const py = isNumber(v) ? chart.py(v) : NaN;
        if (!isFinite(py)) { pen = pen && bridge; return; }
        d += `${pen ? 'L' : 'M'}${chart.px(x[i]).toFixed(1)} ${py.toFixed(1)}`;
        pen = true;
    });
    return d;
}

function bandPath(chart, l) {
    const at = l.x.map((x, i) => i).filter(i => isNumber(l.low[i]) && isNumber(l.high[i]) &&
        isFinite(chart.py(l.low[i])) && isFinite(chart.py(l.high[i])));
    if (at.length < 2) return '';
    const point = (i, list) =>
        `${chart.px(l.x[i]).toFixed(1)} ${chart.py(list[i]).toFixed(1)}`;
    return 'M' + at.map(i => point(i, l.high)).join('L') + 'L' +
        at.reverse().map(i => point(i, l.low)).join('L') + 'Z';
}

function drawAxes(chart, box, r) {
    const { left, right, top, bottom } = box;
    const add = e => chart.svg.append(e);
    for (const v of chart.yTicks) {
        const y = chart.py(v);
        add(svg('line', { class: 'grid', x1: left, x2: right, y1: y, y2: y }));
        add(svg('text', { x: left - 6, y: y + 4, 'text-anchor': 'end' },
            axisText(v, chart.spec.kind)));
    }
    for (const v of ticks(r.left, r.right, Math.max(2, (right - left) / 75), true)) {
        const x = chart.px(v);
        add(svg('line', { class: 'axis', x1: x, x2: x, y1: bottom, y2: bottom + 4 }));
        add(svg('text', { x, y: bottom + 17, 'text-anchor': x > right - 14 ? 'end' :
            x < left + 8 ? 'start' : 'middle' }, axisText(v)));
    }
    add(svg('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }));
    add(svg('text', { x: (left + right) / 2, y: bottom + 32, 'text-anchor': 'middle' },
        'step'));
}

const smooths = l => view.smooth > 0 && !l.sparse && !l.exact;

function drawLine(chart, l) {
    const g = svg('g', { class: runClass(l.index), 'clip-path': `url(#${chart.id})` });
    const put = (name, d) => d && g.append(svg('path', { class: name, d }));
    if (l.low && l.high && chart.lines.length <= MOST_BANDS) put('band', bandPath(chart, l));
    if (smooths(l)) {
        put('line raw', path(chart, l.x, l.y, false));
        put('line', path(chart, l.x, smoothed(l.y, view.smooth), false));
    } else {
        put('line', path(chart, l.x, l.y, l.sparse));
    }
    if (l.sparse || l.x.length <= 40) {
        l.y.forEach((v, i) => {
            if (!isNumber(v) || !isFinite(chart.py(v))) return;
            g.append(svg('circle', { class: 'dot', cx: chart.px(l.x[i]).toFixed(1),
                cy: chart.py(v).toFixed(1), r: l.sparse ? 3 : 1.9 }));
        });
    }
    chart.svg.append(g);
}

/* Small triangles on the axis where alarms rang. */
function drawAlarms(chart, bottom) {
    for (const l of chart.lines) {
        const g = svg('g', { class: runClass(l.index) });
        (column(l.run, 'health/alarms') || []).forEach((n, i) => {
            if (n > 0) g.append(svg('path', { class: 'alarm',
                d: `M${(chart.px(l.x[i]) - 3.5).toFixed(1)} ${bottom - 1}h7l-3.5 -6.5z` }));
        });
        chart.svg.append(g);
    }
}

function draw(chart) {
    chart.width = chart.svg.clientWidth;
    const width = Math.max(220, chart.width), height = 205;
    const lines = chart.lines = chart.all.filter(l => !view.hidden.has(l.index));
    const r = range(lines, view.log, chart.spec.kind === 'share');
    chart.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    chart.svg.replaceChildren();
    chart.box = null;
    const message = !lines.length ? 'its runs are hidden'
        : r.nothing ? 'nothing above 0 to show on a log scale' : '';
    if (message) {
        chart.svg.append(svg('text', { x: width / 2, y: height / 2,
            'text-anchor': 'middle' }, message));
        return;
    }
    const log = view.log, to = v => log ? Math.log10(v) : v;
    const marks = log ? logTicks(r.low, r.high) : [];
    chart.yTicks = marks.length > 1 ? marks : ticks(r.low, r.high, 4);
    if (log) chart.yTicks = chart.yTicks.filter(v => v > 0);
    const label = v => axisText(v, chart.spec.kind); /* each once, the lowest of its kind */
    chart.yTicks = chart.yTicks.filter((v, i, all) => !i || label(v) !== label(all[i - 1]));
    const widest = Math.max(...chart.yTicks.map(v => label(v).length));
    const box = chart.box = { left: Math.round(widest * 6.6 + 12), right: width - 8,
        top: 8, bottom: height - 39 };
    chart.px = x => box.left + (x - r.left) / (r.right - r.left) * (box.right - box.left);
    chart.py = y => log && y <= 0 ? NaN : box.bottom - (to(y) - to(r.low)) /
        (to(r.high) - to(r.low)) * (box.bottom - box.top);
    const clip = svg('clipPath', { id: chart.id });
    clip.append(svg('rect', { x: box.left - 4, y: box.top - 5, height: box.bottom -
        box.top + 6, width: box.right - box.left + 8 }));
    chart.svg.append(clip);
    drawAxes(chart, box, r);
    lines.forEach(l => drawLine(chart, l));
    drawAlarms(chart, box.bottom);
    chart.cross = svg('line', { class: 'cross', y1: box.top, y2: box.bottom, x1: -9,
        x2: -9 });
    chart.svg.append(chart.cross);
    const bands = !chart.spec.low ||
        lines.length <= MOST_BANDS && lines.some(l => l.low && l.high);
    chart.also.textContent = [bands ? chart.spec.note
        : chart.spec.note.replace(/;? ?band:.*/, ''),
        r.unseen ? `${plural(r.unseen, 'number')} not above 0 not shown` : '']
        .filter(Boolean).join('; ');
}

/* ---- reading a chart ---- */

/* The row nearest to a step. */
function nearest(x, step) {
    let low = 0, high = x.length - 1;
    while (low < high) {
        const mid = (low + high) >> 1;
        if (x[mid] < step) low = mid + 1; else high = mid;
    }
    return low > 0 && step - x[low - 1] < x[low] - step ? low - 1 : low;
}

/* All steps at which a shown run has a number, in order. */
function stepsOf(chart) {
    return [...new Set(chart.lines.flatMap(l => l.x.filter((x, i) => isNumber(l.y[i]))))]
        .sort((a, b) => a - b);
}

function readAt(chart, step, where) {
    const write = kinds[chart.spec.kind || 'plain'];
    const rows = [];
    for (const l of chart.lines) {
        const i = nearest(l.x, step);
        if (l.x[i] !== step) continue;
        rows.push([several ? l.run.label : chart.spec.title, write(l.y[i]), l.index]);
        if (l.low && l.high)
            rows.push(['least to greatest', `${write(l.low[i])} to ${write(l.high[i])}`]);
        if (smooths(l))
            rows.push(['smoothed', write(smoothed(l.y.slice(0, i + 1), view.smooth)[i])]);
        const alarms = column(l.run, 'health/alarms');
        if (alarms && alarms[i] > 0)
            rows.push([alarmNames(l.run, i) || 'alarms', plain(alarms[i])]);
    }
    const x = chart.px(step);
    chart.step = step;
    chart.cross.setAttribute('x1', x);
    chart.cross.setAttribute('x2', x);
    const frame = chart.svg.getBoundingClientRect();
    showTip(frame.left + x, where === undefined ? frame.top + 20 : where,
        `step ${plain(step)}`, rows);
    if (where === undefined)
        say(`step ${step}: ` + rows.map(([n, v]) => `${n} ${v}`).join(', '));
}

function alarmNames(run, i) {
    const prefix = 'health/alarm_';
    return Object.keys(run.columns).filter(n => n.startsWith(prefix) &&
        column(run, n)[i] > 0).map(n => 'alarm: ' + n.slice(prefix.length)).join(', ');
}

function leave(chart) {
    hideTip();
    if (chart.box) { chart.cross.setAttribute('x1', -9); chart.cross.setAttribute('x2', -9); }
}

function onPointer(chart, e) {
    const steps = chart.box ? stepsOf(chart) : [];
    if (!steps.length) return;
    const frame = chart.svg.getBoundingClientRect();
    const x = e.clientX - frame.left;
    const near = steps.map(s => Math.abs(chart.px(s) - x));
    readAt(chart, steps[near.indexOf(Math.min(...near))], e.clientY);
}

function onKey(chart, e) {
    const steps = chart.box ? stepsOf(chart) : [];
    const at = Math.max(0, steps.indexOf(chart.step));
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1,
        PageUp: at - 10, PageDown: at + 10 }[e.key];
    if (e.key === 'Escape') leave(chart);
    if (to === undefined || !steps.length) return;
    e.preventDefault();
    readAt(chart, steps[Math.min(steps.length - 1, Math.max(0, to))]);
}

function latest(spec, lines) {
    if (several || !lines.length) return '';
    const numbers = lines[0].y.filter(isNumber);
    return kinds[spec.kind || 'plain'](numbers[numbers.length - 1]);
}

/* A name that may go on to the next line behind its separators. */
const breakable = name => name.split(/(?<=[/_])/).flatMap(part => [part, el('wbr')]);

/* A figure for the spec; null when no run has numbers. */
function makeChart(spec, names) {
    const all = linesOf(spec);
    if (!all.length) return null;
    const chart = { spec, all, lines: all, step: null, id: `plot${charts.length}-${spec.title}`
        .replace(/[^A-Za-z0-9-]/g, '-') };
    chart.svg = svg('svg', { tabindex: 0, role: 'img', 'aria-label':
        `${spec.title} by step; arrow keys read it` });
    chart.also = el('div', { class: 'also' });
    chart.figure = el('figure', {},
        el('figcaption', {}, el('b', {}, ...breakable(spec.title)),
            el('span', { class: 'latest' }, latest(spec, all))),
        names ? el('div', { class: 'also' }, names) : null, chart.also, chart.svg);
    const listen = (type, f) => chart.svg.addEventListener(type, f);
    listen('pointermove', e => onPointer(chart, e));
    listen('pointerdown', e => onPointer(chart, e));
    listen('pointerleave', () => leave(chart));
    listen('keydown', e => onKey(chart, e));
    listen('blur', () => leave(chart));
    charts.push(chart);
    widths.observe(chart.svg);
    return chart;
}

const widths = new ResizeObserver(entries => {
    for (const e of entries) {
        const chart = charts.find(c => c.svg === e.target);
        if (chart && e.contentRect.width > 0 && e.contentRect.width !== chart.width) draw(chart);
    }
});

const redraw = () => charts.filter(c => c.svg.clientWidth > 0).forEach(draw);
