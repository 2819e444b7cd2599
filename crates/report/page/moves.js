// How many replicas leave and arrive, by cluster or by region.
import { countWord, createDrawing, createElement, replaceChildren } from './dom.js';
import { Model } from './data.js';

/** With so many clusters, each has a line of its own; else each region. */
const FEW_PLACES = 12;

/** @typedef {{name: string, leave: number, arrive: number, objects: number}} MoveRow */

/**
 * @param {Model} model
 * @param {HTMLElement} root
 * @param {import('./data.js').Item[]} items
 */
export function drawMoves(model, root, items) {
  const few = model.data.clusters.length <= FEW_PLACES;
  const places = few ? model.data.clusters.map((cluster, at) => ({ name: cluster.name, clusters: [at] })) : model.regions;
  const placeOf = new Int32Array(model.data.clusters.length);
  places.forEach((place, at) => place.clusters.forEach((cluster) => (placeOf[cluster] = at)));
  const flows = computeFlows(model, items, placeOf, places.length);
  const rows = places.map((place, at) => ({ name: place.name, leave: flows.leave[at], arrive: flows.arrive[at], objects: flows.objects[at] }));
  const moved = rows.filter((row) => row.leave > 0 || row.arrive > 0);
  if (moved.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: flows.plain > 0 ? 'No replicas move. ' + countWord(flows.plain, 'object') + ' without replicas change clusters.' : 'No replicas move.' }));
    return;
  }
  const table = createElement(
    'table',
    {},
    createElement('thead', {}, createElement('tr', {}, ...[few ? 'Cluster' : 'Region', 'Leave', 'Arrive', 'Net', 'Objects'].map((text, at) => createElement('th', { scope: 'col', class: at > 0 ? 'number' : '', text })))),
    createElement('tbody', {}, ...moved.map((row) => createMoveRow(row))),
  );
  replaceChildren(
    root,
    createElement('p', {
      class: 'muted',
      text: 'Pairs of places are matched in proportion: what an object loses in some places is shared over those where it gains.' + (flows.plain > 0 ? ' ' + countWord(flows.plain, 'object') + ' without replicas ' + (model.lost.size > 0 ? 'lose or ' : '') + 'change clusters, too.' : ''),
    }),
    createElement('div', { class: 'two' }, drawFlows(flows, places.map((place) => place.name)), createElement('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Moves as a table' }, table)),
  );
}

/** @param {MoveRow} row */
function createMoveRow(row) {
  const net = row.arrive - row.leave;
  const sign = net > 0 ? '▲ +' + net : net < 0 ? '▼ −' + -net : '0';
  return createElement(
    'tr',
    {},
    createElement('th', { scope: 'row', text: row.name }),
    createElement('td', { class: 'number', text: String(row.leave) }),
    createElement('td', { class: 'number', text: String(row.arrive) }),
    createElement('td', { class: 'number ' + (net > 0 ? 'arrives' : net < 0 ? 'leaves' : ''), text: sign }),
    createElement('td', { class: 'number', text: String(row.objects) }),
  );
}

/**
 * What flows between places: the last row and column stand for replicas that are new or run nowhere.
 * @param {Model} model
 * @param {import('./data.js').Item[]} items
 * @param {Int32Array} placeOf
 * @param {number} places
 */
