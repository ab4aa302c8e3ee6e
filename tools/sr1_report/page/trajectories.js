/* trajectories.js - browse what was said, token by token. */

for (const t of data.validations.flatMap(v => v.list)) t.validation = true;
const all = [...data.trajectories, ...data.validations].flatMap(t => t.list);
const reading = { of: 'steps', run: 'all', step: 'all', order: 'file', colour: '', text: '', list: [],
    now: null, token: -1 };

const searchStatus = { 0: 'found', 1: 'nothing found', 2: 'timed out', 3: 'failed' };

/* ---- colours of tokens ---- */

/* What a token can be coloured by: name, numbers of a trajectory, whether the sign
   matters. */
function shades(t) {
    const c = t.columns, out = [];
    const constant = isNumber(t.advantage) ? t.ids.map(() => t.advantage) : null;
    if (c.token_advantages || constant)
        out.push(['advantage', c.token_advantages || constant, true]);
    if (t.logProbs.some(isNumber)) out.push(['log-prob', t.logProbs, false]);
    if (c.reference_log_probs)
        out.push(['log-prob above the reference', t.logProbs.map((v, i) =>
            isNumber(v) && isNumber(c.reference_log_probs[i])
                ? v - c.reference_log_probs[i] : null), true]);
    for (const name of Object.keys(c)) {
        if (name === 'token_advantages') continue;
        const oneWay = name.endsWith('log_probs');
        out.push([name.replace(/_/g, ' '), c[name], !oneWay]);
    }
    return out;
}

/* Greatest size over all trajectories, so that colours can be compared. */
const greatest = new Map();
for (const t of all) {
    for (const [name, values] of shades(t)) {
        for (const v of values)
            if (isNumber(v) && !(Math.abs(v) <= (greatest.get(name) || 0)))
                greatest.set(name, Math.abs(v));
    }
}

/* Log-probs below this are as strong as it: a probability under 1%. */
const LOW = -4.6;

function background(shade, i) {
    if (!shade || !isNumber(shade[1][i])) return '';
    const v = shade[1][i];
    const most = shade[2] ? greatest.get(shade[0]) || 1 : -LOW;
    const part = Math.min(1, Math.abs(v) / most);
    return part < .02 ? '' : `rgba(var(--${shade[2] && v > 0 ? 'plus' : 'minus'}), ` +
        `calc(${part.toFixed(3)} * var(--strength)))`;
}

function scaleOf(shade) {
    if (!shade) return null;
    const most = greatest.get(shade[0]) || 0;
    return shade[2]
        ? el('span', { class: 'scale' }, plain(-most), el('i', { class: 'both' }), plain(most))
        : el('span', { class: 'scale' }, `${plain(LOW)} and below`,
            el('i', { class: 'one-way' }), '0');
}

/* ---- one trajectory ---- */

/* White space that would not be seen. */
const visible = s => s.replace(/\n/g, '\u21b5\n').replace(/\t/g, '\u21e5\t');

function tokenRows(t, k) {
    const lp = t.logProbs[k];
    return [
        ['token id', plain(t.ids[k])],
        ['position', plain(t.at[k])],
        ['turn', plain(t.turns[k])],
        ['mask', '1'],
        ['log-prob', plain(lp)],
        ['probability', percent(isNumber(lp) ? Math.exp(lp) : null)],
        ['advantage', plain((t.columns.token_advantages || [])[k] ?? t.advantage)],
        ...Object.keys(t.columns).filter(n => n !== 'token_advantages')
            .map(n => [n.replace(/_/g, ' '), plain(t.columns[n][k])]),
    ];
}

