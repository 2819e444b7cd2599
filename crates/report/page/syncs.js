// The page of the loop: its Syncs by cluster, what fails, what drifted, and what was done. It asks for itself again and again.
import { countWord, createDrawing, createElement, replaceChildren } from './dom.js';
import { BaseModel, CellView, pathOf, readDocument } from './model.js';
import { Page, PageView, createBadges, createPaneHead, createTable, startPage } from './page.js';
import { Matrix, TICK } from './matrix.js';

/** @typedef {{path: string, manager?: string, time?: string}} DriftedField */
/** @typedef {{object: import('./model.js').ObjectRef, action: string, restartsPods: boolean, fields: DriftedField[], reason?: string}} DriftedObject */
/** @typedef {{name: string, state: string, message?: string, failures?: number, retryAt?: string, drifted?: number, drift?: string, driftedObjects?: DriftedObject[], orphans?: number, revision?: string}} ClusterDetails */
/** @typedef {{type: string, status: string, reason: string, message: string, lastTransitionTime: string}} Condition */
/** @typedef {{conditions: Condition[], lastAttemptedRevision?: string, lastAppliedRevision?: string, branches?: {branch: string, commit: string}[], artifact?: {url: string, digest: string}, clusters?: Object<string, number>, rollout?: {revision: string, stage: string, updated: number, approval?: string, object?: string}, drift?: {objects: number, clusters: number, first: string, changed?: string}, window?: {open: boolean, opens?: string, closes?: string, waiting?: string}, unschedulable: number, replicasMoved: number, orphans?: {objects: number, applySets: number, clusters?: string[]}, history?: {time: string, revision?: string, reason: string, message: string}[]}} SyncStatus */
/** @typedef {{flags: string[], metadata: {name: string, namespace: string}, suspended: boolean, created?: string, status: SyncStatus, clusters: ClusterDetails[], readyClusters: string[], contentions: string[]}} SyncRow */
/** @typedef {{time: string, syncs: SyncRow[]}} SyncDocument */

/**
 * A Sync, with what is known of its clusters by their columns.
 * @typedef {{index: number, ref: import('./model.js').ObjectRef, flags: Set<string>, severity: number, search: string, row: SyncRow, cells: Map<number, ClusterDetails>}} SyncItem
 */

/** Rows of a table before a button. */
const SHOWN_ROWS = 50;

/** The words for the states of clusters, with a sign and a class for each. */
const STATES = /** @type {Object<string, {sign: string, word: string, state: string}>} */ ({
  ready: { sign: '✓', word: 'ready', state: 'same' },
  notReady: { sign: '…', word: 'not healthy yet', state: 'unmanaged' },
  modified: { sign: '≠', word: 'drifted', state: 'changed' },
  outOfSync: { sign: '≠', word: 'out of sync', state: 'changed' },
  errApplied: { sign: '✕', word: 'failed', state: 'failed' },
  waitApplied: { sign: '↻', word: 'being updated', state: 'unmanaged' },
  pending: { sign: '…', word: 'waits for its turn', state: 'unmanaged' },
  left: { sign: '−', word: 'left, with objects', state: 'gone' },
});

/** @param {string} state */
function describeState(state) {
  return STATES[state] || { sign: '?', word: state, state: 'unmanaged' };
}

