// The data of pages about placements: the document that schemas/page.schema.json describes, and what is looked up in it.
import { BaseModel, pathOf, valueText } from './model.js';

/** @typedef {import('./model.js').ObjectRef} ObjectRef */
/** @typedef {{name: string, region: string, zones: string[], provider: string, ready: boolean, why?: string, since?: string, leaving: boolean, version?: string, labels: Object<string, string>, taints: string[], presence: 'stays'|'joins'|'leaves'}} PageCluster */
/** @typedef {{path: string, from?: any, to?: any}} PathChange */
/** @typedef {{object: ObjectRef, kind: 'added'|'changed'|'removed', clusters: string[], replicasAt?: string, paths: PathChange[], diff: string, restartsPods?: boolean, pods?: number, causedBy?: number[]}} ObjectChange */
/** @typedef {{reason: string, message: string}} Unschedulable */
/** @typedef {{object: ObjectRef, policy?: {from?: ObjectRef, to?: ObjectRef}, before?: number, after?: number, flags?: string[], unschedulable?: {from?: Unschedulable, to?: Unschedulable}, lostPolicy?: {policy: ObjectRef, why: string, staysOn?: string[]}, wanted?: {from?: number, to?: number}, follows?: number[], suspended?: number[], changes?: number[], causedBy?: number[]}} PageObject */
/** @typedef {{object?: ObjectRef, role: string, kind: string, file: string, line: number, fields: (PathChange & {line: number})[], sources?: string[], clusters?: string[], moves: number, manifests: number, changedObjects: number, changedClusters: number}} Cause */
/** @typedef {{severity: string, code: string, file?: string, line?: number, object?: ObjectRef, message: string, help?: string, page: string}} FindingRow */
/** @typedef {{object: number, origin: string, policy: string[], steps: string[], clusters: {clusters: number[], chosen: boolean, refusedBy?: string, why: string}[], overrides: {policy: string, clusters: number[], fields: string[]}[]}} PageExplanation */
/** @typedef {{allocatable?: string, requestedBefore: string, requestedAfter: string, leftBefore?: string, leftAfter?: string}} ResourceChange */
/** @typedef {{lost: number[], timeline: any[], losses: {object: ObjectRef, lost: number, regained: number, nowhere: boolean}[], capacity: {cluster: string, resource: string, free: string, allocatable: string, percent: number}[]}} PageScenario */
/** @typedef {{lose: string, clusters: number[], replicas: {lost: number, regained: number, missing: number}, nowhere: number[], unschedulable: number[], placements: [number, number][], tightest?: {cluster: string, resource: string, percent: number}}} UnitLoss */
/** @typedef {{each: string, pairs: boolean, rows: UnitLoss[]}} PageLosses */
/** @typedef {{mode: 'plan'|'diff'|'whatif', from?: string, to: string, clusters: PageCluster[], capacity: Object<string, Object<string, ResourceChange>>, clusterLists: [number, number|null][][], objects: PageObject[], changes: ObjectChange[], causes: Cause[], findings: FindingRow[], resolved: FindingRow[], explanations: PageExplanation[], scenario?: PageScenario, losses?: PageLosses}} PageDocument */

/**
 * An object with what the page computes of it once.
 * @typedef {{index: number, ref: ObjectRef, row: PageObject, flags: Set<string>, severity: number, before: ClusterList, after: ClusterList, leader: string, search: string}} Item
 */

/**
 * Where an object is: by cluster, `NOT_THERE`, `PLACED` for an object without replicas, or its replicas.
 * @typedef {{replicas: Float64Array, total: number, clusters: number, divided: boolean}} ClusterList
 */

export const NOT_THERE = -2;
export const PLACED = -1;

/** The sign and the word of each flag of a verdict, the worst first. */
export const FLAG_WORDS = /** @type {Object<string, [string, string]>} */ ({
  runsNowhere: ['✕', 'runs nowhere'],
  losesPolicy: ['§', 'loses its policy'],
  doesNotFit: ['!', 'does not fit'],
  lost: ['✕', 'loses replicas'],
  deleted: ['−', 'deleted'],
  moves: ['⇄', 'moves'],
  restarts: ['↻', 'pods restart'],
  scaled: ['↕', 'scaled'],
  added: ['+', 'new'],
  fields: ['≠', 'fields change'],
});

/** The flags of a verdict, the worst first. */
export const FLAGS = Object.keys(FLAG_WORDS);

/**
 * Everything that the sections look up.
 * @extends {BaseModel<Item>}
 */