function computeFlows(model, items, placeOf, places) {
  const flows = Array.from({ length: places + 1 }, () => new Float64Array(places + 1));
  const leave = new Float64Array(places);
  const arrive = new Float64Array(places);
  const objects = new Float64Array(places);
  let plain = 0;
  for (const item of items) {
    if (item.before === item.after) continue;
    if (!item.before.divided && !item.after.divided) {
      plain += item.before.replicas.some((value, at) => value !== item.after.replicas[at]) ? 1 : 0;
      continue;
    }
    const lost = new Float64Array(places + 1);
    const gained = new Float64Array(places + 1);
    for (let cluster = 0; cluster < placeOf.length; cluster += 1) {
      const difference = Math.max(0, item.after.replicas[cluster]) - Math.max(0, item.before.replicas[cluster]);
      if (difference < 0) lost[placeOf[cluster]] -= difference;
      else gained[placeOf[cluster]] += difference;
    }
    const sum = (/** @type {Float64Array} */ list) => list.reduce((total, value) => total + value, 0);
    const [allLost, allGained] = [sum(lost), sum(gained)];
    for (let at = 0; at < places; at += 1) {
      leave[at] += lost[at];
      arrive[at] += gained[at];
      if (lost[at] > 0 || gained[at] > 0) objects[at] += 1;
    }
    const total = Math.max(allLost, allGained);
    if (total === 0) continue;
    lost[places] = total - allLost;
    gained[places] = total - allGained;
    for (let from = 0; from <= places; from += 1) {
      if (lost[from] === 0) continue;
      for (let to = 0; to <= places; to += 1) flows[from][to] += (lost[from] * gained[to]) / total;
    }
  }
  return { flows, leave, arrive, objects, plain };
}

/**
 * The flows as bands from the left to the right.
 * @param {{flows: Float64Array[]}} computed
 * @param {string[]} names
 * @returns {Node}
 */
function drawFlows(computed, names) {
  const places = names.length;
  const flows = computed.flows;
  const sum = (/** @type {(at: number) => number} */ get) => Array.from({ length: places + 1 }, (_, at) => get(at));
  const out = sum((from) => flows[from].reduce((total, value) => total + value, 0));
  const into = sum((to) => flows.reduce((total, row) => total + row[to], 0));
  const left = out.map((value, at) => ({ at, value })).filter((one) => one.value > 0);
  const right = into.map((value, at) => ({ at, value })).filter((one) => one.value > 0);
  const total = left.reduce((all, one) => all + one.value, 0);
  const gap = 10;
  const height = Math.max(120, Math.max(left.length, right.length) * 26);
  const scale = (height - gap * Math.max(left.length, right.length)) / total;
  const layout = (/** @type {{at: number, value: number}[]} */ ends) => {
    let y = 8;
    return new Map(
      ends.map((end) => {
        const box = { y, height: Math.max(2, end.value * scale), used: 0 };
        y += box.height + gap;
        return [end.at, box];
      }),
    );
  };
  const [from, to] = [layout(left), layout(right)];
  const [x0, x1, width] = [130, 330, 460];
  /** @type {Node[]} */
  const drawn = [];
  for (const [source, a] of from) {
    for (const [target, b] of to) {
      const value = flows[source][target];
      if (value === 0) continue;
      const thick = Math.max(1, value * scale);
      const [y0, y1] = [a.y + a.used + thick / 2, b.y + b.used + thick / 2];
      a.used += thick;
      b.used += thick;
      const kind = source === places ? 'new' : target === places ? 'nowhere' : source === target ? 'inside' : 'between';
      drawn.push(createDrawing('path', { class: 'flow ' + kind, d: 'M' + x0 + ' ' + y0 + 'C' + (x0 + 100) + ' ' + y0 + ' ' + (x1 - 100) + ' ' + y1 + ' ' + x1 + ' ' + y1, 'stroke-width': thick }));
    }
  }
  const label = (/** @type {number} */ at, /** @type {string} */ other) => (at === places ? other : names[at]);
  for (const [at, box] of from) {
    drawn.push(createDrawing('text', { x: x0 - 8, y: box.y + box.height / 2 + 4, 'text-anchor': 'end' }, label(at, '+ new replicas') + ' ' + Math.round(out[at])));
  }
  for (const [at, box] of to) {
    drawn.push(createDrawing('text', { x: x1 + 8, y: box.y + box.height / 2 + 4 }, Math.round(into[at]) + ' ' + label(at, 'nowhere')));
  }
  const all = Math.max(...[...from.values(), ...to.values()].map((box) => box.y + box.height)) + 4;
  return createDrawing('svg', { class: 'flows', viewBox: '0 0 ' + width + ' ' + all, width, height: all, role: 'img', 'aria-label': 'Replicas that move, from the left to the right; the table beside it has the numbers' }, ...drawn);
}