/** @extends {BaseModel<SyncItem>} */
class SyncModel extends BaseModel {
  /** @param {SyncDocument} data */
  constructor(data) {
    const names = new Set(data.syncs.flatMap((row) => [...row.readyClusters, ...row.clusters.map((one) => one.name), ...((row.status.orphans && row.status.orphans.clusters) || [])]));
    super([...names].sort().map((name) => ({ name, region: '' })), {
      failed: ['✕', 'fails'],
      drifted: ['≠', 'drifted'],
      leftBehind: ['−', 'left something behind'],
      waiting: ['…', 'waits'],
      suspended: ['‖', 'suspended'],
      progressing: ['↻', 'under way'],
      ready: ['✓', 'ready'],
    });
    this.data = data;
    this.noun = 'Sync';
    this.title = 'Syncs by cluster';
    this.hasRegions = false;
    this.emptyText = 'This process runs no Syncs.';
    /** @type {[string, string][]} */
    this.groupings = [['namespace', 'Namespace']];
    const numbers = new Map(this.columns.map((column, at) => [column.name, at]));
    this.items = data.syncs.map((row, index) => {
      const flags = new Set(row.flags);
      /** @type {Map<number, ClusterDetails>} */
      const cells = new Map();
      const add = (/** @type {ClusterDetails} */ details) => cells.set(numbers.get(details.name) ?? -1, details);
      for (const name of row.readyClusters) add({ name, state: 'ready' });
      for (const name of (row.status.orphans && row.status.orphans.clusters) || []) add({ name, state: 'left' });
      for (const details of row.clusters) add(details);
      const ref = { apiVersion: 'federate.dev/v1alpha1', kind: 'Sync', ...row.metadata };
      return { index, ref, flags, severity: this.getSeverity(flags), search: '', row, cells };
    });
  }

  /** @param {SyncItem} item @param {number} column */
  isOnCluster(item, column) {
    return item.cells.has(column);
  }

  /** @param {SyncItem} item */
  listWords(item) {
    const { status, clusters, contentions } = item.row;
    const drifted = clusters.flatMap((one) => one.driftedObjects || []);
    return [
      'Sync',
      pathOf(item.ref),
      ...status.conditions.flatMap((one) => [one.reason, one.message]),
      ...clusters.flatMap((one) => [one.name, one.message || '', one.drift || '']),
      ...drifted.flatMap((one) => [one.object.kind, pathOf(one.object), ...one.fields.flatMap((field) => [field.path, field.manager || ''])]),
      ...contentions,
    ];
  }
}

/** The cells: the state of each cluster. */
class SyncCells extends CellView {
  /** @param {SyncModel} model */
  constructor(model) {
    super();
    this.model = model;
  }

  /** @param {SyncItem} item @param {number} column */
  getState(item, column) {
    const cell = item.cells.get(column);
    return cell ? describeState(cell.state).state : 'none';
  }

  /** @param {SyncItem} item @param {number} column */
  getText(item, column) {
    const cell = item.cells.get(column);
    if (!cell) return '·';
    const { sign, word } = describeState(cell.state);
    return cell.drifted ? sign + ' ' + cell.drifted : cell.state === 'ready' ? sign : sign + ' ' + word.split(/[ ,]/)[0];
  }

  /** @param {SyncItem} item @param {number} column */
  getShortText(item, column) {
    return this.getText(item, column).split(' ')[0];
  }

  /** @param {SyncItem} item @param {number} column */
  getSentence(item, column) {
    const cell = item.cells.get(column);
    const name = this.model.columns[column].name;
    return cell ? name + ': ' + describeState(cell.state).word : name + ': not a cluster of this Sync';
  }

  /** @param {SyncItem} item @param {number[]} columns */
  getSum(item, columns) {
    const there = columns.map((column) => item.cells.get(column)).filter((cell) => cell !== undefined);
    return there.length === 0 ? '' : there.filter((cell) => cell && cell.state === 'ready').length + ' of ' + there.length;
  }

  /** @param {SyncItem} item */
  getTotal(item) {
    return this.getSum(item, [...item.cells.keys()]) || '–';
  }

  /** @param {SyncItem} item @param {number[]} columns */
  createStrip(item, columns) {
    /** @type {Object<string, string>} */
    const paths = {};
    columns.forEach((column, at) => {
      const x = at * TICK + 0.5;
      const state = this.getState(item, column);
      paths[state] = (paths[state] || '') + (state === 'none' ? 'M' + x + ' 15.5h4' : 'M' + x + ' 15v-' + (state === 'same' ? 6 : 12) + 'h4v' + (state === 'same' ? 6 : 12) + 'z');
    });
    const width = columns.length * TICK;
    return createDrawing('svg', { class: 'strip', width, height: 16, viewBox: '0 0 ' + width + ' 16', 'aria-hidden': 'true' }, ...Object.entries(paths).map(([state, path]) => createDrawing('path', { class: 'tick ' + state, d: path })));
  }
}

