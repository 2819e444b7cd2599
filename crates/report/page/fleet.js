// The fleet: a box per cluster, by region, with what changes there and what is used afterwards.
import { countWord, createElement, replaceChildren } from './dom.js';
import { Model } from './data.js';
import { createBar, parseQuantity } from './capacity.js';

/** With so many clusters, each is a card with words; of more, each is a square. */
const FEW_CARDS = 14;

/** @typedef {{replicas: Float64Array, objects: Float64Array}} FleetShift */

/**
 * @param {Model} model
 * @param {HTMLElement} root
 * @param {(cluster: string) => void} choose what a click on a cluster does
 */
export function drawFleet(model, root, choose) {
  const shift = computeShift(model);
  const isMap = model.data.clusters.length > FEW_CARDS;
  const regions = model.regions.map((region) => {
    const boxes = region.clusters.map((at) => createBox(model, at, shift, isMap, choose));
    const element = createElement('div', { class: 'fleet-region' }, createElement('h3', { text: region.name }), createElement('div', { class: 'boxes' }, ...boxes));
    if (!isMap) element.style.flexGrow = String(boxes.length);
    return element;
  });
  const legend = isMap ? createElement('p', { class: 'muted', text: 'The darker, the more is used afterwards. + gains, − loses, ± both; ! over; ✕ and hatched: lost or leaving.' }) : null;
  replaceChildren(root, createElement('div', { class: isMap ? 'fleet map' : 'fleet' }, ...regions), legend);
}

/**
 * How many replicas and objects each cluster gains, or has where nothing is compared.
 * @param {Model} model
 * @returns {FleetShift}
 */
function computeShift(model) {
  const { clusters, clusterLists } = model.data;
  const shift = { replicas: new Float64Array(clusters.length), objects: new Float64Array(clusters.length) };
  const add = (/** @type {number|undefined} */ list, /** @type {number} */ sign) => {
    for (const [cluster, replicas] of list === undefined ? [] : clusterLists[list]) {
      if (sign > 0 && model.lost.has(cluster)) continue;
      shift.replicas[cluster] += sign * (replicas || 0);
      shift.objects[cluster] += sign;
    }
  };
  for (const { row } of model.items) {
    if (model.isDiff) add(row.before, -1);
    add(row.after, 1);
  }
  return shift;
}

/**
 * The part of the tightest resource of a cluster that is used afterwards; `undefined` if it is not known.
 * @param {Model} model
 * @param {string} name
 */
function computeUse(model, name) {
  const used = Object.values(model.data.capacity[name] || {}).flatMap((change) => {
    const [left, all] = [change.leftAfter, change.allocatable].map(parseQuantity);
    return left === undefined || !all ? [] : [1 - left / all];
  });
  return used.length > 0 ? Math.max(...used) : undefined;
}

/**
 * @param {Model} model
 * @param {number} at
 * @param {FleetShift} shift
 * @param {boolean} isMap
 * @param {(cluster: string) => void} choose
 */
function createBox(model, at, shift, isMap, choose) {
  const { name } = model.data.clusters[at];
  const { state, words } = model.describeColumn(at);
  const use = computeUse(model, name);
  const isGone = state === 'lost' || state === 'leaves';
  const amounts = /** @type {[number, string][]} */ ([[shift.replicas[at], 'replica'], [shift.objects[at], 'object']]);
  const shown = amounts.filter(([amount]) => amount !== 0);
  const texts = shown.map(([amount, noun]) => (!model.isDiff ? '' : amount > 0 ? '+' : '−') + countWord(Math.abs(amount), noun));
  const isOver = use !== undefined && use > 1;
  const shade = isMap && use !== undefined && !isOver ? ' shade' + Math.max(1, Math.min(4, Math.ceil(use * 4))) : '';
  const properties = { type: 'button', class: 'box ' + (isGone ? 'gone' : state) + (isOver ? ' over' : '') + shade, click: () => choose(name) };
  if (isMap) {
    const title = [name, words, ...texts, use === undefined ? '' : Math.round(100 * use) + ' % used'].filter(Boolean).join(', ');
    const signs = new Set(shown.map(([amount]) => (amount > 0 ? '+' : '−')));
    const sign = isGone ? '✕' : isOver ? '!' : !model.isDiff ? '' : signs.size > 1 ? '±' : [...signs].join('');
    return createElement('button', { ...properties, 'aria-label': title, title, text: sign });
  }
  const tags = shown.map(([amount], index) => createElement('span', { class: 'chip ' + (!model.isDiff ? '' : amount > 0 ? 'more' : 'fewer'), text: texts[index] }));
  const bars = Object.entries(model.data.capacity[name] || {})
    .filter(([resource]) => resource !== 'pods')
    .map(([resource, change]) => createElement('span', { class: 'use' }, createElement('span', { class: 'muted', text: resource }), ...createBar(resource, change)));
  return createElement(
    'button',
    properties,
    createElement('span', { class: 'box-head' }, createElement('b', { text: name }), createElement('span', { text: words })),
    createElement('span', { class: 'flags' }, ...(tags.length > 0 ? tags : [createElement('span', { class: 'muted', text: model.isDiff ? 'unchanged' : 'empty' })])),
    ...bars,
  );
}
