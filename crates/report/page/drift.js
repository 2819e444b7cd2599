// The page of `drift`: what differs in which cluster, who changed it and since when, and what federate would do about it.
import { countWord, createDrawing, createElement, replaceChildren } from './dom.js';
import { BaseModel, CellView, pathOf, valueText } from './model.js';
import { Page, PageView, createBadges, createPaneHead, createTable, startPage } from './page.js';
import { Matrix, TICK } from './matrix.js';
import { drawValues, listClusters } from './values.js';
import { followPage, openServedPage } from './live.js';

/** @typedef {import('./model.js').ObjectRef} ObjectRef */
/** @typedef {{path: string, desired?: any, live?: any, manager?: string, time?: string, writer?: string}} FieldDiff */
/** @typedef {{cluster: string, object: ObjectRef, action: string, restartsPods: boolean, diffs: FieldDiff[], reason?: string, outcome: string, error?: string}} DriftAction */
/** @typedef {{name: string, region: string, objects: number, error?: string, predicted?: boolean, notes?: string[]}} DriftCluster */
/** @typedef {{object: ObjectRef, flags: string[], actions: number[]}} DriftObject */
/** @typedef {{clusters: DriftCluster[], objects: DriftObject[], actions: DriftAction[]}} DriftDocument */

/**
 * An object that drifted, with its actions by cluster.
 * @typedef {{index: number, ref: ObjectRef, flags: Set<string>, severity: number, search: string, actions: Map<number, DriftAction>}} DriftItem
 */

/** How often a served page asks for what has changed in clusters, in milliseconds. */
const REFRESH_DELAY = 60000;

/** Rows of clusters before a button. */
const SHOWN_CLUSTER_ROWS = 20;

/** The sign and the word of each flag, the worst first. */
const FLAG_TEXTS = /** @type {Object<string, [string, string]>} */ ({
  failed: ['✕', 'failed'],
  missing: ['−', 'missing'],
  unmanaged: ['!', 'left as it is'],
  unrendered: ['+', 'not rendered'],
  restarts: ['↻', 'pods restart'],
  changed: ['≠', 'changed'],
  corrected: ['✓', 'put back'],
});

/** @extends {BaseModel<DriftItem>} */
class DriftModel extends BaseModel {
  /** @param {DriftDocument} data */
  constructor(data) {
    super(data.clusters, FLAG_TEXTS);
    this.data = data;
    this.emptyText = data.clusters.some((cluster) => cluster.error) ? 'No drift is known.' : 'Nothing drifted.';
    const numbers = new Map(data.clusters.map((cluster, at) => [cluster.name, at]));
    this.items = data.objects.map((row, index) => {
      const flags = new Set(row.flags);
      const actions = new Map(row.actions.map((at) => [numbers.get(data.actions[at].cluster) ?? -1, data.actions[at]]));
      return { index, ref: row.object, flags, severity: this.getSeverity(flags), search: '', actions };
    });
  }

  /**
   * @param {DriftItem} item
   * @param {number} column
   */
  isOnCluster(item, column) {
    return item.actions.has(column);
  }

  /** @param {number} column */
  describeColumn(column) {
    const { error } = this.data.clusters[column];
    return error ? { state: 'not-ready', words: 'could not be read: ' + error } : { state: '', words: '' };
  }

  /** @param {DriftItem} item */
  listWords(item) {
    const words = [item.ref.kind, pathOf(item.ref)];
    for (const action of item.actions.values()) {
      words.push(action.reason || '', action.error || '');
      for (const diff of action.diffs) words.push(diff.path, valueText(diff.desired), valueText(diff.live), diff.manager || '');
    }
    return words;
  }

  /**
   * @param {DriftItem} item
   * @returns {import('./model.js').ValueRow[]}
   */
  listValues(item) {
    return groupActions(this, item).flatMap(({ action, clusters, times }) =>
      action.diffs.map((diff, at) => ({ item, field: item.ref.kind + ' ' + diff.path + (diff.manager ? ' · ' + diff.manager : ''), clusters, from: diff.desired, to: diff.live, who: describeWriter(diff, times[at]) })),
    );
  }
}