function pointAt(k, quiet) {
    const spans = document.querySelectorAll('.token'), t = reading.now;
    document.querySelector('.token.here')?.classList.remove('here');
    if (!t || !spans[k]) { reading.token = -1; hideTip(); return; }
    reading.token = k;
    spans[k].classList.add('here');
    if (!quiet) spans[k].scrollIntoView({ block: 'nearest' });
    const box = spans[k].getBoundingClientRect();
    const i = Number(spans[k].dataset.k);
    showTip(box.left - 8, box.bottom - 10, JSON.stringify(t.texts[i]), tokenRows(t, i));
    if (!quiet) say(`${t.texts[i]}: ` + tokenRows(t, i).map(r => r.join(' ')).join(', '));
}

function onTokenKey(e) {
    const last = document.querySelectorAll('.token').length - 1;
    const to = { ArrowRight: reading.token + 1, ArrowLeft: reading.token - 1, Home: 0,
        End: last }[e.key];
    if (e.key === 'Escape') hideTip();
    if (to === undefined) return;
    e.preventDefault();
    pointAt(Math.min(last, Math.max(0, to)));
}

/* Tokens of a turn. Those without text end inside a character, or are special. */
function tokenSpans(t, segment, shade) {
    const out = [];
    for (let k = 0; k < t.ids.length; k++) {
        if (t.at[k] < segment.at || t.at[k] >= segment.at + segment.n) continue;
        const text = t.texts[k];
        const span = el('span', { class: text ? 'token' : 'token nothing', 'data-k': k },
            text ? visible(text) : '\u00b7');
        span.style.backgroundColor = background(shade, k);
        out.push(span);
    }
    return out;
}

function segmentBlock(t, s, shade) {
    const who = s.policy ? `policy, turn ${s.turn}` : `environment, turn ${s.turn}`;
    const tail = s.n ? `, ${plural(s.n, 'token')}` : '';
    const spans = s.policy ? tokenSpans(t, s, shade) : [];
    return el('div', { class: `segment ${s.policy ? 'policy' : 'environment'}` },
        el('div', { class: 'who' }, who + tail + (s.policy ? '' : '; mask 0')),
        el('pre', {}, ...(spans.length ? spans : [s.text || ''])));
}

/* A question may be a whole prompt, as a critic's is: its beginning is the heading. */
function questionBlock(t) {
    const text = (t.query || '(no question)').trim();
    const begin = text.split('\n', 1)[0].slice(0, 160);
    if (begin === text) return [el('h3', {}, text)];
    return [el('h3', {}, `${begin} \u2026`), el('details', { class: 'question' },
        el('summary', {}, 'The whole question'), el('pre', {}, text))];
}

function promptBlock(t) {
    const left = t.promptTokens - t.promptIds.length;
    return el('details', { class: 'prompt' },
        el('summary', {}, `Prompt, ${plural(t.promptTokens, 'token')}; mask 0`),
        el('p', { class: 'note' }, 'Its token ids; the text of the prompt is not recorded, ' +
            'the question is above.'),
        el('pre', {}, t.promptIds.join(' ') + (left > 0 ? ` \u2026 and ${plain(left)} more`
            : '')));
}

function searchList(t) {
    if (!t.searches.length) return el('p', { class: 'note' }, 'It took no action.');
    return el('div', { class: 'scroll' }, el('table', {},
        el('thead', {}, el('tr', {}, ...['turn', 'action', 'result', 'hits'].map(h =>
            el('th', { scope: 'col' }, h)))),
        el('tbody', {}, ...t.searches.map(s => el('tr', {}, el('td', {}, plain(s.turn)),
            el('td', { class: 'value' }, s.query),
            el('td', {}, searchStatus[s.status] || `status ${plain(s.status)}`),
            el('td', { class: 'value' }, plain(s.hits) + (s.ids.length
                ? `: ${s.ids.join(', ')}` : '')))))));
}

function fact(name, text) {
    return el('div', {}, el('dt', {}, name), el('dd', {}, text));
}

function partsText(t) {
    return t.parts.map(([name, v, w]) => `${name} ${plain(v)}` +
        (w === 1 ? '' : ` \u00d7 ${plain(w)}`)).join(', ');
}

