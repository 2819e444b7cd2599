// What the loss of each cluster, zone, region or provider does, the worst first, and where everything would run without it.
import { countWord, createElement, replaceChildren } from './dom.js';
import { pathOf } from './model.js';

/** Rows that are shown before a button. */
const SHOWN_LOSSES = 10;

/** Objects that a row names. */
const SHOWN_NAMES = 3;

/**
 * What the page of the losses does with a row.
 * @typedef {{show: (loss: UnitLoss|undefined) => void, openItem: (item: import('./data.js').Item) => void}} LossActions
 */
/** @typedef {import('./data.js').UnitLoss} UnitLoss */

/**
 * The data of a page on which a unit is lost: now, and without it.
 * @param {import('./data.js').PageDocument} data
 * @param {UnitLoss} loss
 * @returns {import('./data.js').PageDocument}
 */
export function applyLoss(data, loss) {
  const placements = new Map(loss.placements);
  const [nowhere, unschedulable, clusters] = [loss.nowhere, loss.unschedulable, loss.clusters].map((numbers) => new Set(numbers));
  const remaining = data.clusterLists.map((list) => countReplicas(list.filter(([cluster]) => !clusters.has(cluster))));
  const running = data.clusterLists.map(countReplicas);
  const objects = data.objects.map((row, at) => {
    const after = placements.get(at) ?? row.after;
    /** @type {string[]} */
    const flags = [];
    if (nowhere.has(at)) flags.push('runsNowhere');
    else if (row.after !== undefined && after !== undefined && remaining[after] < running[row.after]) flags.push('lost');
    if (unschedulable.has(at) && !nowhere.has(at)) flags.push('doesNotFit');
    if (placements.has(at)) flags.push('moves');
    const policy = row.policy && { from: row.policy.to, to: row.policy.to };
    return { ...row, policy, before: row.after, after, flags };
  });
  return { ...data, objects, scenario: { lost: loss.clusters, timeline: [], losses: [], capacity: [] } };
}

/** @param {[number, number|null][]} list */
function countReplicas(list) {
  return list.reduce((sum, [, replicas]) => sum + (replicas || 0), 0);
}

/**
 * Draws a row per unit. Each can be shown in the matrix.
 * @param {import('./data.js').Model} model the objects now
 * @param {HTMLElement} root
 * @param {UnitLoss|undefined} shown the one that the matrix shows
 * @param {LossActions} actions
 */
export function drawLosses(model, root, shown, actions) {
  const losses = model.data.losses;
  if (!losses) return;
  const unit = losses.pairs ? 'pair' : losses.each;
  const draw = (/** @type {number} */ most) => {
    const rows = losses.rows.length > most + 1 ? losses.rows.slice(0, most) : losses.rows;
    replaceChildren(
      root,
      shown
        ? createElement('p', { class: 'note' }, 'The matrix shows what happens if ', createElement('b', { text: shown.lose }), ' is lost. ', createElement('button', { type: 'button', text: 'Show what runs now', click: () => actions.show(undefined) }))
        : createElement('p', { class: 'muted', text: 'Replicas are missing where they are lost and not regained elsewhere. “Show” draws a loss in the matrix below.' }),
      createElement(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Losses as a table' },
        createElement(
          'table',
          {},
          createElement('thead', {}, createElement('tr', {}, ...[unit[0].toUpperCase() + unit.slice(1), 'In the matrix', 'Lost', 'Regained', 'Missing', 'Move', 'Do not fit', 'Least free', 'Runs nowhere'].map((text, at) => createElement('th', { scope: 'col', class: at > 1 && at < 7 ? 'number' : '', text })))),
          createElement('tbody', {}, ...rows.map((row) => createLossRow(model, row, row === shown, actions))),
        ),
      ),
      rows.length < losses.rows.length ? createElement('button', { type: 'button', text: 'Show all ' + countWord(losses.rows.length, unit), click: () => draw(Infinity) }) : null,
    );
  };
  draw(shown && losses.rows.indexOf(shown) >= SHOWN_LOSSES ? Infinity : SHOWN_LOSSES);
}

/**
 * @param {import('./data.js').Model} model
 * @param {UnitLoss} row
 * @param {boolean} isShown
 * @param {LossActions} actions
 */
function createLossRow(model, row, isShown, actions) {
  const number = (/** @type {number} */ value, /** @type {boolean} */ isBad) => createElement('td', { class: 'number' + (isBad && value > 0 ? ' bad' : ''), text: String(value) });
  const named = row.nowhere.slice(0, SHOWN_NAMES).flatMap((at, index) => {
    const item = model.items[at];
    return [index > 0 ? ', ' : '', createElement('button', { type: 'button', class: 'link', text: item.ref.kind + ' ' + pathOf(item.ref), click: () => actions.openItem(item) })];
  });
  const more = row.nowhere.length - SHOWN_NAMES;
  return createElement(
    'tr',
    {},
    createElement('th', { scope: 'row', text: row.lose }),
    createElement('td', {}, createElement('button', { type: 'button', text: 'Show', 'aria-label': 'Show the loss of ' + row.lose, 'aria-pressed': String(isShown), click: () => actions.show(isShown ? undefined : row) })),
    number(row.replicas.lost, false),
    number(row.replicas.regained, false),
    number(row.replicas.missing, true),
    number(row.placements.length, false),
    number(row.unschedulable.length, true),
    createElement('td', { text: row.tightest ? row.tightest.cluster + ' ' + row.tightest.resource + ' ' + row.tightest.percent + ' %' : '–' }),
    createElement('td', { class: 'wide' }, ...(named.length > 0 ? [createElement('b', { class: 'bad', text: '✕ ' + row.nowhere.length + ' ' }), ...named] : ['–']), more > 0 ? ' and ' + more + ' more' : ''),
  );
}