/** The cells: how many fields differ, or what else is the matter. */
class DriftCells extends CellView {
  /** @param {DriftModel} model */
  constructor(model) {
    super();
    this.model = model;
  }

  /** @param {DriftItem} item @param {number} column */
  getState(item, column) {
    const action = item.actions.get(column);
    if (!action) return this.model.data.clusters[column].error ? 'unread' : 'none';
    if (action.outcome === 'failed') return 'failed';
    if (action.outcome === 'done') return 'corrected';
    const states = /** @type {Object<string, string>} */ ({ create: 'gone', delete: 'new', conflict: 'unmanaged', adopt: 'unmanaged', skip: 'unmanaged' });
    return states[action.action] || 'changed';
  }

  /** @param {DriftItem} item @param {number} column */
  getText(item, column) {
    const action = item.actions.get(column);
    const fields = action ? action.diffs.length : 0;
    switch (this.getState(item, column)) {
      case 'none':
        return '·';
      case 'unread':
        return '?';
      case 'failed':
        return '✕ failed';
      case 'corrected':
        return '✓ ' + (fields || '');
      case 'gone':
        return '− missing';
      case 'new':
        return '+ extra';
      case 'unmanaged':
        return '! ' + (fields || 'left');
      default:
        return (action && action.restartsPods ? '↻ ' : '≠ ') + fields;
    }
  }

  /** @param {DriftItem} item @param {number} column */
  getShortText(item, column) {
    return this.getText(item, column).split(' ')[0];
  }

  /** @param {DriftItem} item @param {number} column */
  getSentence(item, column) {
    const name = this.model.data.clusters[column].name;
    const action = item.actions.get(column);
    if (!action) return name + (this.getState(item, column) === 'unread' ? ': could not be read' : ': as rendered');
    return name + ': ' + describeAction(action);
  }

  /** @param {DriftItem} item @param {number[]} columns */
  getSum(item, columns) {
    const there = columns.filter((column) => item.actions.has(column)).length;
    return there === 0 ? '' : there + ' of ' + columns.length;
  }

  /** @param {DriftItem} item */
  getTotal(item) {
    return countWord(item.actions.size, 'cluster');
  }

  /** @param {DriftItem} item @param {{name: string, clusters: number[]}} region */
  getRegionSentence(item, region) {
    const there = region.clusters.filter((column) => item.actions.has(column)).length;
    return region.name + ': ' + (there === 0 ? 'as rendered' : 'drifted in ' + there + ' of ' + countWord(region.clusters.length, 'cluster'));
  }

  /** @param {DriftItem} item @param {number[]} columns */
  createStrip(item, columns) {
    const height = 16;
    /** @type {Object<string, string>} */
    const paths = {};
    columns.forEach((column, at) => {
      const x = at * TICK + 0.5;
      const action = item.actions.get(column);
      const state = this.getState(item, column);
      const tall = Math.min(12, 4 + Math.round(2 * Math.log2(1 + (action ? action.diffs.length : 0))));
      const paint = { none: 'M' + x + ' ' + (height - 0.5) + 'h4', unread: 'M' + x + ' ' + (height - 0.5) + 'h4', gone: 'M' + x + ' ' + (height - 1) + 'v-13h4v13zl4 -13' }[state];
      paths[state] = (paths[state] || '') + (paint || 'M' + x + ' ' + (height - 1) + 'v-' + tall + 'h4v' + tall + 'z');
    });
    const width = columns.length * TICK;
    const drawn = Object.entries(paths).map(([state, path]) => createDrawing('path', { class: 'tick ' + state, d: path }));
    return createDrawing('svg', { class: 'strip', width, height, viewBox: '0 0 ' + width + ' ' + height, 'aria-hidden': 'true' }, ...drawn);
  }
}

