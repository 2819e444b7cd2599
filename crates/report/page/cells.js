// What a cell of the matrix says, in words and as a drawing: an object in one cluster, or in the clusters of a region.
import { createDrawing, countWord } from './dom.js';
import { CellView } from './model.js';
import { Model, NOT_THERE, PLACED } from './data.js';
import { TICK } from './matrix.js';

/** @typedef {'none'|'same'|'more'|'fewer'|'new'|'gone'} CellState */

/**
 * What happens to an object in a cluster.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number} cluster
 * @returns {CellState}
 */
export function getCellState(model, item, cluster) {
  const after = item.after.replicas[cluster];
  const before = model.isDiff ? item.before.replicas[cluster] : after;
  if (before === NOT_THERE) return after === NOT_THERE ? 'none' : 'new';
  if (after === NOT_THERE) return 'gone';
  if (after === before) return 'same';
  return after > before ? 'more' : 'fewer';
}

/**
 * A cell in a word or two, as it is shown.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number} cluster
 * @returns {string}
 */
export function getCellText(model, item, cluster) {
  const before = item.before.replicas[cluster];
  const after = item.after.replicas[cluster];
  switch (getCellState(model, item, cluster)) {
    case 'none':
      return '·';
    case 'same':
      return after === PLACED ? '●' : String(after);
    case 'new':
      return after === PLACED ? '+ new' : '+ ' + after + ' new';
    case 'gone':
      return (before === PLACED ? '✕' : '✕ ' + before) + (model.lost.has(cluster) ? ' lost' : ' gone');
    case 'more':
      return '▲ ' + number(before) + ' → ' + number(after);
    default:
      return '▼ ' + number(before) + ' → ' + number(after);
  }
}

/** @param {number} replicas */
function number(replicas) {
  return replicas === PLACED ? '●' : String(replicas);
}

/**
 * A cell as a sentence, for those who hear it.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number} cluster
 * @returns {string}
 */
export function getCellSentence(model, item, cluster) {
  const name = model.data.clusters[cluster].name;
  const words = (/** @type {number} */ replicas) => (replicas === PLACED ? 'placed' : countWord(replicas, 'replica'));
  const before = item.before.replicas[cluster];
  const after = item.after.replicas[cluster];
  switch (getCellState(model, item, cluster)) {
    case 'none':
      return name + ': not there';
    case 'same':
      return name + ': ' + words(after);
    case 'new':
      return name + ': new, ' + words(after);
    case 'gone':
      return name + (model.lost.has(cluster) ? ': lost, ' : ': gone, ') + words(before) + ' before';
    default:
      return name + ': ' + words(before) + ' before, ' + words(after) + ' now';
  }
}

/** The shade of a number of replicas. @param {number} replicas */
export function getShade(replicas) {
  if (replicas === PLACED || replicas <= 0) return 0;
  return replicas < 4 ? 1 : replicas < 12 ? 2 : replicas < 40 ? 3 : 4;
}

const TICK_HEIGHT = 16;

/**
 * One tick per cluster: a bar where nothing changes, with its height by the logarithm of the replicas; full where the object
 * is new; hollow with a stroke where it is gone; with a mark where it has more or fewer.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number[]} clusters
 * @returns {SVGElement}
 */
export function drawStrip(model, item, clusters) {
  /** @type {Object<string, string>} */
  const paths = {};
  const add = (/** @type {string} */ state, /** @type {string} */ path) => {
    paths[state] = (paths[state] || '') + path;
  };
  clusters.forEach((cluster, at) => {
    const x = at * TICK + 0.5;
    const state = getCellState(model, item, cluster);
    const replicas = item.after.replicas[cluster];
    const height = replicas <= 0 ? 3 : Math.min(11, 3 + Math.round(2 * Math.log2(replicas)));
    const bar = 'M' + x + ' ' + (TICK_HEIGHT - 1) + 'v-' + height + 'h4v' + height + 'z';
    if (state === 'none') add('none', 'M' + x + ' ' + (TICK_HEIGHT - 0.5) + 'h4');
    else if (state === 'same') add('same', bar);
    else if (state === 'new') add('new', 'M' + x + ' ' + (TICK_HEIGHT - 1) + 'v-13h4v13z');
    else if (state === 'gone') add('gone', 'M' + x + ' ' + (TICK_HEIGHT - 1) + 'v-13h4v13zl4 -13');
    else if (state === 'more') {
      add('same', bar);
      add('more', 'M' + x + ' 4l2 -3.5l2 3.5z');
    } else {
      add('same', bar);
      add('fewer', 'M' + x + ' 0.5l2 3.5l2 -3.5z');
    }
  });
  const width = clusters.length * TICK;
  const drawn = Object.entries(paths).map(([state, path]) => createDrawing('path', { class: 'tick ' + state, d: path }));
  return createDrawing(
    'svg',
    { class: 'strip', width, height: TICK_HEIGHT, viewBox: '0 0 ' + width + ' ' + TICK_HEIGHT, 'aria-hidden': 'true' },
    ...drawn,
  );
}

