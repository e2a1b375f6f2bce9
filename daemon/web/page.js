// The page of the daemon: it asks /api/ for what the command line shows as well, and changes nothing.
'use strict';

const kRefreshMs = 5000;
const kPageRows = 500;
const kBars = 90;  // Columns of a chart.
const kSvg = 'http://www.w3.org/2000/svg';

// --- Elements. Texts are set as texts, never as markup: they come from users' code.
const make = (space) => (tag, attributes = {}, ...children) => {
  const element = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};
const el = make(null);
const shape = make(kSvg);
const main = document.getElementById('main');

// --- Words.
const short = (key) => key.slice(0, 12);
const number = (value) => value.toLocaleString('en');
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many ?? one + 's'}`;
const percent = (part, all) => all === 0 ? '–' : `${(100 * part / all).toFixed(part === all ? 0 : 1)} %`;
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  while (value >= 1024 && at + 1 < units.length) { value /= 1024; ++at; }
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}
function duration(seconds) {
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${Math.round(seconds * 1e3)} ms`;
  if (seconds < 60) return `${seconds < 10 && !Number.isInteger(seconds) ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}
const clock = (unix) => new Date(unix * 1000).toLocaleTimeString('en-GB', {hour: '2-digit', minute: '2-digit'});
// Relative for eyes, absolute in the title; `now` is the daemon's, whose clock need not be the browser's.
function ago(unix, now) {
  if (!unix) return '–';
  const date = new Date(unix * 1000);
  const past = Math.max(0, now - unix);
  return el('time', {datetime: date.toISOString(), title: date.toISOString().replace('T', ' ').slice(0, 19) + ' UTC'},
            past < 2 ? 'now' : `${duration(Math.round(past))} ago`);
}
const link = (key, text) => el('a', {href: `#/entry/${key}`}, text);
const mark = (kind, text) => el('span', {class: `mark ${kind}`}, text);

// --- Asking.
class Trouble extends Error {}
async function ask(path, fields = {}, signal) {
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== '' && value != null));
  let answer;
  try {
    answer = await fetch(`/api/${path}${query.size ? '?' + query : ''}`, {signal});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Trouble('The daemon does not answer. It may have ended; the next call that needs it starts it again.');
  }
  if (answer.status === 401) { location.assign('/'); throw new Trouble('Log in again.'); }
  const text = await answer.json().catch(() => null);
  if (!answer.ok) throw new Trouble(text?.error?.message ?? `The daemon answered ${answer.status}.`);
  return text;
}

// --- Parts of pages.
const panel = (title, ...content) => el('section', {class: 'panel'}, el('h2', {}, title), content);
const empty = (text) => el('p', {class: 'empty'}, text);
const facts = (pairs) => el('dl', {class: 'facts'}, pairs.filter(([, value]) => value !== '' && value != null)
    .map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));

// Columns: {name, of: row => content, kind, wide}. On a narrow screen each row becomes a card.
function table(columns, rows, label) {
  return el('div', {class: 'scroll'}, el('table', {class: 'cards', 'aria-label': label},
      el('thead', {}, el('tr', {}, columns.map((column) => column.head ?? el('th', {scope: 'col', class: column.kind}, column.name)))),
      el('tbody', {}, rows.map((row) => el('tr', {}, columns.map((column) =>
          el('td', {class: [column.kind, column.wide && 'wide'].filter(Boolean).join(' ') || null, 'data-label': column.name},
             column.of(row))))))));
}
const tile = (name, value, note, kind) => el('div', {class: 'tile'}, el('div', {class: 'name'}, name),
    el('div', {class: 'value'}, value), el('div', {class: `note ${kind ?? ''}`}, note));
function measure(name, value, limit, words) {
  const share = limit ? Math.min(1, value / limit) : 0;
  const inner = el('div');
  inner.style.width = `${(100 * share).toFixed(1)}%`;
  const text = limit ? `${words(value)} of ${words(limit)}` : `${words(value)}, no limit`;
  return el('div', {}, el('div', {class: 'measure'}, el('span', {}, name), el('span', {class: 'quiet'}, text)),
            el('div', {class: share > 0.9 ? 'meter full' : 'meter', role: 'img', 'aria-label': `${name}: ${text}`}, inner));
}

