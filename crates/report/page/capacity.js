// What is free in each cluster before and after.
import { createElement, replaceChildren } from './dom.js';
import { Model } from './data.js';

/** Rows that are shown before a button. */
const SHOWN_CLUSTERS = 10;

/**
 * The number of a quantity of Kubernetes, in the resource's unit.
 * @param {string|undefined} text
 * @returns {number|undefined}
 */
export function parseQuantity(text) {
  if (text === undefined || text === null) return undefined;
  const found = /^(-?[\d.]+(?:e[+-]?\d+)?)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)?$/.exec(String(text));
  if (!found) return undefined;
  const units = /** @type {Object<string, number>} */ ({ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60, n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 });
  return Number(found[1]) * (found[2] ? units[found[2]] : 1);
}

/**
 * An amount in a unit that reads well.
 * @param {string} resource
 * @param {number} amount
 */
export function formatAmount(resource, amount) {
  const isBytes = resource === 'memory' || resource.includes('storage');
  if (isBytes) {
    const steps = /** @type {[string, number][]} */ ([['Ti', 2 ** 40], ['Gi', 2 ** 30], ['Mi', 2 ** 20], ['Ki', 2 ** 10]]);
    for (const [unit, size] of steps) {
      if (Math.abs(amount) >= size) return trimNumber(amount / size) + ' ' + unit;
    }
  }
  return trimNumber(amount);
}

/** @param {number} amount */
function trimNumber(amount) {
  return String(Math.round(amount * 100) / 100);
}

/**
 * @param {Model} model
 * @param {HTMLElement} root
 */
export function drawCapacity(model, root) {
  if (model.data.scenario) {
    drawTightest(model.data.scenario.capacity, root);
    return;
  }
  const rows = model.data.clusters.map((cluster) => {
    const resources = Object.entries(model.data.capacity[cluster.name] || {}).filter(([name]) => name !== 'pods');
    const parts = resources.map(([, change]) => {
      const [left, all] = [parseQuantity(change.leftAfter), parseQuantity(change.allocatable)];
      return left === undefined || !all ? Infinity : left / all;
    });
    return { cluster, resources, tightest: Math.min(Infinity, ...parts) };
  });
  rows.sort((a, b) => a.tightest - b.tightest || (a.cluster.name < b.cluster.name ? -1 : 1));
  const names = [...new Set(rows.flatMap((row) => row.resources.map(([name]) => name)))].sort();
  if (names.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: 'Nothing is known of what the clusters have free. `federate snapshot` records it.' }));
    return;
  }
  const draw = (/** @type {number} */ most) => {
    const shown = rows.length > most + 1 ? rows.slice(0, most) : rows;
    replaceChildren(
      root,
      createElement(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Capacity of clusters' },
        createElement(
          'table',
          {},
          createElement('thead', {}, createElement('tr', {}, ...['Cluster', 'Region', ...names].map((text) => createElement('th', { scope: 'col', text })))),
          createElement('tbody', {}, ...shown.map((row) => createCapacityRow(row, names))),
        ),
      ),
      shown.length < rows.length ? createElement('button', { type: 'button', text: 'Show all ' + rows.length + ' clusters', click: () => draw(Infinity) }) : null,
    );
  };
  draw(SHOWN_CLUSTERS);
}

/**
 * @param {{cluster: import('./data.js').PageCluster, resources: [string, import('./data.js').ResourceChange][]}} row
 * @param {string[]} names
 */
function createCapacityRow(row, names) {
  const cells = names.map((name) => {
    const found = row.resources.find(([resource]) => resource === name);
    return createElement('td', {}, ...(found ? createBar(name, found[1]) : [createElement('span', { class: 'muted', text: 'none requested' })]));
  });
  return createElement('tr', {}, createElement('th', { scope: 'row', text: row.cluster.name }), createElement('td', { text: row.cluster.region || '–' }), ...cells);
}

/**
 * A bar with its words: filled as far as the resource is used after, with a line where it was before.
 * @param {string} resource
 * @param {import('./data.js').ResourceChange} change
 * @returns {Node[]}
 */
export function createBar(resource, change) {
  const [all, left, was] = [change.allocatable, change.leftAfter, change.leftBefore].map(parseQuantity);
  if (left === undefined || !all) {
    const asked = parseQuantity(change.requestedAfter) || 0;
    return [createElement('span', { class: 'muted', text: formatAmount(resource, asked) + ' requested, not known' })];
  }
  const part = (/** @type {number} */ free) => Math.max(0, Math.min(1, 1 - free / all));
  const fill = createElement('span', { class: 'fill' + (left < 0 ? ' over' : '') });
  fill.style.width = Math.round(96 * part(left)) + 'px';
  const line = createElement('span', { class: 'line', hidden: was === undefined || was === left });
  if (was !== undefined) line.style.left = Math.round(96 * part(was)) + 'px';
  const before = was !== undefined && was !== left ? ' (was ' + formatAmount(resource, was) + ')' : '';
  const odd = left > all ? ', status inconsistent' : '';
  const text = left < 0 ? '! ' + formatAmount(resource, -left) + ' over' : formatAmount(resource, left) + ' free of ' + formatAmount(resource, all) + before + odd;
  return [createElement('span', { class: 'bar-box', 'aria-hidden': 'true' }, fill, line), createElement('span', { class: left < 0 ? 'bad' : '', text })];
}

/**
 * What is left of the tightest resource of each cluster after a scenario.
 * @param {import('./data.js').PageScenario['capacity']} capacity
 * @param {HTMLElement} root
 */
function drawTightest(capacity, root) {
  const draw = (/** @type {number} */ most) => {
    const shown = capacity.length > most + 1 ? capacity.slice(0, most) : capacity;
    const rows = shown.map((row) => {
      const fill = createElement('span', { class: 'fill' + (row.percent < 0 ? ' over' : '') });
      fill.style.width = Math.round(0.96 * Math.max(0, Math.min(100, 100 - row.percent))) + 'px';
      const text = row.percent < 0 ? '! ' + row.free + ' of ' + row.allocatable + ' left' : row.free + ' free of ' + row.allocatable;
      return createElement(
        'tr',
        {},
        createElement('th', { scope: 'row', text: row.cluster }),
        createElement('td', { text: row.resource }),
        createElement('td', {}, createElement('span', { class: 'bar-box', 'aria-hidden': 'true' }, fill), createElement('span', { class: row.percent < 0 ? 'bad' : '', text })),
      );
    });
    replaceChildren(
      root,
      createElement('p', { class: 'muted', text: 'The resource of each cluster of which least is free afterwards.' }),
      createElement(
        'div',
        { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Capacity of clusters' },
        createElement('table', {}, createElement('thead', {}, createElement('tr', {}, ...['Cluster', 'Tightest', 'Afterwards'].map((text) => createElement('th', { scope: 'col', text })))), createElement('tbody', {}, ...rows)),
      ),
      shown.length < capacity.length ? createElement('button', { type: 'button', text: 'Show all ' + capacity.length + ' clusters', click: () => draw(Infinity) }) : null,
    );
  };
  draw(SHOWN_CLUSTERS);
}