/**
 * What is known of a cluster, besides its state.
 * @param {ClusterDetails} cluster
 */
function describeCluster(cluster) {
  return [
    cluster.message,
    cluster.failures !== undefined && cluster.failures > 1 ? cluster.failures + ' failures in a row' : '',
    cluster.drifted ? countWord(cluster.drifted, 'object') + ' drifted' + (cluster.drift ? ': ' + cluster.drift : '') : '',
    cluster.orphans ? countWord(cluster.orphans, 'object') + ' left behind' : '',
    cluster.revision ? 'at ' + cluster.revision : '',
  ]
    .filter(Boolean)
    .join('; ');
}

/**
 * @param {ClusterDetails} cluster
 * @param {HTMLElement|null} first
 */
function createClusterRow(cluster, first) {
  const { sign, word, state } = describeState(cluster.state);
  return createElement(
    'tr',
    {},
    first,
    createElement('th', { scope: 'row', text: cluster.name }),
    createElement('td', { class: state === 'failed' ? 'bad state' : 'state', text: sign + ' ' + word }),
    createElement('td', { text: describeCluster(cluster) }),
    createElement('td', { text: cluster.retryAt ? shortenTime(cluster.retryAt) : '' }),
  );
}

/**
 * A time without parts of a second.
 * @param {string} time
 */
function shortenTime(time) {
  return time.replace(/\.\d+Z$/, 'Z');
}

/**
 * The time between two times, in its largest unit.
 * @param {string} from
 * @param {string} to
 */
function formatAge(from, to) {
  const seconds = Math.max(0, Math.round((Date.parse(to) - Date.parse(from)) / 1000));
  const units = /** @type {[number, string][]} */ ([[86400, 'day'], [3600, 'hour'], [60, 'minute']]);
  for (const [size, word] of units) {
    if (seconds >= 2 * size) return countWord(Math.floor(seconds / size), word);
  }
  return countWord(seconds, 'second');
}

/**
 * Draws a table of which only the first rows are shown at first.
 * @param {HTMLElement} root
 * @param {string[]} heads
 * @param {HTMLElement[]} rows
 * @param {string} label
 * @param {string} none
 */
function drawLongTable(root, heads, rows, label, none) {
  if (rows.length === 0) {
    replaceChildren(root, createElement('p', { class: 'muted', text: none }));
    return;
  }
  const draw = (/** @type {number} */ most) => {
    replaceChildren(root, createTable(heads, rows.slice(0, most), label), rows.length > most ? createElement('button', { type: 'button', text: 'Show all ' + rows.length, click: () => draw(Infinity) }) : null);
  };
  draw(SHOWN_ROWS);
}

class SyncView extends PageView {
  /** @param {any} data */
  createModel(data) {
    return new SyncModel(data);
  }

  /** @param {Page} page */
  createList(page) {
    const model = getSyncs(page);
    this.matrix = new Matrix(model, new SyncCells(model), page.showSection('matrix'), (item) => page.open(item));
    return this.matrix;
  }

  /** @param {Page} page */
  updateList(page) {
    const model = getSyncs(page);
    if (this.matrix) this.matrix.setModel(model, new SyncCells(model), page.showSection('matrix'));
  }

