// Fields with two values, grouped by field and by what their difference looks like.
import { countWord, createElement, replaceChildren } from './dom.js';
import { pathOf, valueText } from './model.js';

/** Rows that a pattern shows before a button. */
const SHOWN_VALUES = 200;

/** A pattern with less than this part of the largest of its field is odd. */
const ODD_PART = 10;

/** Pairs of values that stand beside a field, and the characters that the two values of one may have. */
const SHOWN_PAIRS = 3;
const PAIR_CHARACTERS = 48;

/** Patterns that are shown before a button. */
const SHOWN_PATTERNS = 50;

/** @typedef {import('./model.js').ValueRow} ValueRow */
/** @typedef {{field: string, before: string, after: string, rows: ValueRow[], odd: number}} ValuePattern */

/**
 * The patterns of values: for each field the rare ones first.
 * @param {ValueRow[]} rows
 * @returns {ValuePattern[]}
 */
function findPatterns(rows) {
  /** @type {Map<string, Map<string, ValuePattern>>} */
  const fields = new Map();
  for (const row of rows) {
    const { before, after } = getPattern(row);
    const key = before + '\u0000' + after;
    const patterns = fields.get(row.field) || new Map();
    fields.set(row.field, patterns);
    const known = patterns.get(key);
    if (known) known.rows.push(row);
    else patterns.set(key, { field: row.field, before, after, rows: [row], odd: 0 });
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
 * What the values of a row have in common with others; it is worked out once.
 * @param {ValueRow} row
 */
function getPattern(row) {
  const name = row.item.ref.name;
  return (row.pattern = row.pattern || { before: describeValue(row.from, name), after: describeValue(row.to, name) });
}

/**
 * A value without what is expected to differ: the name of its object, numbers, and digests.
 * @param {any} value
 * @param {string} name
 */
function describeValue(value, name) {
  const text = valueText(value);
  const named = name.length > 1 ? text.split(name).join('‹name›') : text;
  return named.replace(/\b(?=[a-f]*\d)[\da-f]{12,}\b|v?\d+(\.\d+)*/g, '#');
}

/**
 * @param {HTMLElement} root
 * @param {ValueRow[]} rows
 * @param {[string, string]} sides what the two values are
 * @param {string} none what is said if there are no rows
 * @param {(item: any) => void} openItem
 */
export function drawValues(root, rows, sides, none, openItem) {
  const patterns = findPatterns(rows);
  if (patterns.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: none }));
    return;
  }
  patterns.sort((a, b) => Number(b.odd > 0) - Number(a.odd > 0));
  drawPatterns(root, patterns, sides, openItem, SHOWN_PATTERNS);
}

/**
 * @param {HTMLElement} root
 * @param {ValuePattern[]} patterns
 * @param {[string, string]} sides
 * @param {(item: any) => void} openItem
 * @param {number} most
 */
function drawPatterns(root, patterns, sides, openItem, most) {
  const shown = patterns.slice(0, most);
  replaceChildren(
    root,
    ...shown.map((pattern) => createPattern(pattern, sides, openItem)),
    shown.length < patterns.length ? createElement('button', { type: 'button', text: 'Show all ' + patterns.length + ' changes', click: () => drawPatterns(root, patterns, sides, openItem, Infinity) }) : null,
  );
}

/**
 * @param {ValuePattern} pattern
 * @param {[string, string]} sides
 * @param {(item: any) => void} openItem
 */
function createPattern(pattern, sides, openItem) {
  const pairs = listPairs(pattern);
  const body = createElement('div', { class: 'scroll' });
  const details = createElement(
    'details',
    {
      class: 'pattern',
      toggle: () => {
        if (body.childElementCount === 0) drawPatternRows(body, pattern, sides, openItem, SHOWN_VALUES);
      },
    },
    createElement(
      'summary',
      {},
      createElement('code', { text: pattern.field }),
      ...pairs.shown.map(([before, after]) => createElement('span', { class: 'pair' }, createElement('del', { text: shorten(before) }), ' → ', createElement('ins', { text: shorten(after) }))),
      pairs.more > 0 ? createElement('span', { class: 'muted', text: 'and ' + countWord(pairs.more, 'other pair') }) : null,
      createElement('span', { class: 'muted', text: countWord(new Set(pattern.rows.map((row) => row.item)).size, 'object') }),
      pattern.odd > 0 ? createElement('b', { class: 'bad', text: '! differs from ' + countWord(pattern.odd, 'other') }) : null,
    ),
    body,
  );
  return details;
}

/**
 * The most frequent pairs of values of a pattern; the pattern itself, where they are too long to stand side by side.
 * @param {ValuePattern} pattern
 * @returns {{shown: [string, string][], more: number}}
 */
function listPairs(pattern) {
  /** @type {Map<string, {pair: [string, string], number: number}>} */
  const pairs = new Map();
  for (const row of pattern.rows) {
    /** @type {[string, string]} */
    const pair = [valueText(row.from), valueText(row.to)];
    const key = pair.join('\u0000');
    const known = pairs.get(key);
    if (known) known.number += 1;
    else pairs.set(key, { pair, number: 1 });
  }
  const shown = [...pairs.values()].sort((a, b) => b.number - a.number).slice(0, SHOWN_PAIRS).map(({ pair }) => pair);
  if (pairs.size > 1 && shown.some(([from, to]) => from.length + to.length > PAIR_CHARACTERS)) return { shown: [[pattern.before, pattern.after]], more: 0 };
  return { shown, more: pairs.size - shown.length };
}

/**
 * @param {HTMLElement} body
 * @param {ValuePattern} pattern
 * @param {[string, string]} sides
 * @param {(item: any) => void} openItem
 * @param {number} most
 */
function drawPatternRows(body, pattern, sides, openItem, most) {
  const hasWho = pattern.rows.some((row) => row.who !== undefined);
  const rows = pattern.rows.slice(0, most).map((row) =>
    createElement(
      'tr',
      {},
      createElement('th', { scope: 'row' }, createElement('button', { type: 'button', class: 'link', text: row.item.ref.kind + ' ' + pathOf(row.item.ref), click: () => openItem(row.item) })),
      createElement('td', { text: listClusters(row.clusters) }),
      createElement('td', {}, createElement('del', { text: valueText(row.from) })),
      createElement('td', {}, createElement('ins', { text: valueText(row.to) })),
      hasWho ? createElement('td', { text: row.who || '' }) : null,
    ),
  );
  const more = pattern.rows.length - rows.length;
  const heads = ['Object', 'Clusters', ...sides, ...(hasWho ? ['Changed by'] : [])];
  replaceChildren(
    body,
    createElement('table', {}, createElement('thead', {}, createElement('tr', {}, ...heads.map((text) => createElement('th', { scope: 'col', text })))), createElement('tbody', {}, ...rows)),
    more > 0 ? createElement('button', { type: 'button', text: 'Show all ' + pattern.rows.length, click: () => drawPatternRows(body, pattern, sides, openItem, Infinity) }) : null,
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