/**
 * The sum of an object over some clusters: `12 → 13`, `6`, `2 → 3 cl.`, or empty where it is not.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number[]} clusters
 * @returns {string}
 */
export function getSumText(model, item, clusters) {
  const sums = [item.before, item.after].map((list) => {
    let replicas = 0;
    let there = 0;
    for (const cluster of clusters) {
      const one = list.replicas[cluster];
      if (one === NOT_THERE) continue;
      there += 1;
      replicas += Math.max(0, one);
    }
    return { replicas, there };
  });
  const [before, after] = sums;
  const divided = item.before.divided || item.after.divided;
  const value = (/** @type {{replicas: number, there: number}} */ sum) => (divided ? sum.replicas : sum.there);
  if (!model.isDiff) return after.there === 0 ? '' : value(after) + (divided ? '' : ' cl.');
  if (before.there === 0 && after.there === 0) return '';
  const unit = divided ? '' : ' cl.';
  if (value(before) === value(after)) return value(after) + unit;
  return value(before) + ' → ' + value(after) + unit;
}

/**
 * What an object has in all clusters: `24 → 27`, `6 of 120`, `2 → 3 cl.`.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @returns {string}
 */
export function getTotalText(model, item) {
  const all = model.data.clusters.map((_, at) => at);
  const text = getSumText(model, item, all) || 'nowhere';
  const wanted = item.row.wanted && item.row.wanted.to;
  return wanted !== undefined && wanted !== item.after.total ? text + ' of ' + wanted : text;
}

/**
 * A sentence on all clusters of a region.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {{name: string, clusters: number[]}} region
 * @returns {string}
 */
export function getRegionSentence(model, item, region) {
  const changed = region.clusters.filter((cluster) => !['none', 'same'].includes(getCellState(model, item, cluster)));
  const text = getSumText(model, item, region.clusters);
  const sum = text === '' ? 'not there' : text.replace('→', 'to').replace('cl.', 'clusters');
  return region.name + ': ' + sum + (changed.length > 0 ? ', ' + countWord(changed.length, 'cluster') + ' differ' : '');
}

/**
 * A cell in a few signs, for columns without room.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {number} cluster
 */
function getShortText(model, item, cluster) {
  const after = item.after.replicas[cluster];
  switch (getCellState(model, item, cluster)) {
    case 'none':
      return '·';
    case 'gone':
      return '✕';
    case 'new':
      return '+' + (after < 0 ? '' : after);
    case 'more':
      return '▲' + Math.max(0, after);
    case 'fewer':
      return '▼' + Math.max(0, after);
    default:
      return after < 0 ? '●' : String(after);
  }
}

/** The cells of pages about placements. */
export class PlacementCells extends CellView {
  /** @param {Model} model */
  constructor(model) {
    super();
    this.model = model;
  }

  /** @param {import('./data.js').Item} item @param {number} cluster */
  getState(item, cluster) {
    return getCellState(this.model, item, cluster);
  }

  /** @param {import('./data.js').Item} item @param {number} cluster */
  getClasses(item, cluster) {
    const shade = this.getState(item, cluster) === 'same' ? 'shade' + getShade(item.after.replicas[cluster]) : '';
    return shade + (isSuspended(item, cluster) ? ' suspended' : '');
  }

  /** @param {import('./data.js').Item} item @param {number} cluster */
  getText(item, cluster) {
    return getCellText(this.model, item, cluster);
  }

  /** @param {import('./data.js').Item} item @param {number} cluster */
  getShortText(item, cluster) {
    return getShortText(this.model, item, cluster);
  }

  /** @param {import('./data.js').Item} item @param {number} cluster */
  getSentence(item, cluster) {
    return getCellSentence(this.model, item, cluster) + (isSuspended(item, cluster) ? ', suspended' : '');
  }

  /** @param {import('./data.js').Item} item @param {number[]} clusters */
  getSum(item, clusters) {
    return getSumText(this.model, item, clusters);
  }

  /** @param {import('./data.js').Item} item */
  getTotal(item) {
    return getTotalText(this.model, item);
  }

  /** @param {import('./data.js').Item} item @param {{name: string, clusters: number[]}} region */
  getRegionSentence(item, region) {
    return getRegionSentence(this.model, item, region);
  }

  /** @param {import('./data.js').Item} item @param {number[]} clusters */
  createStrip(item, clusters) {
    return drawStrip(this.model, item, clusters);
  }
}

/** @param {import('./data.js').Item} item @param {number} cluster */
function isSuspended(item, cluster) {
  return (item.row.suspended || []).includes(cluster);
}