  /**
   * @param {Page} page
   * @param {SyncItem[]} items
   */
  drawItems(page, items) {
    const name = (/** @type {SyncItem} */ item) => createElement('td', {}, createElement('button', { type: 'button', class: 'link', text: pathOf(item.ref), click: () => page.open(item) }));
    const clusters = items.flatMap((item) => item.row.clusters.map((cluster) => createClusterRow(cluster, name(item))));
    drawLongTable(page.showSection('clusters'), ['Sync', 'Cluster', 'State', 'Details', 'Next attempt'], clusters, 'Clusters that are not ready', 'All clusters are ready.');
    const drift = items.flatMap((item) => item.row.clusters.flatMap((cluster) => (cluster.driftedObjects || []).map((one) => createDriftRow(one, cluster, name(item)))));
    drawLongTable(page.showSection('drift'), ['Sync', 'Cluster', 'Object', 'Fields, who changed them, and when'], drift, 'Drift', 'Nothing drifted that is left so.');
    const history = items.flatMap((item) => (item.row.status.history || []).map((entry) => ({ item, entry })));
    history.sort((a, b) => (a.entry.time < b.entry.time ? 1 : -1));
    drawLongTable(page.showSection('history'), ['Sync', 'Time', 'Revision', 'Reason', 'Message'], history.map(({ item, entry }) => createHistoryRow(entry, name(item))), 'History', 'No round has ended.');
  }

  /**
   * @param {Page} page
   * @param {SyncItem} item
   * @param {import('./page.js').PaneActions} actions
   */
  drawPane(page, item, actions) {
    const model = getSyncs(page);
    const { row } = item;
    const [bar, heading] = createPaneHead(item, pathOf(item.ref), actions);
    const drift = row.clusters.flatMap((cluster) => (cluster.driftedObjects || []).map((one) => createDriftRow(one, cluster, null)));
    replaceChildren(
      page.pane,
      bar,
      heading,
      createBadges(model, item),
      ...row.status.conditions.map((one) => createElement('p', { class: one.status === 'False' || one.type === 'Stalled' ? 'problem' : '' }, createElement('b', { text: one.type + '=' + one.status }), ' ' + one.reason + ': ' + one.message, createElement('span', { class: 'muted', text: ' since ' + shortenTime(one.lastTransitionTime) }))),
      createElement('dl', { class: 'facts' }, ...listFacts(row, model.data.time).flatMap(([word, text]) => [createElement('dt', { text: word }), createElement('dd', { text })])),
      ...row.contentions.map((text) => createElement('p', { class: 'problem', text })),
      row.clusters.length > 0 ? createElement('section', {}, createElement('h3', { text: 'Clusters that are not ready' }), createTable(['Cluster', 'State', 'Details', 'Next attempt'], row.clusters.map((cluster) => createClusterRow(cluster, null)))) : null,
      drift.length > 0 ? createElement('section', {}, createElement('h3', { text: 'Drift' }), createTable(['Cluster', 'Object', 'Fields, who changed them, and when'], drift)) : null,
      row.readyClusters.length > 0 ? createElement('details', {}, createElement('summary', { text: countWord(row.readyClusters.length, 'ready cluster') }), createElement('p', { text: row.readyClusters.join(', ') })) : null,
      (row.status.history || []).length > 0 ? createElement('section', {}, createElement('h3', { text: 'History' }), createTable(['Time', 'Revision', 'Reason', 'Message'], (row.status.history || []).map((entry) => createHistoryRow(entry, null)))) : null,
      row.created ? createElement('p', { class: 'muted' }, 'Objects and their health: ', createElement('code', { text: 'federate sync tree ' + item.ref.name + ' -n ' + item.ref.namespace })) : null,
    );
    return heading;
  }

  /** @param {Page} page */
  start(page) {
    const seconds = Number(document.documentElement.dataset.poll || 0);
    if (seconds > 0) setInterval(() => document.hidden || pollPage(page), 1000 * seconds);
  }
}

/**
 * What is known of a Sync, in words.
 * @param {SyncRow} row
 * @param {string} now
 * @returns {[string, string][]}
 */