/**
 * What is the matter in a cluster, in words.
 * @param {DriftAction} action
 */
function describeAction(action) {
  const fields = action.diffs.length > 0 ? countWord(action.diffs.length, 'field') + ' differ' : '';
  const restarts = action.restartsPods ? ', its pods restart where it is put back' : '';
  const words = /** @type {Object<string, string>} */ ({ create: 'it is missing', delete: 'it is no longer rendered', conflict: 'it is not managed', adopt: 'it is not managed', skip: 'it is left as it is' });
  const what = [words[action.action] || '', fields].filter(Boolean).join(', ');
  const outcome = action.outcome === 'failed' ? ', and putting it back failed' : action.outcome === 'done' ? ', and it was put back' : '';
  return (what || 'it differs') + restarts + outcome;
}

/**
 * What federate would do, or did.
 * @param {DriftAction} action
 */
function describePlan(action) {
  if (action.outcome === 'failed') return 'failed: ' + (action.error || '');
  const verbs = /** @type {Object<string, [string, string]>} */ ({ create: ['creates it', 'created it'], delete: ['deletes it', 'deleted it'], update: ['puts these fields back', 'put these fields back'] });
  const verb = verbs[action.action];
  if (!verb) return action.reason || 'is left as it is';
  const restarts = action.restartsPods ? ', which restarts its pods' : '';
  return (action.outcome === 'done' ? 'federate ' + verb[1] : 'federate drift --correct ' + verb[0]) + restarts + (action.reason ? ' (' + action.reason + ')' : '');
}

/**
 * Who changed a field, and when.
 * @param {FieldDiff} diff
 * @param {string[]} times
 */
function describeWriter(diff, times) {
  const who = diff.manager || (diff.writer === 'server' ? 'the API server' : '');
  if (times.length === 0) return who;
  const [first, last] = [times[0], times[times.length - 1]];
  return who + ', ' + (first === last ? first : first + ' to ' + last);
}

/**
 * The actions of an object, equal ones together.
 * @param {DriftModel} model
 * @param {DriftItem} item
 */
function groupActions(model, item) {
  /** @type {Map<string, {action: DriftAction, clusters: string[], times: string[][]}>} */
  const groups = new Map();
  for (const [column, action] of item.actions) {
    const key = JSON.stringify([action.action, action.outcome, action.reason, action.error, action.restartsPods, action.diffs.map((diff) => [diff.path, diff.desired, diff.live, diff.manager])]);
    const group = groups.get(key) || { action, clusters: [], times: action.diffs.map(() => []) };
    groups.set(key, group);
    group.clusters.push(model.data.clusters[column] ? model.data.clusters[column].name : action.cluster);
    action.diffs.forEach((diff, at) => diff.time && group.times[at].push(diff.time));
  }
  for (const group of groups.values()) group.times.forEach((times) => times.sort());
  return [...groups.values()];
}

/**
 * @param {{action: DriftAction, clusters: string[], times: string[][]}} group
 */
function createActionSection({ action, clusters, times }) {
  const rows = action.diffs.map((diff, at) =>
    createElement(
      'tr',
      {},
      createElement('th', { scope: 'row' }, createElement('code', { text: diff.path })),
      createElement('td', {}, createElement('ins', { text: valueText(diff.desired) })),
      createElement('td', {}, createElement('del', { text: valueText(diff.live) })),
      createElement('td', { class: 'muted', text: describeWriter(diff, times[at]) }),
    ),
  );
  const title = describeAction(action);
  return createElement(
    'section',
    {},
    createElement('h3', {}, title[0].toUpperCase() + title.slice(1), createElement('span', { class: 'muted', text: ' in ' + countWord(clusters.length, 'cluster') })),
    createElement('p', { class: 'muted', text: clusters.join(', ') }),
    rows.length > 0 ? createTable(['Field', 'Rendered', 'Live', 'Changed by'], rows) : null,
    createElement('p', { class: action.outcome === 'failed' ? 'problem' : '', text: describePlan(action) }),
  );
}