function showOne(t) {
    const place = byId('one');
    reading.now = t;
    reading.token = -1;
    hideTip();
    if (!t) { place.replaceChildren(); return; }
    const options = shades(t);
    const shade = options.find(s => s[0] === reading.colour) || null;
    place.replaceChildren(
        ...questionBlock(t),
        el('dl', { class: 'facts' },
            several ? fact('Run', runs[t.run].label) : null,
            fact('Step, sample', `${plain(t.step)}, ${plain(t.sample)}`),
            fact('Reward', plain(t.reward) + (t.parts.length ? ` = ${partsText(t)}` : '')),
            fact('Advantage', plain(t.advantage)),
            fact('Ended by', t.stop.replace(/_/g, ' ') || 'not known'),
            fact('Answer', t.answer || '(none)'),
            fact(t.gold.length > 1 ? 'Right answers' : 'Right answer',
                t.gold.join(' | ') || '(none given)'),
            fact('Question', [t.id, t.source].filter(Boolean).join(', ') || '(no id)')),
        promptBlock(t),
        el('div', { class: 'tokens', tabindex: 0, role: 'group', 'aria-label':
            'tokens; arrow keys read them', keydown: onTokenKey,
        pointerover: e => {
            const span = e.target.closest('.token');
            if (span) pointAt([...document.querySelectorAll('.token')].indexOf(span), true);
        }, pointerleave: () => pointAt(-1), blur: () => pointAt(-1) },
            ...t.segments.map(s => segmentBlock(t, s, shade)),
            t.segments.length ? null : el('p', { class: 'empty' }, 'It has no tokens.')),
        el('h3', {}, 'Actions'), searchList(t));
    byId('scale').replaceChildren(scaleOf(shade) || '');
    document.querySelectorAll('.list button').forEach((b, i) =>
        b.setAttribute('aria-current', String(reading.list[i] === t)));
}

/* ---- the list ---- */

/* The same order of the same page every time. */
function scramble(t) {
    let h = 2166136261;
    for (const c of `${t.step}/${t.id}/${t.sample}/${t.run}`)
        h = Math.imul(h ^ c.charCodeAt(0), 16777619);
    return (h ^ (h >>> 13)) >>> 0;
}

const number = v => isNumber(v) ? v : -Infinity;
const orders = {
    file: ['in order', () => 0],
    best: ['best reward first', (a, b) => number(b.reward) - number(a.reward) || 0],
    worst: ['worst reward first', (a, b) => number(a.reward) - number(b.reward) || 0],
    strong: ['largest advantage first', (a, b) =>
        Math.abs(b.advantage || 0) - Math.abs(a.advantage || 0)],
    random: ['at random', (a, b) => scramble(a) - scramble(b)],
};

function matches(t) {
    if (!t.validation !== (reading.of === 'steps')) return false;
    if (reading.run !== 'all' && t.run !== Number(reading.run)) return false;
    if (reading.step !== 'all' && t.step !== Number(reading.step)) return false;
    if (!reading.text) return true;
    return [t.query, t.answer, t.id, t.stop, ...t.gold].join('\n').toLowerCase()
        .includes(reading.text);
}

function listRow(t) {
    return el('li', {}, el('button', { type: 'button', click: () => showOne(t) },
        el('span', { class: 'row' },
            el('span', {}, several ? swatch(t.run) : null, `step ${plain(t.step)}`),
            el('span', {}, 'reward ', el('b', {}, plain(t.reward)), ', advantage ',
                el('b', {}, plain(t.advantage)))),
        el('span', { class: 'query' }, t.query || '(no question)')));
}

function makeList() {
    reading.list = all.filter(matches).sort(orders[reading.order][1]);
    byId('list').replaceChildren(...reading.list.map(listRow));
    byId('count').textContent = plural(reading.list.length, 'trajectory')
        .replace('trajectorys', 'trajectories');
    showOne(reading.list[0]);
    if (!reading.list.length)
        byId('one').replaceChildren(el('p', { class: 'empty' }, 'None fits this choice.'));
}