function listFacts(row, now) {
  const { status } = row;
  const { rollout, window, orphans, drift } = status;
  const counts = Object.entries(status.clusters || {}).filter(([, number]) => number > 0);
  const facts = /** @type {[string, string|undefined][]} */ ([
    ['Suspended', row.suspended ? 'yes' : undefined],
    ['Created', row.created && shortenTime(row.created) + ', ' + formatAge(row.created, now) + ' ago'],
    ['Attempted', status.lastAttemptedRevision],
    ['Applied', status.lastAppliedRevision],
    ['Branches', (status.branches || []).map((one) => one.branch + ' at ' + one.commit).join(', ') || undefined],
    ['Artifact', status.artifact && status.artifact.url + ' at ' + status.artifact.digest],
    ['Rollout', rollout && (rollout.object ? rollout.object + ', ' : '') + 'stage ' + rollout.stage + ', ' + countWord(rollout.updated, 'cluster') + ' updated' + (rollout.approval ? ', waits for the approval ' + rollout.approval : '')],
    ['Window', window && (window.open ? 'open' + (window.closes ? '; it closes at ' + shortenTime(window.closes) : '') : 'closed' + (window.opens ? '; the next one opens at ' + shortenTime(window.opens) : ''))],
    ['Waiting for a window', window && window.waiting],
    ['Drift', drift && countWord(drift.objects, 'object') + ' in ' + countWord(drift.clusters, 'cluster') + ': ' + drift.first + (drift.changed ? ', changed at ' + drift.changed : '')],
    ['Left behind', orphans && orphans.objects + orphans.applySets > 0 ? countWord(orphans.objects, 'object') + ', ' + countWord(orphans.applySets, 'ApplySet') : undefined],
    ['Clusters that have left, with objects', (orphans && (orphans.clusters || []).join(', ')) || undefined],
    ['Not placed', status.unschedulable > 0 ? countWord(status.unschedulable, 'object') : undefined],
    ['Clusters', counts.length > 0 ? counts.map(([state, number]) => number + ' ' + describeState(state).word).join(', ') : undefined],
  ]);
  return facts.flatMap(([word, text]) => (text ? [/** @type {[string, string]} */ ([word, text])] : []));
}

/**
 * @param {DriftedObject} drifted
 * @param {ClusterDetails} cluster
 * @param {HTMLElement|null} first
 */
function createDriftRow(drifted, cluster, first) {
  const words = /** @type {Object<string, string>} */ ({ create: 'it is missing', delete: 'it is no longer rendered' });
  const fields = drifted.fields.map((field) => createElement('div', {}, createElement('code', { text: field.path }), createElement('span', { class: 'muted', text: [field.manager && ' ' + field.manager, field.time].filter(Boolean).join(', ') })));
  const said = [words[drifted.action], drifted.reason, drifted.restartsPods ? 'its pods restart where it is put back' : ''].filter(Boolean).join('; ');
  return createElement('tr', {}, first, createElement('td', { text: cluster.name }), createElement('th', { scope: 'row', text: drifted.object.kind + ' ' + pathOf(drifted.object) }), createElement('td', {}, ...fields, said));
}

/**
 * @param {{time: string, revision?: string, reason: string, message: string}} entry
 * @param {HTMLElement|null} first
 */
function createHistoryRow(entry, first) {
  return createElement(
    'tr',
    {},
    first,
    createElement('td', { class: 'state', text: shortenTime(entry.time) }),
    createElement('td', {}, createElement('code', { text: entry.revision || '' })),
    createElement('td', { class: entry.reason === 'ReconciliationSucceeded' ? 'arrives' : 'bad', text: entry.reason }),
    createElement('td', { text: entry.message }),
  );
}

/**
 * @param {Page} page
 * @returns {SyncModel}
 */
function getSyncs(page) {
  return /** @type {SyncModel} */ (page.model);
}

/**
 * Goes on with the page as it is now. No script of the answer runs.
 * @param {Page} page
 */
function pollPage(page) {
  const request = new XMLHttpRequest();
  request.open('GET', location.pathname);
  request.responseType = 'document';
  request.timeout = 10000;
  const fail = () => (page.status.textContent = 'The server does not answer: this is what it said last.');
  request.onerror = request.ontimeout = fail;
  request.onload = async () => {
    const answer = request.responseXML;
    if (request.status !== 200 || !answer) return fail();
    page.show(answer, new SyncModel(await readDocument(answer)));
  };
  request.send();
}

startPage(new SyncView());
