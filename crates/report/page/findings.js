// Errors and warnings: new ones, and those that are resolved.
import { countWord, createElement, replaceChildren } from './dom.js';
import { Model } from './data.js';
import { pathOf } from './model.js';

/** Rows of one code that are shown before a button. */
const SHOWN_FINDINGS = 20;

/**
 * @param {Model} model
 * @param {HTMLElement} root
 * @param {(item: import('./data.js').Item) => void} openItem
 */
export function drawFindings(model, root, openItem) {
  const { findings, resolved } = model.data;
  if (findings.length === 0 && resolved.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: model.isDiff ? 'No finding is new, and none is resolved.' : 'No findings.' }));
    return;
  }
  replaceChildren(
    root,
    ...groupByCode(findings).map((group) => createGroup(model, group, openItem)),
    resolved.length > 0
      ? createElement('details', {}, createElement('summary', { text: countWord(resolved.length, 'finding') + ' resolved' }), createElement('ul', { class: 'list' }, ...resolved.slice(0, 200).map((row) => createFinding(model, row, openItem))))
      : null,
  );
}

/** @param {import('./data.js').FindingRow[]} rows */
function groupByCode(rows) {
  /** @type {Map<string, import('./data.js').FindingRow[]>} */
  const groups = new Map();
  for (const row of rows) {
    const key = row.severity + ' ' + row.code;
    const known = groups.get(key);
    if (known) known.push(row);
    else groups.set(key, [row]);
  }
  return [...groups.values()].sort((a, b) => (a[0].severity === b[0].severity ? b.length - a.length : a[0].severity === 'error' ? -1 : 1));
}

/**
 * @param {Model} model
 * @param {import('./data.js').FindingRow[]} rows
 * @param {(item: import('./data.js').Item) => void} openItem
 */
function createGroup(model, rows, openItem) {
  const list = createElement('ul', { class: 'list' });
  const draw = (/** @type {number} */ most) => {
    replaceChildren(list, ...rows.slice(0, most).map((row) => createFinding(model, row, openItem)));
    if (rows.length > most) list.append(createElement('li', {}, createElement('button', { type: 'button', text: 'Show all ' + rows.length, click: () => draw(Infinity) })));
  };
  draw(SHOWN_FINDINGS);
  const [{ severity, code, page }] = rows;
  return createElement(
    'details',
    { open: severity === 'error' },
    createElement('summary', {}, createElement('b', { class: severity === 'error' ? 'bad' : '', text: (severity === 'error' ? '✕ error ' : '! warning ') + code }), createElement('span', { class: 'muted', text: ' ' + rows.length })),
    page.startsWith('https://') ? createElement('p', {}, createElement('a', { href: page, rel: 'noreferrer', text: 'What this means' })) : null,
    list,
  );
}

/**
 * @param {Model} model
 * @param {import('./data.js').FindingRow} row
 * @param {(item: import('./data.js').Item) => void} openItem
 */
export function createFinding(model, row, openItem) {
  const item = row.object && model.findItem(row.object.kind + '/' + pathOf(row.object));
  const place = row.file ? row.file + (row.line ? ':' + row.line : '') : '';
  return createElement(
    'li',
    {},
    place ? createElement('code', { text: place }) : null,
    ' ',
    item ? createElement('button', { type: 'button', class: 'link', text: item.ref.kind + ' ' + pathOf(item.ref), click: () => openItem(item) }) : null,
    ' ' + row.message,
    row.help ? createElement('span', { class: 'muted', text: ' ' + row.help }) : null,
  );
}
