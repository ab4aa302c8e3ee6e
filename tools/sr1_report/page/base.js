/* base.js - the data, elements, numbers. Text from outside reaches the page as text nodes
   only. Errors are counted in the root element, where a test reads them. */

const root = document.documentElement;
root.dataset.errors = 0;
const countError = () => { root.dataset.errors = Number(root.dataset.errors) + 1; };
addEventListener('error', countError);
addEventListener('unhandledrejection', countError);
document.addEventListener('securitypolicyviolation', countError);

const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;
const several = runs.length > 1;
const byId = id => document.getElementById(id);

/* An element: el('td', {class: 'number'}, 'text', child, ...). A property that is a
   function becomes a listener. */
function el(tag, properties, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(properties || {})) {
        if (typeof value === 'function') e.addEventListener(name, value);
        else if (value !== undefined && value !== false) e.setAttribute(name, value);
    }
    e.append(...children.filter(c => c !== undefined && c !== null));
    return e;
}

function svg(tag, properties, text) {
    const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(properties)) e.setAttribute(name, value);
    if (text !== undefined) e.textContent = text;
    return e;
}

const isNumber = v => typeof v === 'number' && isFinite(v);
const minus = s => s.replace(/-/g, '\u2212');

/* Four significant digits, no trailing zeros, exponents only where they help. */
function plain(v) {
    if (!isNumber(v)) return '\u2013';
    if (v === 0) return '0';
    const size = Math.abs(v);
    if (size < 1e-3 || size >= 1e7) {
        const [m, e] = v.toExponential(2).split('e');
        return minus(`${Number(m)}e${Number(e)}`);
    }
    if (Number.isInteger(v) || size >= 1e4) {
        const whole = String(Math.round(size));
        const digits = size < 1e4 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, '\u2009');
        return (v < 0 ? '\u2212' : '') + digits;
    }
    return minus(String(Number(v.toPrecision(4))));
}

function scaled(v, base, units) {
    let i = 0;
    while (Math.abs(v) >= base && i + 1 < units.length) { v /= base; i++; }
    return `${Number(v.toPrecision(3))}${units[i]}`;
}

function duration(s) {
    if (!isNumber(s)) return '\u2013';
    if (s < 60) return `${Number(s.toPrecision(3))} s`;
    const m = Math.floor(s / 60);
    if (m < 60) return `${m} min ${Math.round(s % 60)} s`;
    return `${Math.floor(m / 60)} h ${m % 60} min`;
}

/* How a number of a kind is written; axes use the same with fewer words. */
const kinds = {
    plain,
    bytes: v => isNumber(v) ? scaled(v, 1000, [' B', ' kB', ' MB', ' GB', ' TB']) : '\u2013',
    seconds: duration,
    share: plain, // from 0 to 1
};

const percent = v => isNumber(v) ? `${Number((100 * v).toPrecision(3))}%` : '\u2013';

function when(seconds) {
    if (!seconds) return 'not known';
    return new Date(1000 * seconds).toLocaleString(undefined, {
        year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit',
    });
}

/* A value of a configuration as text, equal for equal values. */
function asText(v) {
    if (v === undefined || v === null || v === '') return '';
    return typeof v === 'object' ? JSON.stringify(v) : String(v);
}

function sameValue(a, b) {
    if (a === b) return true;
    const x = a.trim(), y = b.trim();
    return x !== '' && y !== '' && Number(x) === Number(y);
}

const plural = (n, word) => `${plain(n)} ${word}${n === 1 ? '' : 's'}`;

const runClass = i => `run${i % 8}${i >= 8 ? ' dashed' : ''}`;
const swatch = i => el('span', {class: `swatch ${runClass(i)}`});

/* Every row has every metric; those of what a run does not do are 0 in all of them. */
const ofRollouts = /^(?!(loss|actor\/(pg_loss|lr|grad_norm)|grad_norm|learning_rate|val\/))/;
const ofSome = new RegExp('^(critic/(vf_|values|returns|grad_norm|lr|kl)|thinking/|rollout' +
    '|env/(success|refused)|val/(success|thinking|excluded)|actor/(entropy_(loss|coeff)|pg_clipfrac_' +
    'lower)|timing_s/(levels|update_critic)|perf/max_memory|training/(masked|sampling|' +
    'unscored))');
const isSft = run => asText((run.config || {}).stage) === 'sft';
const isLacking = (run, name, c) => (isSft(run) ? ofRollouts : ofSome).test(name) &&
    c.every(v => !v);

/* The numbers of a metric: a column, or the one it is equal to; null where the run has
   nothing of this kind. */
function column(run, name) {
    let c = run.columns[name];
    if (typeof c === 'string') c = run.columns[c];
    return Array.isArray(c) && !isLacking(run, name, c) ? c : null;
}

/* ---- the box beside the pointer ---- */

const tip = byId('tip');

/* rows: [name, value, run number or undefined] */
function showTip(x, y, title, rows) {
    tip.replaceChildren(el('b', {}, title), el('table', {}, ...rows.map(
        ([name, value, run]) => el('tr', {},
            el('td', {}, run === undefined ? '' : swatch(run), name),
            el('td', {class: 'number'}, value)))));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
    const top = y + 16 + box.height > innerHeight ? y - 12 - box.height : y + 16;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() { tip.hidden = true; }

const say = text => { byId('live').textContent = text; };