/**
 * @param {DriftModel} model
 * @param {HTMLElement} root
 */
function drawClusters(model, root) {
  const clusters = [...model.data.clusters].sort((a, b) => Number(!a.error) - Number(!b.error) || b.objects - a.objects);
  const draw = (/** @type {number} */ most) => {
    const rows = clusters.slice(0, most).map((cluster) =>
      createElement(
        'tr',
        {},
        createElement('th', { scope: 'row', text: cluster.name }),
        createElement('td', { text: cluster.region || '–' }),
        createElement('td', { class: cluster.error ? 'bad' : '', text: cluster.error ? '✕ could not be read' : cluster.objects === 0 ? '✓ as rendered' : '≠ ' + countWord(cluster.objects, 'object') + ' drifted' }),
        createElement('td', { class: 'muted', text: [cluster.error, ...(cluster.notes || []), cluster.predicted ? 'predicted without the API server' : ''].filter(Boolean).join('; ') }),
      ),
    );
    replaceChildren(root, createTable(['Cluster', 'Region', 'State', 'Notes'], rows, 'Clusters'), rows.length < clusters.length ? createElement('button', { type: 'button', text: 'Show all ' + clusters.length + ' clusters', click: () => draw(Infinity) }) : null);
  };
  draw(SHOWN_CLUSTER_ROWS);
}

class DriftView extends PageView {
  constructor() {
    super();
    /** @type {Matrix|undefined} */
    this.matrix = undefined;
  }

  /** @param {any} data */
  createModel(data) {
    return new DriftModel(data);
  }

  /** @param {Page} page */
  createList(page) {
    const model = /** @type {DriftModel} */ (page.model);
    this.matrix = new Matrix(model, new DriftCells(model), page.showSection('matrix'), (item) => page.open(item));
    return this.matrix;
  }

  /** @param {Page} page */
  updateList(page) {
    const model = /** @type {DriftModel} */ (page.model);
    if (this.matrix) this.matrix.setModel(model, new DriftCells(model), page.showSection('matrix'));
  }

  /** @param {Page} page */
  drawSections(page) {
    drawClusters(/** @type {DriftModel} */ (page.model), page.showSection('clusters'));
  }

  /**
   * @param {Page} page
   * @param {DriftItem[]} items
   */
  drawItems(page, items) {
    const model = /** @type {DriftModel} */ (page.model);
    const rows = items.flatMap((item) => model.getValues(item));
    drawValues(page.showSection('values'), rows, ['Rendered', 'Live'], 'No field differs.', (item) => page.open(item));
  }

  /**
   * @param {Page} page
   * @param {DriftItem} item
   * @param {import('./page.js').PaneActions} actions
   */
  drawPane(page, item, actions) {
    const model = /** @type {DriftModel} */ (page.model);
    const [bar, heading] = createPaneHead(item, pathOf(item.ref), actions);
    const names = [...item.actions.values()].map((action) => action.cluster);
    replaceChildren(
      page.pane,
      bar,
      heading,
      createBadges(model, item),
      createElement('p', { class: 'replicas' }, createElement('b', { text: String(item.actions.size) }), ' of ' + countWord(model.columns.length, 'cluster') + ': ' + listClusters(names)),
      ...groupActions(model, item).map((group) => createActionSection(group)),
      createElement('p', { class: 'muted' }, 'To ignore a field: ', createElement('code', { text: 'drift.ignore' }), ' in ', createElement('code', { text: 'federate.yaml' }), '.'),
    );
    return heading;
  }

  openDocument() {
    return openServedPage();
  }

  /** @param {Page} page */
  start(page) {
    followPage(page, REFRESH_DELAY);
  }
}

startPage(new DriftView());