// --- Charts.
// Counters at samples become columns of equal time: hits and misses in each.
function columnsOf(samples) {
  const {when, hits, misses} = samples;
  if (when.length < 2) return [];
  const first = when[0], last = when[when.length - 1];
  // Never narrower than the samples stand apart, or every other column would be empty.
  const width = Math.max((last - first) / Math.min(kBars, when.length - 1), 1);
  const columns = [];
  for (let i = 1; i < when.length; ++i) {
    const at = Math.min(Math.floor((when[i] - first - 0.001) / width), kBars - 1);
    const column = columns[at] ??= {from: first + at * width, to: first + (at + 1) * width, hits: 0, misses: 0, span: 0};
    column.hits += hits[i] - hits[i - 1];
    column.misses += misses[i] - misses[i - 1];
    column.span += when[i] - when[i - 1];
  }
  return columns;
}

// One drawing of columns over time, with a reading that follows the pointer or the arrow keys.
function chart({columns, label, low, top, topText, draw, read, rest}) {
  const svg = shape('svg', {class: low ? 'chart low' : 'chart', role: 'img', 'aria-label': label, tabindex: 0});
  const reading = el('p', {class: 'reading'}, rest);
  const shown = columns.filter(Boolean);
  const first = shown[0].from, last = shown[shown.length - 1].to;
  let at = null;
  const paint = () => {
    const width = Math.max(svg.clientWidth, 200), height = low ? 110 : 190;
    const left = 44, right = 8, above = 8, below = 22;
    const x = (time) => left + (width - left - right) * (time - first) / Math.max(1, last - first);
    const y = (value) => above + (height - above - below) * (1 - value / top);
    const parts = [];
    for (const [value, text] of [[0, '0'], [top / 2, topText(top / 2)], [top, topText(top)]]) {
      parts.push(shape('line', {class: 'grid', x1: left, x2: width - right, y1: y(value), y2: y(value)}),
                 shape('text', {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'}, text));
    }
    const labels = width > 500 ? 4 : 2;
    for (let i = 0; i <= labels; ++i) {
      const time = first + (last - first) * i / labels;
      parts.push(shape('text', {x: x(time), y: height - 6, 'text-anchor': i === 0 ? 'start' : i === labels ? 'end' : 'middle'}, clock(time)));
    }
    parts.push(...draw(x, y, shown));
    if (at !== null) parts.push(shape('line', {class: 'cursor', x1: x((shown[at].from + shown[at].to) / 2), x2: x((shown[at].from + shown[at].to) / 2), y1: above, y2: height - below}));
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
    reading.textContent = at === null ? rest : `${clock(shown[at].from)}: ${read(shown[at])}`;
  };
  const point = (event) => {
    const box = svg.getBoundingClientRect();
    const time = first + (last - first) * (event.clientX - box.left - 44) / Math.max(1, box.width - 52);
    at = shown.reduce((best, one, i) => Math.abs(one.from - time) < Math.abs(shown[best].from - time) ? i : best, 0);
    paint();
  };
  svg.addEventListener('pointermove', point);
  svg.addEventListener('pointerleave', () => { at = null; paint(); });
  svg.addEventListener('blur', () => { at = null; paint(); });
  svg.addEventListener('keydown', (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    at = Math.max(0, Math.min(shown.length - 1, (at ?? shown.length) + step));
    paint();
  });
  new ResizeObserver(paint).observe(svg);
  return el('div', {}, svg, reading);
}

function ratioChart(samples) {
  const columns = columnsOf(samples);
  const hits = columns.reduce((sum, one) => sum + one.hits, 0), lookups = columns.reduce((sum, one) => sum + one.hits + one.misses, 0);
  if (columns.length === 0) return empty('The first samples are being taken.');
  if (lookups === 0) return empty('No program has looked anything up in this time.');
  const ratio = (one) => one.hits / (one.hits + one.misses);
  const words = `${percent(hits, lookups)} of ${plural(lookups, 'look-up')} since ${clock(samples.when[0])} were hits.`;
  return chart({columns, label: `Hit ratio over time. ${words}`, top: 1, topText: (v) => `${100 * v} %`, rest: words,
    read: (one) => one.hits + one.misses === 0 ? 'no look-ups' : `${percent(one.hits, one.hits + one.misses)}, ${plural(one.hits, 'hit')} and ${plural(one.misses, 'miss', 'misses')}`,
    // Where nobody asked there is no ratio: the line has a gap there and does not fall.
    draw: (x, y, shown) => {
      const runs = [[]];
      let before = null;
      for (const one of shown) {
        const gap = before !== null && one.from - before.to > (one.to - one.from) * 3;
        if (one.hits + one.misses === 0 || gap) runs.push([]);
        if (one.hits + one.misses > 0) runs[runs.length - 1].push(one);
        before = one;
      }
      return runs.filter((run) => run.length > 0).flatMap((run) => {
        const points = run.map((one) => `${x((one.from + one.to) / 2).toFixed(1)},${y(ratio(one)).toFixed(1)}`);
        if (run.length === 1) return [shape('circle', {class: 'dot', cx: points[0].split(',')[0], cy: points[0].split(',')[1], r: 2.5})];
        const from = x((run[0].from + run[0].to) / 2), to = x((run[run.length - 1].from + run[run.length - 1].to) / 2);
        return [shape('polygon', {class: 'area', points: `${from},${y(0)} ${points.join(' ')} ${to},${y(0)}`}),
                shape('polyline', {class: 'line', points: points.join(' ')})];
      });
    }});
}

function lookupChart(samples) {
  const columns = columnsOf(samples);
  if (columns.filter(Boolean).length === 0) return null;
  const rate = (count, one) => count / Math.max(1, one.span);
  const most = Math.max(...columns.filter(Boolean).map((one) => rate(one.hits + one.misses, one)));
  if (most === 0) return null;
  const step = 10 ** Math.floor(Math.log10(most));
  const top = [1, 2, 5, 10].map((factor) => factor * step).find((one) => one >= most);
  const short = (value) => value >= 1 ? number(value) : String(Number(value.toPrecision(2)));
  return el('div', {}, el('h3', {}, 'Look-ups each second'),
      el('p', {class: 'legend'}, el('span', {}, el('i', {class: 'swatch hits'}), 'hits'), el('span', {}, el('i', {class: 'swatch misses'}), 'misses')),
      chart({columns, low: true, label: `Look-ups each second over time, ${short(most)} at most.`, top, topText: short,
        rest: `${short(Number(most.toPrecision(2)))} at most.`,
        read: (one) => `${rate(one.hits, one).toFixed(1)} hits and ${rate(one.misses, one).toFixed(1)} misses each second`,
        draw: (x, y, shown) => shown.flatMap((one) => {
          const left = x(one.from), width = Math.max(1, x(one.to) - left - 1), hits = rate(one.hits, one), all = rate(one.hits + one.misses, one);
          return [shape('rect', {class: 'hits', x: left, width, y: y(hits), height: Math.max(0, y(0) - y(hits))}),
                  shape('rect', {class: 'misses', x: left, width, y: y(all), height: Math.max(0, y(hits) - y(all))})];
        })}));
}

// --- Overview.
function flightsPanel(data) {
  const words = {none: () => '', waits: (flight) => `held by ${flight.holder || 'another machine'}`, held: (flight) => `held here${flight.holder && `, as ${flight.holder}`}`};
  const expected = (flight) => flight.left_s !== null ? `in about ${duration(flight.left_s)}` : 'not known';
  if (data.flights === 0) return panel('Flights', empty('Nothing is being compiled.'));
  return panel(`Flights (${number(data.flights)})`, table([
    {name: 'Function', wide: true, of: (flight) => flight.function || 'not named yet'},
    {name: 'Since', kind: 'number', of: (flight) => duration(flight.age_s)},
    {name: 'Waiting', kind: 'number', of: (flight) => number(flight.waiters)},
    {name: 'State', kind: 'fixed', of: (flight) => flight.state || '–'},
    {name: 'Expected', kind: 'fixed', of: expected},
    {name: 'Lease', of: (flight) => words[flight.lease](flight) || '–'},
    {name: 'Graph key', kind: 'key', of: (flight) => short(flight.graph_key)},
  ], data.oldest_flights, 'Flights, the oldest first'));
}

function storePanel(store) {
  return panel('Store',
      store.trouble && el('p', {class: 'bad'}, `Memory takes its place: ${store.trouble}`),
      measure('Bytes', store.bytes, store.bytes_max, bytes), measure('Entries', store.entries, store.entries_max, number),
      el('p', {class: 'quiet'}, store.tables.filter((one) => one.count > 0).map((one) => `${number(one.count)} ${one.table} with ${bytes(one.bytes)}`).join(', ') || 'It is empty.'),
      el('p', {class: 'quiet'}, store.state));
}

function clusterPanel(data) {
  const cluster = data.cluster;
  if (!cluster) return panel('Cluster', empty('This daemon shares nothing with other machines (cluster_index is empty).'));
  const state = {closed: ['good', 'answers'], open: ['bad', 'left alone'], trying: ['warn', 'is tried again']};
  const count = (lease) => data.oldest_flights.filter((one) => one.lease === lease).length;
  return panel('Cluster',
      table([
        {name: 'Tier', kind: 'fixed', of: (tier) => tier.tier},
        {name: 'State', kind: 'fixed', of: (tier) => mark(...state[tier.breaker])},
        {name: 'Place', of: (tier) => tier.place || 'none'},
        {name: 'Left alone', kind: 'number', of: (tier) => plural(tier.opened, 'time')},
        {name: 'Last failure', of: (tier) => tier.why || 'none'},
      ], cluster.tiers, 'Tiers of the cluster'),
      el('p', {class: 'quiet'}, `${plural(count('held'), 'lease')} held, ${number(count('waits'))} waited for. ` +
          (cluster.can_write ? `${plural(cluster.unsent, 'entry waits', 'entries wait')} to be shared.` : 'It signs nothing, so it only takes.')),
      cluster.trust_trouble && el('p', {class: 'bad'}, `Nothing is taken: ${cluster.trust_trouble}`));
}

function loadPanel(load) {
  if (load.clients_sharing === 0) return panel('Load', empty('No program that runs compiled models is connected.'));
  const known = (value) => value === null ? 'unknown' : value.toFixed(1);
  return panel('Load',
      load.busy !== null && measure('Processors', load.busy, load.processors, (value) => number(Number(value.toFixed(1)))),
      el('p', {class: 'quiet'}, `${known(load.running)} calls run; processors busy with other things: ${known(load.others)}.`),
      table([
        {name: 'Program', wide: true, of: (client) => client.program || 'cannot be seen'},
        {name: 'Process', kind: 'number', of: (client) => String(client.pid || '–')},
        {name: 'Calls running', kind: 'number', of: (client) => client.running.toFixed(1)},
        {name: 'Their threads', kind: 'number', of: (client) => client.threads.toFixed(1)},
        {name: 'Processors used', kind: 'number', of: (client) => client.processors.toFixed(1)},
        {name: 'Threads a call may take', kind: 'number', of: (client) => client.share.toFixed(1)},
        {name: 'Calls each second', kind: 'number', of: (client) => client.calls_per_s.toFixed(1)},
      ], load.clients, 'Programs that run compiled models, those that use most first'),
      load.clients_sharing > load.clients.length && el('p', {class: 'quiet'}, `And ${number(load.clients_sharing - load.clients.length)} more.`));
}

function missesPanel(data) {
  if (data.newest_misses.length === 0) return panel('Newest misses', empty('Every look-up so far was a hit, or there was none.'));
  return panel('Newest misses', table([
    {name: 'Function', wide: true, of: (miss) => link(miss.key, miss.function || short(miss.key))},
    {name: 'When', kind: 'fixed', of: (miss) => ago(miss.when, data.now)},
    {name: 'Reason', kind: 'fixed', of: (miss) => mark(['failed', 'damaged', 'quarantined'].includes(miss.reason) ? 'bad' : '', miss.reason.replaceAll('_', ' '))},
    {name: 'Why', of: (miss) => miss.why},
  ], data.newest_misses.slice(0, 12), 'Newest misses, with why'));
}

function tiles(data) {
  const {samples} = data;
  const recent = Math.max(0, samples.when.length - 1 - Math.max(1, Math.round(60 / samples.period_s)));
  const last = samples.when.length - 1;
  const rate = last > recent ? (samples.hits[last] + samples.misses[last] - samples.hits[recent] - samples.misses[recent]) / Math.max(1, samples.when[last] - samples.when[recent]) : 0;
  const lookups = data.hits + data.misses;
  return el('div', {class: 'tiles'},
      tile('Hit ratio', percent(data.hits, lookups), lookups === 0 ? 'no look-ups yet' : `of ${plural(lookups, 'look-up')}`),
      tile('Look-ups', `${rate < 10 ? rate.toFixed(1) : number(Math.round(rate))} /s`, 'in the last minute'),
      tile('Flights', number(data.flights), `${number(data.compiles_pending)} pending, ${plural(data.workers, 'worker')}`),
      tile('Compiles', number(data.compiles), data.compiles === 0 ? 'none yet' : data.compile_failures ? `${number(data.compile_failures)} failed` : data.compile_s > 0 ? `${duration(data.compile_s / data.compiles)} each` : 'none failed', data.compile_failures ? 'warn' : ''),
      tile('Entries', number(data.store.entries), bytes(data.store.bytes)),
      tile('Memory', bytes(data.resident_bytes), `${plural(data.open_artifacts, 'artifact')} open`));
}

function overviewPage(signal) {
  const places = {};
  const page = ['tiles', 'charts', 'flights', 'cluster', 'load', 'misses', 'store'].map((name) => places[name] = el('div'));
  let drawn = false;
  const shown = {};
  // Only what has changed is made anew, and nothing that somebody reads with the pointer or the keys.
  const put = (name, content, said) => {
    if (shown[name] === said) return;
    if (places[name].matches(':focus-within') || (drawn && name === 'charts' && places[name].matches(':hover'))) return;
    shown[name] = said;
    places[name].replaceChildren(content);
  };
  const update = async () => {
    const data = await ask('overview', {}, signal);
    if (!drawn) main.replaceChildren(el('h1', {class: 'skip'}, 'Overview'), places.tiles, places.charts, el('div', {class: 'two'}, places.flights, places.cluster), places.load, places.misses, places.store);
    const without = JSON.stringify;
    put('tiles', tiles(data), without([data.hits, data.misses, data.flights, data.compiles, data.resident_bytes, data.store, data.samples.when.at(-1)]));
    put('charts', panel('Hit ratio', ratioChart(data.samples), lookupChart(data.samples)), without(data.samples));
    put('flights', flightsPanel(data), without(data.oldest_flights));
    put('cluster', clusterPanel(data), without([data.cluster, data.oldest_flights.map((one) => one.lease)]));
    put('load', loadPanel(data.load), without(data.load));
    put('misses', missesPanel(data), without([data.newest_misses, Math.floor(data.now / 30)]));
    put('store', storePanel(data.store), without(data.store));
    drawn = true;
    tellState(data);
  };
  return {update, every: kRefreshMs};
}

// --- Entries.
const kColumns = [
  {name: 'Function', by: 'function', wide: true, of: (entry) => link(entry.key, entry.function)},
  {name: 'Key', by: 'key', kind: 'key', of: (entry) => short(entry.key)},
  {name: 'State', by: 'state', kind: 'fixed', of: (entry) => stateOf(entry)},
  {name: 'Variants', by: 'variants', kind: 'number', of: (entry) => number(entry.variants)},
  {name: 'Size', by: 'bytes', kind: 'number', of: (entry) => bytes(entry.bytes)},
  {name: 'Hits', by: 'hits', kind: 'number', of: (entry) => number(entry.hits)},
  {name: 'Compiled in', by: 'compile_s', kind: 'number', of: (entry) => entry.compile_s ? duration(entry.compile_s) : '–'},
  {name: 'Made', by: 'created', kind: 'fixed', of: (entry) => ago(entry.created, nowOf())},
  {name: 'Last used', by: 'last_use', kind: 'fixed', of: (entry) => ago(entry.last_use, nowOf())},
];
const nowOf = () => Date.now() / 1000;
function stateOf(entry) {
  if (entry.failed) return mark('bad', 'failed');
  if (entry.variants === 0) return mark('', 'in parts');
  return entry.pinned ? mark('good', 'pinned') : mark('good', 'served');
}
const sortOf = {function: (e) => e.function.toLowerCase(), state: (e) => e.failed ? 0 : e.pinned ? 2 : 1};

function entriesPage(signal, fields) {
  const search = fields.get('q') ?? '';
  const sort = fields.get('sort') ?? '-last_use';
  const after = fields.get('after') ?? '';
  const rows = fields.get('rows') ?? '';
  const address = (change) => {
    const next = new URLSearchParams(Object.entries({q: search, sort, after, rows, ...change}).filter(([, value]) => value));
    return `#/entries${next.size ? '?' + next : ''}`;
  };
  const isKey = /^[0-9a-f]{4,32}$/.test(search);
  const input = el('input', {id: 'q', type: 'search', value: search, autocomplete: 'off', spellcheck: 'false', placeholder: 'part of a name, or 4 or more digits of a key'});
  const form = el('form', {class: 'search', role: 'search', onsubmit: (event) => { event.preventDefault(); location.hash = address({q: input.value.trim(), after: ''}); }},
      el('div', {class: 'field'}, el('label', {for: 'q'}, 'Function or key'), input), el('button', {}, 'Search'),
      search && el('a', {class: 'button', href: address({q: '', after: ''})}, 'Show all'));
  const result = el('div', {class: 'panel'}, empty('Reading the entries.'));
  main.replaceChildren(el('h1', {}, 'Entries'), form, result);
  const heads = kColumns.map((column) => {
    const is = sort.replace('-', '') === column.by, down = sort.startsWith('-');
    const other = is ? (down ? column.by : '-' + column.by) : (['function', 'key', 'state'].includes(column.by) ? '' : '-') + column.by;
    return el('th', {scope: 'col', class: column.kind, 'aria-sort': is ? (down ? 'descending' : 'ascending') : null},
              el('button', {type: 'button', id: `sort-${column.by}`, onclick: () => { location.hash = address({sort: other}); }}, column.name));
  });
  const update = async () => {
    let data = await ask('entries', {[isKey ? 'key' : 'function']: search, after, limit: rows || kPageRows}, signal);
    // A name may be digits too.
    if (isKey && data.entries.length === 0 && !after) data = await ask('entries', {function: search, limit: rows || kPageRows}, signal);
    const by = sort.replace('-', ''), value = sortOf[by] ?? ((entry) => entry[by]), sign = sort.startsWith('-') ? -1 : 1;
    data.entries.sort((a, b) => { const x = value(a), y = value(b); return sign * (x < y ? -1 : x > y ? 1 : 0); });
    if (data.entries.length === 0) {
      result.replaceChildren(empty(search ? `No entry has “${search}” in its name${isKey ? ' or at the start of its key' : ''}.`
          : after ? 'There are no more entries.' : 'Nothing is stored yet. The first compiled call of a program makes an entry.'));
      return;
    }
    const more = data.next;
    const note = more || after ? `${plural(data.entries.length, 'entry', 'entries')} of this page; pages follow the keys, sorting stays within one.` : plural(data.entries.length, 'entry', 'entries');
    result.replaceChildren(table(kColumns.map((column, i) => ({...column, head: heads[i]})), data.entries, 'Entries'),
        el('div', {class: 'row'}, el('span', {class: 'quiet'}, note),
           el('span', {class: 'tools'}, after && el('a', {class: 'button', href: address({after: ''})}, 'First page'), more && el('a', {class: 'button', href: address({after: more})}, 'Next page'))));
  };
  return {update};
}

// --- One entry.
// Only shapes and texts of what graphviz drew come into the page: no links, no scripts, no styles.
function cleanSvg(text) {
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  const elements = new Set(['svg', 'g', 'title', 'polygon', 'polyline', 'path', 'ellipse', 'text']);
  const attributes = new Set(['class', 'd', 'points', 'cx', 'cy', 'rx', 'ry', 'x', 'y', 'transform', 'viewBox', 'width', 'height', 'text-anchor', 'font-size', 'fill', 'stroke']);
  const copy = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    // What has a tooltip stands in a link that leads nowhere.
    const isLink = node.localName === 'a';
    if (!isLink && !elements.has(node.localName)) return null;
    const out = document.createElementNS(kSvg, isLink ? 'g' : node.localName);
    if (isLink) out.append(shape('title', {}, node.getAttribute('xlink:title') ?? ''));
    for (const attribute of node.attributes) if (attributes.has(attribute.name)) out.setAttribute(attribute.name, attribute.value);
    for (const child of node.childNodes) { const made = copy(child); if (made) out.append(made); }
    return out;
  };
  return parsed.localName === 'svg' ? copy(parsed) : null;
}

function pictureOf(graph, signal) {
  const frame = el('div', {class: 'picture', tabindex: 0, role: 'group', 'aria-label': 'The graph; scroll to see all of it'}, empty('Drawing the graph.'));
  const tools = el('span', {class: 'tools'});
  const place = el('div', {}, el('div', {class: 'row'}, el('p', {class: 'legend'},
      el('span', {}, el('i', {class: 'swatch kernel'}), 'fused into one kernel'), el('span', {}, el('i', {class: 'swatch op'}), 'operator in a kernel'), el('span', {}, el('i', {class: 'swatch aten'}), 'left to PyTorch')), tools), frame);
  ask('picture', {graph}, signal).then((data) => {
    const text = el('details', {}, el('summary', {}, 'Text for graphviz'), el('pre', {tabindex: 0}, data.dot));
    const svg = data.svg && cleanSvg(data.svg);
    if (!svg) {
      frame.replaceWith(el('p', {class: 'warn'}, `No picture: ${data.why || 'what was drawn is no SVG'}.`), text);
      text.open = true;
      return;
    }
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', 'Graph of the operators; the text below says the same');
    svg.classList.add('fit');
    const natural = parseFloat(svg.getAttribute('width')) * 4 / 3;
    svg.removeAttribute('height');
    svg.setAttribute('width', natural);
    tools.append(...[['Fit', () => { svg.classList.add('fit'); svg.setAttribute('width', natural); }],
                     ['Larger', () => { svg.classList.remove('fit'); svg.setAttribute('width', 1.3 * svg.clientWidth); }],
                     ['Smaller', () => { svg.classList.remove('fit'); svg.setAttribute('width', svg.clientWidth / 1.3); }]]
        .map(([name, act]) => el('button', {class: 'small', type: 'button', onclick: act}, name)));
    frame.replaceChildren(svg);
    place.append(text);
  }).catch((error) => {
    if (signal.aborted) return;
    if (!(error instanceof Trouble)) throw error;
    frame.replaceChildren(el('p', {class: 'warn'}, error.message));
  });
  return place;
}

function provenanceFacts(variant) {
  const made = variant.provenance;
  if (!made) return el('p', {class: 'bad'}, `Its artifact cannot be read: ${variant.trouble ?? 'no reason was given'}`);
  return facts([
    ['Kernels', number(made.kernels)], ['Fused operators', made.nodes ? `${number(made.fused_nodes)} of ${number(made.nodes)}` : null],
    ['Steps', `${number(made.native_steps)} native, ${number(made.aten_steps)} ATen, ${number(made.copy_steps)} copies, ${number(made.guard_steps)} guards`],
    ['Native share of time', made.native_share === undefined ? null : percent(made.native_share, 1)],
    ['Code', bytes(made.code_bytes)], ['Constants', bytes(made.constant_bytes)],
    ['Arena', made.arena_bytes ? bytes(made.arena_bytes) : null], ['Target', made.target], ['Compiler', made.compiler?.split('; passes')[0]],
  ]);
}

function variantPanel(variant, i, count, now, signal) {
  const drawing = el('div');
  const show = () => drawing.replaceChildren(pictureOf(variant.graph, signal));
  // Drawing takes the machine; the newest is what one comes for.
  if (i === count - 1) show();
  else drawing.append(el('button', {type: 'button', onclick: show}, 'Draw the graph'));
  const sizes = variant.proven.length === 0 ? '' : `${plural(variant.proven.length, 'size')}: ${variant.proven.slice(0, 8).map((one) => one.join('×')).join(', ')}${variant.proven.length > 8 ? ', …' : ''}`;
  return panel(count === 1 ? 'Variant' : `Variant ${i + 1} of ${count}`,
      facts([['Kind', variant.kind], ['Graph', el('span', {class: 'key'}, variant.graph)], ['Artifact', el('span', {class: 'key'}, variant.artifact)],
             ['Size', bytes(variant.artifact_bytes)], ['Compiled in', duration(variant.compile_s)], ['Made', ago(variant.created, now)],
             ['Proven', sizes], ['Range', variant.range], ['Fixed sizes', variant.fixed?.length ? String(variant.fixed) : '']]),
      el('h3', {}, 'Graph'), drawing,
      el('h3', {}, 'How it was made'), provenanceFacts(variant),
      el('details', {}, el('summary', {}, `Dependencies (${variant.dependencies.length})`),
         variant.dependencies.length === 0 ? empty('It depends on nothing outside its inputs.') : table([
           {name: 'Where', of: (one) => el('code', {}, one.where)}, {name: 'Kind', kind: 'fixed', of: (one) => one.kind},
           {name: 'What must hold', of: (one) => one.words}], variant.dependencies, 'Dependencies')));
}

function entryPage(signal, fields, key) {
  main.replaceChildren(empty('Reading the entry.'));
  const update = async () => {
    const [entry, why] = await Promise.all([ask('entry', {key}, signal).catch((error) => error), ask('why-miss', {key}, signal).catch((error) => error)]);
    if (!entry.key) {
      if (!(entry instanceof Trouble)) throw entry;
      // One that was evicted, or that missed and was never stored, still has its reason.
      main.replaceChildren(el('h1', {}, `No entry ${short(key)}`), panel('Why', el('p', {}, why.why ?? entry.message)), el('p', {}, el('a', {href: '#/entries'}, 'All entries')));
      return;
    }
    const now = nowOf();
    main.replaceChildren(
        el('div', {}, el('p', {class: 'quiet'}, el('a', {href: '#/entries'}, 'Entries')), el('h1', {}, entry.function), el('p', {class: 'key quiet'}, entry.key)),
        panel('Summary', facts([['State', stateOf(entry)], ['Hits', number(entry.hits)], ['Size', bytes(entry.bytes)], ['Compiled in', duration(entry.compile_s)],
          ['Made', ago(entry.created, now)], ['Last used', ago(entry.last_use, now)], ['Rank', entry.rank], ['Target', entry.target],
          ['Failure', entry.failure?.text], ['Rejected', entry.rejection && `${entry.rejection.why}`], ['In parts', entry.in_parts]])),
        panel('Why', why instanceof Error ? empty(why.message) : [
          el('p', {}, mark(why.reason === 'stored' ? 'good' : 'warn', why.reason.replaceAll('_', ' ')), ' ', why.why),
          why.nearest && facts([['Nearest relative', link(why.nearest, short(why.nearest))], ['Differs in', [why.component, why.item].filter(Boolean).join(': ')],
            ['Stored', el('code', {}, why.stored)], ['Asked', el('code', {}, why.asked)], ['Graphs', why.graph?.text]])]),
        ...entry.variants.map((variant, i) => variantPanel(variant, i, entry.variants.length, now, signal)).reverse(),
        panel('Key', el('p', {class: 'quiet'}, 'What the key is made of: an entry serves a call in which all of it is equal.'),
          entry.components.map((component) => el('details', {}, el('summary', {}, `${component.name} (${component.items.length})`),
            table([{name: 'Item', of: (item) => el('code', {}, item.name)}, {name: 'Value', of: (item) => item.text || '–'}, {name: 'Digest', kind: 'key', of: (item) => short(item.digest)}],
                  component.items, component.name)))));
  };
  return {update};
}

// --- Doctor.
function doctorPage(signal) {
  main.replaceChildren(el('h1', {}, 'Doctor'), el('div', {class: 'panel'}, empty('Looking at everything. With many entries this takes a while.')));
  const update = async () => {
    const data = await ask('doctor', {}, signal);
    main.replaceChildren(el('h1', {}, data.ok ? 'All is well' : 'Something is wrong'), el('div', {class: 'panel'}, table([
      {name: 'Check', wide: true, of: (check) => check.check}, {name: 'State', kind: 'fixed', of: (check) => mark(check.ok ? 'good' : 'bad', check.ok ? 'good' : 'look here')},
      {name: 'Found', of: (check) => check.text}], data.checks, 'Checks')));
  };
  return {update};
}

// --- Which page.
const state = document.getElementById('state');
function tellState(data) {
  state.className = 'state';
  state.textContent = `${data.place.replace(/.*\/(?=[^/]+\/[^/]+$)/, '')} · pid ${data.pid} · up ${duration(data.uptime_s)} · ${plural(data.clients, 'client')}`;
  state.title = `${data.place}, Ingot ${data.version}, build ${data.build}`;
}
function tellTrouble(text) {
  state.className = 'state bad';
  state.textContent = text;
}

let current = new AbortController();
let timer = 0;
async function show() {
  current.abort();
  clearTimeout(timer);
  const mine = current = new AbortController();
  const [path, query] = location.hash.slice(1).split('?');
  const fields = new URLSearchParams(query ?? '');
  const entry = /^\/entry\/([0-9a-f]+)$/.exec(path);
  const name = entry ? 'entries' : path === '/entries' ? 'entries' : path === '/doctor' ? 'doctor' : 'overview';
  for (const one of document.querySelectorAll('nav a')) {
    if (one.dataset.page === name) one.setAttribute('aria-current', 'page'); else one.removeAttribute('aria-current');
  }
  document.title = `Ingot: ${entry ? 'entry ' + short(entry[1]) : name}`;
  const page = entry ? entryPage(mine.signal, fields, entry[1]) : {entries: entriesPage, doctor: doctorPage, overview: overviewPage}[name](mine.signal, fields);
  let first = true;
  const run = async () => {
    clearTimeout(timer);
    try {
      if (!document.hidden || first) await page.update();
      if (first && name !== 'overview') ask('overview', {}, mine.signal).then(tellState).catch(() => {});
      first = false;
    } catch (error) {
      if (mine.signal.aborted) return;
      if (!(error instanceof Trouble)) throw error;
      tellTrouble(error.message);
      if (first) main.replaceChildren(panel('No answer', el('p', {}, error.message)));
    }
    if (page.every && !mine.signal.aborted) timer = setTimeout(run, page.every);
  };
  await run();
  main.dataset.ready = name;
}
addEventListener('hashchange', () => { show(); scrollTo(0, 0); });
show();