export class Model extends BaseModel {
  /** @param {PageDocument} data */
  constructor(data) {
    super(data.clusters, FLAG_WORDS);
    this.data = data;
    this.isDiff = data.mode === 'diff' || data.scenario !== undefined;
    this.foldFrom = FLAGS.indexOf('restarts');
    /** @type {[string, string][]} */
    this.groupings = [['policy', 'Policy'], ['namespace', 'Namespace'], ['kind', 'Kind']];
    this.emptyText = 'Nothing changes on any cluster. “All” shows where everything runs.';
    /** @type {Map<number, ClusterList>} */
    this.lists = new Map();
    /** The lists after a scenario, without the clusters that run nothing. @type {Map<number, ClusterList>} */
    this.listsAfter = new Map();
    /** The clusters that run nothing after a scenario. */
    this.lost = new Set(data.scenario ? data.scenario.lost : []);
    /** The objects that lose replicas for good, although they may not move. */
    this.losers = new Set((data.scenario ? data.scenario.losses : []).filter((loss) => loss.lost > loss.regained).map((loss) => loss.object.kind + '/' + pathOf(loss.object)));
    this.nowhere = this.createList([]);
    /** @type {Map<string, number>} */
    this.clusterNumbers = new Map(data.clusters.map((cluster, at) => [cluster.name, at]));
    this.items = data.objects.map((row, index) => this.createItem(row, index));
    /** @type {Map<number, PageExplanation>} */
    this.explanations = new Map(data.explanations.map((one) => [one.object, one]));
    /** The objects that follow each object. @type {Map<number, Item[]>} */
    this.followers = new Map();
    for (const item of this.items) {
      for (const leader of item.row.follows || []) {
        const known = this.followers.get(leader);
        if (known) known.push(item);
        else this.followers.set(leader, [item]);
      }
    }
  }

  /**
   * @param {PageObject} row
   * @param {number} index
   * @returns {Item}
   */
  createItem(row, index) {
    const flags = new Set(row.flags || []);
    if (!flags.has('runsNowhere') && this.losers.has(row.object.kind + '/' + pathOf(row.object))) flags.add('lost');
    const policy = (row.policy && (row.policy.to || row.policy.from)) || undefined;
    return {
      index,
      ref: row.object,
      row,
      flags,
      severity: this.getSeverity(flags),
      before: this.getList(row.before),
      after: this.lost.size > 0 ? this.getListAfter(row.after) : this.getList(row.after),
      leader: policy ? policy.kind + ' ' + pathOf(policy) : '',
      search: '',
    };
  }

  /**
   * @param {number|undefined} number
   * @returns {ClusterList}
   */
  getList(number) {
    if (number === undefined) return this.nowhere;
    let list = this.lists.get(number);
    if (!list) {
      list = this.createList(this.data.clusterLists[number]);
      this.lists.set(number, list);
    }
    return list;
  }

  /**
   * @param {number|undefined} number
   * @returns {ClusterList}
   */
  getListAfter(number) {
    if (number === undefined) return this.nowhere;
    let list = this.listsAfter.get(number);
    if (!list) {
      const placed = this.data.clusterLists[number];
      const isWhole = placed.every(([cluster]) => !this.lost.has(cluster));
      list = isWhole ? this.getList(number) : this.createList(placed.filter(([cluster]) => !this.lost.has(cluster)));
      this.listsAfter.set(number, list);
    }
    return list;
  }

  /**
   * @param {[number, number|null][]} placed
   * @returns {ClusterList}
   */
  createList(placed) {
    const replicas = new Float64Array(this.data.clusters.length).fill(NOT_THERE);
    let total = 0;
    let divided = false;
    for (const [cluster, number] of placed) {
      replicas[cluster] = number === null ? PLACED : number;
      if (number !== null) {
        total += number;
        divided = true;
      }
    }
    return { replicas, total, clusters: placed.length, divided };
  }

  /**
   * The group of an object; one that follows another stands with it.
   * @param {Item} item
   * @param {string} groupBy
   * @returns {string}
   */
  getGroup(item, groupBy) {
    if (groupBy !== 'policy') return super.getGroup(item, groupBy);
    if (item.leader) return item.leader;
    const leader = (item.row.follows || [])[0];
    if (leader !== undefined && this.items[leader].leader) return this.items[leader].leader;
    return item.before.clusters + item.after.clusters > 0 ? 'without a policy' : 'no policy matches';
  }

  /** @param {Item} item */
  getPolicy(item) {
    return item.leader;
  }

  /** @param {Item} item */
  countFollowers(item) {
    return (this.followers.get(item.index) || []).length;
  }

  /**
   * @param {Item} item
   * @param {number} column
   */
  isOnCluster(item, column) {
    return item.after.replicas[column] !== NOT_THERE || item.before.replicas[column] !== NOT_THERE;
  }

  /** @param {number} column */
  describeColumn(column) {
    const cluster = this.data.clusters[column];
    if (this.lost.has(column)) return { state: 'lost', words: 'lost' };
    if (cluster.presence !== 'stays') return { state: cluster.presence, words: cluster.presence };
    return cluster.ready ? { state: '', words: '' } : { state: 'not-ready', words: 'not ready' + (cluster.why ? ': ' + cluster.why : '') };
  }

  /**
   * The changes of an object.
   * @param {Item} item
   * @returns {ObjectChange[]}
   */
  getChanges(item) {
    return (item.row.changes || []).map((at) => this.data.changes[at]);
  }

  /**
   * What the filter searches: names, policies, fields and values.
   * @param {Item} item
   * @returns {string[]}
   */
  listWords(item) {
    const words = [item.ref.kind, pathOf(item.ref), item.leader];
    for (const change of this.getChanges(item)) {
      for (const path of change.paths) words.push(path.path, valueText(path.from), valueText(path.to));
    }
    return words;
  }
  /**
   * @param {Item} item
   * @returns {import('./model.js').ValueRow[]}
   */
  listValues(item) {
    return this.getChanges(item).flatMap((change) => change.paths.map((path) => ({ item, field: item.ref.kind + ' ' + path.path, clusters: change.clusters, from: path.from, to: path.to })));
  }
}
