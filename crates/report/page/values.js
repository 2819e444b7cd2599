// Every value that changes, grouped by field and by what the change looks like.
import { countWord, createElement, replaceChildren } from './dom.js';
import { Model, pathOf, valueText } from './data.js';

/** Rows that a pattern shows before a button. */
const SHOWN_VALUES = 200;

/** A pattern with less than this part of the largest of its field is odd. */
const ODD_PART = 10;

/** @typedef {{item: import('./data.js').Item, change: import('./data.js').ObjectChange, path: import('./data.js').PathChange}} ValueRow */
/** @typedef {{field: string, before: string, after: string, rows: ValueRow[], odd: number}} ValuePattern */

/**
 * The patterns of the changed values: for each field the rare ones first.
 * @param {Model} model
 * @param {import('./data.js').Item[]} items
 * @returns {ValuePattern[]}
 */
export function findPatterns(model, items) {
  /** @type {Map<string, Map<string, ValuePattern>>} */
  const fields = new Map();
  for (const item of items) {
    for (const change of model.getChanges(item)) {
      for (const path of change.paths) {
        const field = item.ref.kind + ' ' + path.path;
        const [before, after] = [path.from, path.to].map((value) => describeValue(value, item.ref.name));
        const key = before + '\u0000' + after;
        const patterns = fields.get(field) || new Map();
        fields.set(field, patterns);
        const known = patterns.get(key);
        if (known) known.rows.push({ item, change, path });
        else patterns.set(key, { field, before, after, rows: [{ item, change, path }], odd: 0 });
      }
    }
  }
  return [...fields.values()].flatMap((patterns) => {
    const sorted = [...patterns.values()].sort((a, b) => a.rows.length - b.rows.length);
    const largest = sorted[sorted.length - 1].rows.length;
    for (const pattern of sorted) {
      if (pattern.rows.length * ODD_PART <= largest) pattern.odd = largest;
    }
    return sorted;
  });
}

/**
 * A value without what is expected to differ: the name of its object, and numbers.
 * @param {any} value
 * @param {string} name
 */
function describeValue(value, name) {
  const text = valueText(value);
  const named = name.length > 1 ? text.split(name).join('‹name›') : text;
  return named.replace(/v?\d+(\.\d+)*/g, '#');
}

/**
 * @param {Model} model
 * @param {HTMLElement} root
 * @param {import('./data.js').Item[]} items
 * @param {(item: import('./data.js').Item) => void} openItem
 */
export function drawValues(model, root, items, openItem) {
  const patterns = findPatterns(model, items);
  if (patterns.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: 'No field of a manifest changes, besides replicas of placements.' }));
    return;
  }
  patterns.sort((a, b) => Number(b.odd > 0) - Number(a.odd > 0));
  replaceChildren(root, ...patterns.map((pattern) => createPattern(pattern, openItem)));
}

/**
 * @param {ValuePattern} pattern
 * @param {(item: import('./data.js').Item) => void} openItem
 */
function createPattern(pattern, openItem) {
  const first = pattern.rows[0];
  const single = pattern.rows.length === 1;
  const [before, after] = single ? [valueText(first.path.from), valueText(first.path.to)] : [pattern.before, pattern.after];
  const body = createElement('div', { class: 'scroll' });
  const details = createElement(
    'details',
    {
      class: 'pattern',
      toggle: () => {
        if (body.childElementCount === 0) drawPatternRows(body, pattern, openItem, SHOWN_VALUES);
      },
    },
    createElement(
      'summary',
      {},
      createElement('code', { text: pattern.field }),
      createElement('span', { class: 'pair' }, createElement('del', { text: shorten(before) }), ' → ', createElement('ins', { text: shorten(after) })),
      createElement('span', { class: 'muted', text: countWord(new Set(pattern.rows.map((row) => row.item)).size, 'object') }),
      pattern.odd > 0 ? createElement('b', { class: 'bad', text: '! differs from ' + countWord(pattern.odd, 'other') }) : null,
    ),
    body,
  );
  return details;
}

/**
 * @param {HTMLElement} body
 * @param {ValuePattern} pattern
 * @param {(item: import('./data.js').Item) => void} openItem
 * @param {number} most
 */
function drawPatternRows(body, pattern, openItem, most) {
  const rows = pattern.rows.slice(0, most).map((row) =>
    createElement(
      'tr',
      {},
      createElement('th', { scope: 'row' }, createElement('button', { type: 'button', class: 'link', text: row.item.ref.kind + ' ' + pathOf(row.item.ref), click: () => openItem(row.item) })),
      createElement('td', { text: listClusters(row.change.clusters) }),
      createElement('td', {}, createElement('del', { text: valueText(row.path.from) })),
      createElement('td', {}, createElement('ins', { text: valueText(row.path.to) })),
    ),
  );
  const more = pattern.rows.length - rows.length;
  replaceChildren(
    body,
    createElement(
      'table',
      {},
      createElement('thead', {}, createElement('tr', {}, ...['Object', 'Clusters', 'Before', 'After'].map((text) => createElement('th', { scope: 'col', text })))),
      createElement('tbody', {}, ...rows),
    ),
    more > 0 ? createElement('button', { type: 'button', text: 'Show all ' + pattern.rows.length, click: () => drawPatternRows(body, pattern, openItem, Infinity) }) : null,
  );
}

/**
 * The first names of clusters.
 * @param {string[]} names
 */
export function listClusters(names) {
  return names.length > 4 ? names.slice(0, 3).join(', ') + ' and ' + (names.length - 3) + ' more' : names.join(', ');
}

/** @param {string} text */
function shorten(text) {
  return text.length > 120 ? text.slice(0, 119) + '…' : text;
}