function onListKey(e) {
    const rows = [...byId('list').querySelectorAll('button')];
    const to = rows.indexOf(document.activeElement) +
        ({ ArrowDown: 1, ArrowUp: -1 }[e.key] || 0);
    if (!['ArrowDown', 'ArrowUp'].includes(e.key) || !rows[to]) return;
    e.preventDefault();
    rows[to].focus();
    rows[to].click();
}

function chooser(label, name, options, then) {
    return el('label', { class: 'control' }, label, el('select', { change: e => {
        reading[name] = e.target.value;
        then();
    } }, ...options.map(([v, text]) => el('option', { value: v, selected:
        v === reading[name] ? '' : false }, text))));
}

function leftOut(files, what) {
    return files.map((t, i) => {
        const of = [several ? runs[i].label : '', what].filter(Boolean).join(', ') +
            (several || what ? ': ' : '');
        if (t.missing) return what ? '' : `${of}there are no trajectories.`;
        if (t.error) return `${of}trajectories: ${t.error}.`;
        if (!t.seen) return `${of}the file of trajectories holds none.`;
        const rest = t.seen - t.shown;
        return `${of}${plain(t.shown)} of ${plain(t.seen)} recorded trajectories are here` +
            (rest ? `, ${plain(rest)} left out` : '') +
            (t.tooBig ? ` (${plain(t.tooBig)} of them for the size of this file)` : '') +
            (rest ? '; from each part of the run the best, the worst, the one of largest ' +
                'advantage and one at random' : '') + '.';
    }).filter(Boolean);
}

function makeTrajectories() {
    const place = byId('trajectories');
    const left = [...leftOut(data.trajectories, ''), ...leftOut(data.validations,
        'validations')];
    if (!all.length) {
        place.append(...left.map(text => el('p', { class: 'empty' }, text)));
        return;
    }
    if (!all.some(t => !t.validation)) reading.of = 'validations';
    const steps = [...new Set(all.map(t => t.step))].sort((a, b) => a - b);
    const colours = [...greatest.keys()].map(name => [name, name]);
    const byToken = all.some(t => t.columns.token_advantages) || !greatest.has('log-prob');
    reading.colour = colours.length && byToken ? colours[0][0] : 'log-prob';
    const bar = el('div', { class: 'bar' });
    if (all.some(t => t.validation)) bar.append(chooser('Of', 'of', [['steps', 'steps'],
        ['validations', 'validations']], makeList));
    if (several) bar.append(chooser('Run', 'run', [['all', 'all'],
        ...runs.map((r, i) => [String(i), r.label])], makeList));
    bar.append(
        chooser('Step', 'step', [['all', 'all'], ...steps.map(s => [String(s), plain(s)])],
            makeList),
        chooser('Order', 'order', Object.entries(orders).map(([k, v]) => [k, v[0]]),
            makeList),
        el('label', { class: 'control' }, 'Find', el('input', { type: 'search', size: 20,
            placeholder: 'in question, answer', input: e => {
                reading.text = e.target.value.toLowerCase();
                makeList();
            } })),
        chooser('Colour by', 'colour', [...colours, ['', 'nothing']],
            () => showOne(reading.now)),
        el('span', { id: 'scale' }));
    place.append(...left.map(text => el('p', { class: 'note' }, text)), bar,
        el('p', { class: 'note', id: 'count' }),
        el('div', { class: 'reader' },
            el('ol', { class: 'list', id: 'list', keydown: onListKey }),
            el('div', { class: 'one', id: 'one' })));
    makeList();
}

makeTop();
makeSamples();
makeFigures();
makeCurves();
makeConfiguration();
makeTrajectories();
makeNotes();
root.dataset.ready = 1;
