/* summary.js - top, figures, configuration, controls of the curves, notes. */

/* ---- top ---- */

/* What the run's program gave it beside the configuration, when it was started last. */
const givenTo = run => ((run.starts || []).filter(s => s).pop() || {}).given || {};

/* A key as the run had it: what its program gave stands before what the key says. */
function setting(run, key) {
    const given = givenTo(run), value = asText((run.config || {})[key]);
    if (key === 'environment' && given.environment)
        return `${given.environment} (of the program` +
            (given.tools && given.tools.length ? `: ${given.tools.join(', ')})` : ')');
    if (key === 'search_engine' && given.engine) return `${given.engine} (of the program)`;
    if (key === 'rewards' && given.rewards && given.rewards.length)
        return [...value.split(',').filter(name => name && name !== 'none'),
            ...given.rewards.map(([name]) => name)].join(',');
    return value;
}

function progress(run) {
    const f = run.figures;
    return f.steps_planned ? `${plain(f.steps_done)} of ${plain(f.steps_planned)} steps`
        : plural(f.steps_done, 'step');
}

function facts(run) {
    const rl = setting(run, 'stage') !== 'sft';
    const rows = [
        ['Done', progress(run) + (run.figures.finished ? '' : ', not finished')],
        ['Begun', when(run.begun)],
        ['Last row of metrics', when(run.last)],
        ['Time of the run', duration(run.figures.run_seconds)],
        ['Time of all steps', duration(run.figures.seconds)],
        ['Stage', rl ? 'reinforcement learning' : 'supervised (sft)'],
        ['Model', setting(run, 'model_name_or_path')],
        ['Protocol', setting(run, 'protocol')],
        ['Environment', rl ? setting(run, 'environment') : ''],
        ['Search engine', rl ? setting(run, 'search_engine') : ''],
        ['Advantage', rl ? setting(run, 'advantage') : ''],
        ['Loss', rl ? setting(run, 'loss') : 'log-likelihood'],
        ['Rewards', rl ? setting(run, 'rewards').replace(/,/g, ', ') : ''],
    ];
    return el('dl', { class: 'facts' }, ...rows.filter(r => r[1] && r[1] !== '\u2013').map(
        ([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

/* When, by what and where the run was started, and what was other from then on. */
const startText = s => [`${asText(s.begun)} to ${asText(s.ended) || 'now'}`,
    `steps ${asText(s.from_step)} to ${asText(s.to_step) || '?'}`,
    asText(s.outcome) + (s.error ? ` (${asText(s.error)})` : ''),
    `version ${asText(s.version)}${s.commit ? ` (${asText(s.commit)})` : ''}`,
    `process ${asText(s.pid)} on ${asText(s.host)}`, asText(s.command)]
    .filter(Boolean).join(', ');

const changeText = c => `from step ${asText(c.step)} on: ${asText(c.key)} ` +
    `${asText(c.from)} \u2192 ${asText(c.to)} (${asText(c.by)}, ${asText(c.time)})`;

function history(run) {
    const lines = [...(run.starts || []).filter(s => s).map(startText),
        ...(run.changes || []).filter(c => c).map(changeText)];
    return lines.length ? el('details', { class: 'history' },
        el('summary', {}, `Started ${plural((run.starts || []).length, 'time')}, ` +
            `${plural((run.changes || []).length, 'change')} of the configuration`),
        el('ul', {}, ...lines.map(line => el('li', {}, line)))) : null;
}

/* The same in a line. */
const inShort = run => [progress(run), `begun ${when(run.begun)}`,
    ...(setting(run, 'stage') === 'sft' ? ['stage']
        : ['protocol', 'environment', 'advantage', 'loss']).filter(k => setting(run, k)).map(k =>
    `${k} ${setting(run, k)}`), `model ${setting(run, 'model_name_or_path') || 'not known'}`]
    .join(', ');

const verdict = run => el('ul', { class: 'verdict' },
    ...run.verdict.map(v => el('li', { class: v.tone }, el('span', {}, v.text))));

/* ---- one question at every stage ---- */

/* Text with what the environment inserted told apart from what the policy wrote. */
const markedUp = text => text.split(/(<information>[^]*?<\/information>)/).map(part =>
    part.startsWith('<information>') ? el('span', { class: 'inserted' }, part) : part);

function sampleCard(s) {
    return el('div', { class: 'sample' }, el('h3', {}, s.name),
        el('p', { class: 'note' }, Object.entries(s.figures || {}).map(([name, v]) =>
            `${name} ${isNumber(v) ? v.toFixed(3) : asText(v)}`).join(', ')),
        el('pre', {}, ...markedUp(s.text)));
}

function makeSamples() {
    const s = data.samples, place = byId('samples');
    if (!s) { place.remove(); return; }
    place.append(el('p', {}, el('b', {}, s.question), s.right_answer
        ? ` \u2013 right answer: ${s.right_answer}` : ''),
        el('div', { class: 'samples' }, ...s.samples.map(sampleCard)));
    const headline = shown.find(c => c.metric === 'val/exact_match' &&
        runs.some(r => valuesOf(c, r))) || shown[0];
    const chart = makeChart(headline);
    if (chart) place.append(chart.figure);
}

function makeTop() {
    if (several) root.classList.add('several');
    const name = runs.map(r => r.label).join(', ');
    document.title = `${name} \u2013 training report`;
    byId('top').append(el('h1', {}, several ? `${runs.length} runs side by side` : name));
    if (!several) {
        const given = setting(runs[0], 'name');
        byId('top').append(el('p', { class: 'muted' }, runs[0].folder +
            (given && given !== 'run' && given !== name ? ` (${given})` : '')));
        byId('told').append(...[verdict, facts, history].map(f => f(runs[0])).filter(Boolean));
        return;
    }
    byId('told').append(el('div', { class: 'per-run' }, ...runs.map((run, i) =>
        el('div', {}, el('h3', {}, swatch(i), run.label),
            el('p', { class: 'note' }, inShort(run)),
            verdict(run), history(run)))));
}

/* ---- figures ---- */

/* [name, what it is called, kind, name of the first value if it is a change] */
const figureRows = [
    ['reward_last', 'Reward', 'plain', 'reward_first'],
    ['exact_match_last', 'Exact match, validation', 'share', 'exact_match_first'],
    ['exact_match_best', 'Best exact match', 'share'],
    ['success_last', 'Success, validation', 'share', 'success_first'],
    ['success_best', 'Best success', 'share'],
    ['validation_reward_last', 'Reward, validation', 'plain', 'validation_reward_first'],
    ['validation_reward_best', 'Best reward, validation', 'plain'],
    ['loss_last', 'Loss', 'plain', 'loss_first'],
    ['format_rate_last', 'Well-formed', 'share'],
    ['searches_last', 'Actions per trajectory', 'plain'],
    ['response_length_last', 'Response length', 'plain'],
    ['kl_last', 'KL', 'plain'],
    ['entropy_last', 'Entropy', 'plain'],
    ['clip_fraction_last', 'Clip fraction', 'share'],
    ['grad_norm_last', 'Gradient norm', 'plain'],
    ['value_loss_last', 'Value loss', 'plain'],
    ['rollout_difference_greatest', 'Rollout difference, greatest', 'plain'],
    ['tokens_per_second_last', 'Tokens a second', 'plain'],
    ['memory_bytes_greatest', 'Memory, greatest', 'bytes'],
    ['run_seconds', 'Time of the run', 'seconds'],
    ['seconds', 'Time of all steps', 'seconds'],
    ['skipped_updates', 'Skipped updates', 'plain'],
    ['rows_with_alarms', 'Rows with alarms', 'plain'],
];

/* A best value that is the last one says nothing more. */
const isNews = ([name]) => !name.endsWith('_best') || runs[0].figures[name] >
    runs[0].figures[name.replace('_best', '_last')];

const has = ([name]) => runs.some(r => isNumber(r.figures[name]));

function tile(row) {
    const [name, title, kind, first] = row, f = runs[0].figures;
    return el('div', { class: 'tile' }, el('div', { class: 'name' }, title),
        el('div', { class: 'value' }, kinds[kind](f[name])),
        first && isNumber(f[first]) && f[first] !== f[name] ? el('div', { class: 'more' },
            `from ${kinds[kind](f[first])}`) : null);
}

function makeFigures() {
    const rows = figureRows.filter(has), place = byId('figures');
    if (runs.every(r => !r.rows)) {
        place.append(el('p', { class: 'empty' }, 'No step is recorded yet, so there are ' +
            'no figures. Make the report again once metrics.jsonl has a row.'));
        return;
    }
    if (several) {
        const cell = v => el('td', { class: 'number' }, v);
        place.append(el('div', { class: 'scroll' }, el('table', {},
            el('thead', {}, el('tr', {}, el('th', {}, ''), ...runs.map((r, i) =>
                el('th', { class: 'number', scope: 'col' }, swatch(i), r.label)))),
            el('tbody', {},
                el('tr', {}, el('th', { scope: 'row' }, 'Steps'),
                    ...runs.map(r => cell(progress(r).replace(/ steps?$/, '')))),
                ...rows.flatMap(([name, title, kind, first]) => [
                    first ? el('tr', {}, el('th', { scope: 'row' }, `${title}, at first`),
                        ...runs.map(r => cell(kinds[kind](r.figures[first])))) : null,
                    el('tr', {}, el('th', { scope: 'row' }, first ? `${title}, last` : title),
                        ...runs.map(r => cell(kinds[kind](r.figures[name]))))])
                    .filter(Boolean)))));
    } else {
        place.append(el('div', { class: 'tiles' }, ...rows.filter(isNews).map(tile)));
    }
    place.append(el('p', { class: 'note' }, 'Figures without "greatest", exact match, ' +
        'times and counts are means over the last fifth of the rows; those at first, ' +
        'over the first fifth.'));
}

/* ---- curves ---- */

function makeControls() {
    const weight = el('output', {}, '0');
    const bar = el('div', { class: 'bar stick' },
        el('label', { class: 'control' }, 'Smoothing', el('input', { type: 'range', min: 0,
            max: .98, step: .02, value: 0, 'aria-label': 'smoothing', input: e => {
                view.smooth = Number(e.target.value);
                weight.textContent = view.smooth.toFixed(2);
                redraw();
            } }), weight),
        el('label', { class: 'control' }, el('input', { type: 'checkbox', change: e => {
            view.log = e.target.checked;
            redraw();
        } }), 'Log scale'));
    if (several) bar.append(el('div', { class: 'legend' }, ...runs.map((run, i) =>
        el('button', { type: 'button', 'aria-pressed': 'true', click: e => {
            const hide = !view.hidden.delete(i);
            if (hide) view.hidden.add(i);
            e.currentTarget.setAttribute('aria-pressed', String(!hide));
            redraw();
        } }, swatch(i), run.label))));
    if (runs.some(r => (column(r, 'health/alarms') || []).some(n => n > 0))) {
        const mark = svg('svg', { class: 'mark', viewBox: '0 0 9 8' });
        mark.append(svg('path', { class: 'alarm', d: 'M0 8h9l-4.5 -8z' }));
        bar.append(el('span', { class: 'note' }, mark, ' an alarm rang'));
    }
    return bar;
}

/* Nothing but zeros in all runs: a line of text is enough. */
const isFlat = chart => chart.all.every(l => l.y.every(v => !isNumber(v) || v === 0) &&
    !(l.high && l.high.some(v => v > 0)));

function addCharts(place, specs) {
    const grid = el('div', { class: 'charts' }), flat = [];
    for (const spec of specs) {
        const chart = makeChart(spec, spec.names);
        if (!chart) continue;
        if (isFlat(chart)) {
            widths.unobserve(chart.svg);
            charts.splice(charts.indexOf(chart), 1);
            flat.push(spec.title, ...(spec.names || '').split(/^also |, /).filter(Boolean));
        } else grid.append(chart.figure);
    }
    place.append(grid);
    redraw();
    if (flat.length)
        place.append(el('p', { class: 'note' }, `Always 0: ${flat.join(', ')}.`));
}

/* Metrics that no curve above shows, each with the other names of the same numbers. */
function otherMetrics() {
    const groups = new Map();
    const same = (run, name) =>
        typeof run.columns[name] === 'string' ? run.columns[name] : name;
    for (const name of new Set(runs.flatMap(r => Object.keys(r.columns)))) {
        const key = runs.map(r => name in r.columns ? same(r, name) : '').join('\n');
        groups.set(key, [...groups.get(key) || [], name]);
    }
    return [...groups.values()].filter(names => !names.includes('step') &&
        !names.some(n => drawn.has(n))).map(names => ({
        title: names[0], metric: names[0],
        kind: names[0].startsWith('timing_s/') ? 'seconds' : 'plain',
        names: names.length > 1 ? `also ${names.slice(1).join(', ')}` : '',
    }));
}

function makeCurves() {
    const place = byId('curves');
    if (runs.every(r => !r.rows)) {
        place.append(el('p', { class: 'empty' }, runs.some(r => r.hasMetrics)
            ? 'metrics.jsonl is empty: curves appear with the first step.'
            : 'There is no metrics.jsonl in the run folder yet.'));
        return;
    }
    place.append(makeControls());
    addCharts(place, shown);
    const rest = otherMetrics();
    if (!rest.length) return;
    place.append(el('details', { toggle: e => {
        if (!e.target.open || e.target.dataset.made) return;
        e.target.dataset.made = 1;
        addCharts(e.target, rest);
    } }, el('summary', {}, `All other metrics (${rest.length})`)));
}

/* ---- configuration ---- */

const defaults = new Map(data.keys.map(([name, value, help]) => [name, { value, help }]));

/* A key that an older run does not have was what it is by default now; so was one that nobody
 * set (null). */
const keyOf = (run, key) => key in run.config && run.config[key] !== null
    ? setting(run, key)
    : defaults.has(key) ? defaults.get(key).value : '';

/* Keys of a run that differ from the defaults; unknown ones too. */
const changed = run => Object.keys(run.config || {}).filter(key => !defaults.has(key) ||
    run.config[key] !== null && !sameValue(setting(run, key), defaults.get(key).value));

function keyCell(key) {
    const known = defaults.get(key);
    return el('th', { class: 'key', scope: 'row', title: known && known.help }, key);
}

function configTable(headings, rows) {
    return el('div', { class: 'scroll' }, el('table', {},
        el('thead', {}, el('tr', {}, ...headings.map(h => el('th', { scope: 'col' }, h)))),
        el('tbody', {}, ...rows)));
}

/* The value that holds, and what it was before the run was resumed with another. */
const valueCell = (run, key, text) => el('td', { class: 'key value' }, text || '(empty)',
    ...(run.changes || []).filter(c => c && c.key === key).map(c =>
        `; ${asText(c.from) || '(empty)'} before step ${asText(c.step)}`));
const usual = key => defaults.has(key) ? defaults.get(key).value : '';

function makeConfiguration() {
    const place = byId('configuration'), lacking = runs.filter(r => !r.config);
    for (const r of lacking)
        place.append(el('p', { class: 'empty' },
            `config.json of ${r.label} is missing or cannot be read.`));
    const known = runs.filter(r => r.config);
    const names = [...new Set(known.flatMap(r => Object.keys(r.config)))];
    if (known.length > 1) {
        const odd = names.filter(k => known.some(r =>
            !sameValue(keyOf(r, k), keyOf(known[0], k))));
        place.append(el('h3', {}, 'What differs between the runs'), odd.length
            ? configTable(['key', ...known.map(r => el('span', {},
                swatch(runs.indexOf(r)), r.label))], odd.map(k => el('tr', {}, keyCell(k),
                ...known.map(r => valueCell(r, k, keyOf(r, k))))))
            : el('p', { class: 'empty' }, 'Nothing: their configurations are equal.'));
    }
    for (const r of known) {
        const keys = changed(r);
        const table = keys.length ? configTable(['key', 'value', 'default', 'meaning'],
            keys.map(k => el('tr', {}, keyCell(k),
                valueCell(r, k, setting(r, k)),
                el('td', { class: 'key value muted' }, usual(k) === '' ? '(empty)' : usual(k)),
                el('td', { class: 'meaning' }, defaults.has(k) ? defaults.get(k).help
                    : 'not a key of this version'))))
            : el('p', {}, 'All keys have their defaults.');
        place.append(el('details', several ? {} : { open: '' }, el('summary', {},
            `${several ? r.label + ': ' : ''}${plural(keys.length, 'key')} ` +
            `${keys.length === 1 ? 'differs' : 'differ'} from the defaults`), table));
    }
}

/* ---- what could not be read ---- */

function skippedText(s, what) {
    const parts = [
        [s.broken, 'not readable'], [s.tooLong, 'too long'],
        [s.cut, 'cut short at the end of the file'], [s.backward, 'with a step out of order'],
    ].filter(([n]) => n > 0).map(([n, why]) => `${plain(n)} ${why}`);
    return parts.length ? `${what}: lines passed over: ${parts.join(', ')}.` : '';
}

function makeNotes() {
    const notes = [];
    runs.forEach((run, i) => {
        const t = data.trajectories[i], of = several ? `${run.label}, ` : '';
        notes.push(skippedText(run.skippedRows, `${of}metrics.jsonl`),
            skippedText(t.skipped, `${of}trajectories`),
            skippedText(data.validations[i].skipped, `${of}trajectories of validations`));
        if (run.merge > 1) notes.push(`${of}curves: each point stands for up to ` +
            `${run.merge} of ${plain(run.rows)} rows (their mean; the least and greatest ` +
            'of bands).');
        if (run.namesLeftOut) notes.push(`${of}metrics.jsonl: too many names; ` +
            `${plural(run.namesLeftOut, 'number')} left out.`);
    });
    byId('notes').append(...notes.filter(Boolean).map(n => el('p', { class: 'note' }, n)),
        el('p', { class: 'note' }, `Made by sr1-report ${data.version}, ` +
            `${when(data.made)}. Times are those of the files.`));
}
