// The page of `migrate`: objects that are not placed by equal rules, why, in which random states they differ, and the runbook.
import { countWord, createElement, replaceChildren } from './dom.js';
import { BaseModel, ItemList, pathOf, valueText } from './model.js';
import { Page, PageView, createBadges, createPaneHead, createTable, startPage } from './page.js';

/** @typedef {import('./model.js').ObjectRef} ObjectRef */
/** @typedef {{reason: string, detail: string, file?: string, line?: number, pointer?: string}} UnequalRule */
/** @typedef {{kind: string, clusters: string[], detail: string, fields?: {path: string, from?: any, to?: any}[], reasons: string[]}} SideDifference */
/** @typedef {{object: ObjectRef, renamed?: ObjectRef, verdict: string, rules: UnequalRule[], differences: SideDifference[]}} MigratedRow */
/** @typedef {{events: string[], object: ObjectRef, difference: SideDifference}} StateExample */
/** @typedef {{states: number, seed: number, differing: number, reasons: {reason: string, states: number, objects: number, example: StateExample}[], unexplained?: StateExample}} RandomStates */
/** @typedef {{from: string[], to: string, objects: MigratedRow[], repo: UnequalRule[], stress?: RandomStates, files: {path: string, change: string}[]}} MigrationDocument */
/** @typedef {{report: MigrationDocument, runbook: {title: string, text: string}[]}} MigrationData */
/** @typedef {{index: number, ref: ObjectRef, flags: Set<string>, severity: number, search: string, row: MigratedRow}} MigratedItem */

/** Objects, and files, that are shown before a button. */
const SHOWN_OBJECTS = 100;
const SHOWN_MIGRATED_FILES = 50;

/** @extends {BaseModel<MigratedItem>} */
class MigrationModel extends BaseModel {
  /** @param {MigrationData} data */
  constructor(data) {
    super([], { unexplained: ['✕', 'unexplained'], different: ['≠', 'different'], 'equal-now': ['≈', 'equal now'] });
    this.data = data;
    this.items = data.report.objects.map((row, index) => {
      const flags = new Set([row.verdict]);
      return { index, ref: row.object, flags, severity: this.getSeverity(flags), search: '', row };
    });
  }

  /** @param {MigratedItem} item */
  listWords({ ref, row }) {
    const differences = row.differences.flatMap((one) => [one.detail, ...one.reasons, ...(one.fields || []).map((field) => field.path)]);
    return [ref.kind, pathOf(ref), row.verdict, ...row.rules.flatMap((rule) => [rule.reason, rule.detail, rule.file || '']), ...differences];
  }
}

/** @param {UnequalRule} rule */
function getRulePlace(rule) {
  return rule.file ? rule.file + (rule.line ? ':' + rule.line : '') : '';
}

/** @param {UnequalRule} rule */
function createRule(rule) {
  const place = getRulePlace(rule);
  return createElement('li', {}, createElement('span', { class: 'tag', text: rule.reason }), ' ' + rule.detail, place ? createElement('span', { class: 'muted' }, ' ', createElement('code', { text: place + (rule.pointer || '') })) : null);
}

/** @param {SideDifference} difference */
function describeSides(difference) {
  return difference.detail + ' (' + (difference.reasons.join(', ') || 'no reason explains it') + ')';
}

/** The objects that are not placed by equal rules, the worst first. */
class MigratedList extends ItemList {
  /**
   * @param {HTMLElement} root
   * @param {(item: MigratedItem) => void} openItem
   */
  constructor(root, openItem) {
    super();
    this.root = root;
    this.openItem = openItem;
    /** @type {MigratedItem[]} */
    this.items = [];
    this.most = SHOWN_OBJECTS;
    /** @type {Map<MigratedItem, HTMLElement>} */
    this.drawn = new Map();
    window.addEventListener('beforeprint', () => this.draw());
  }

  /**
   * @param {MigratedItem[]} items
   * @param {boolean} isFiltered
   */
  setItems(items, isFiltered) {
    this.items = items;
    this.isFiltered = isFiltered;
    this.draw();
  }

  draw() {
    this.drawn.clear();
    const shown = this.items.slice(0, this.most);
    replaceChildren(
      this.root,
      shown.length === 0 ? createElement('p', { class: 'note', text: this.isFiltered ? 'No object matches the filter.' : 'Every object is placed by equal rules.' }) : createTable(['Object', 'Verdict', 'What differs', 'Reasons'], shown.map((item) => this.createRow(item)), 'Objects'),
      shown.length < this.items.length ? createElement('button', { type: 'button', text: 'Show all ' + this.items.length, click: () => this.showAll() }) : null,
    );
  }

  showAll() {
    this.most = Infinity;
    this.draw();
  }

  /** @param {MigratedItem} item */
  createRow(item) {
    const { row } = item;
    const name = row.object.kind + ' ' + pathOf(row.object);
    const button = createElement('button', { type: 'button', class: 'object', text: name, click: () => this.openItem(item) });
    const reasons = [...new Set(row.rules.map((rule) => rule.reason))];
    this.drawn.set(item, button);
    return createElement(
      'tr',
      {},
      createElement('th', { scope: 'row' }, button, row.renamed ? createElement('span', { class: 'muted', text: ' → ' + row.renamed.kind + ' ' + pathOf(row.renamed) }) : null),
      createElement('td', {}, createElement('span', { class: 'tag ' + row.verdict, text: row.verdict })),
      createElement('td', {}, ...row.differences.map((one) => createElement('div', { text: one.detail }))),
      createElement('td', { text: reasons.join(', ') }),
    );
  }

  /** @param {MigratedItem} item */
  focusItem(item) {
    if (!this.drawn.has(item)) this.showAll();
    const element = this.drawn.get(item);
    if (!element) return;
    element.scrollIntoView({ block: 'nearest' });
    element.focus({ preventScroll: true });
  }

  /**
   * @param {MigratedItem} item
   * @param {number} step
   * @returns {MigratedItem|undefined}
   */
  findNeighbor(item, step) {
    return this.items[this.items.indexOf(item) + step];
  }
}

/** @param {RandomStates} stress */
function createStates(stress) {
  const note = stress.differing === 0 ? 'No object differs in ' + countWord(stress.states, 'random state') : 'Objects differ in ' + stress.differing + ' of ' + countWord(stress.states, 'random state');
  const rows = stress.reasons.map((one) =>
    createElement(
      'tr',
      {},
      createElement('th', { scope: 'row' }, createElement('span', { class: 'tag', text: one.reason })),
      createElement('td', { text: String(one.states) }),
      createElement('td', { text: String(one.objects) }),
      createElement('td', {}, createElement('div', { text: one.example.events.join(', ') || 'as it is now' }), createElement('div', { class: 'muted', text: one.example.object.kind + ' ' + pathOf(one.example.object) + ': ' + describeSides(one.example.difference) })),
    ),
  );
  return [createElement('p', { text: note + ' (seed ' + stress.seed + ').' }), rows.length > 0 ? createTable(['Reason', 'States', 'Objects', 'Smallest state'], rows, 'Random states') : null];
}

class MigrationView extends PageView {
  /** @param {any} data */
  createModel(data) {
    return new MigrationModel(data);
  }

  /** @param {Page} page */
  createList(page) {
    this.list = new MigratedList(page.showSection('objects'), (item) => page.open(item));
    return this.list;
  }

  /** @param {Page} page */
  drawSections(page) {
    const { report, runbook } = /** @type {MigrationModel} */ (page.model).data;
    if (report.stress) replaceChildren(page.showSection('states'), ...createStates(report.stress));
    this.drawFiles(page.showSection('files'), report, SHOWN_MIGRATED_FILES);
    replaceChildren(
      page.showSection('runbook'),
      createElement('p', { class: 'muted', text: 'federate migrate writes the same text as MIGRATION.md into the folder of --out, and to the file of --runbook.' }),
      ...runbook.map((section) => createElement('details', {}, createElement('summary', { text: section.title }), createElement('pre', { class: 'runbook', tabindex: 0, 'aria-label': section.title, role: 'region', text: section.text }))),
    );
  }

  /**
   * The files that differ, and the rules that concern the repo as a whole.
   * @param {HTMLElement} root
   * @param {MigrationDocument} report
   * @param {number} most
   */
  drawFiles(root, report, most) {
    const rows = report.files.slice(0, most).map((file) => createElement('tr', {}, createElement('th', { scope: 'row' }, createElement('code', { text: file.path })), createElement('td', { text: file.change })));
    replaceChildren(
      root,
      rows.length > 0 ? createTable(['File', 'Change'], rows, 'Files') : createElement('p', { class: 'note', text: 'No file differs.' }),
      rows.length < report.files.length ? createElement('button', { type: 'button', text: 'Show all ' + countWord(report.files.length, 'file'), click: () => this.drawFiles(root, report, Infinity) }) : null,
      report.repo.length > 0 ? createElement('h3', { text: 'The repo as a whole' }) : null,
      report.repo.length > 0 ? createElement('ul', { class: 'list' }, ...report.repo.map(createRule)) : null,
    );
  }

  /**
   * @param {Page} page
   * @param {MigratedItem} item
   * @param {import('./page.js').PaneActions} actions
   */
  drawPane(page, item, actions) {
    const { report } = /** @type {MigrationModel} */ (page.model).data;
    const { row } = item;
    const [bar, heading] = createPaneHead(item, pathOf(item.ref), actions);
    const old = report.from.join(', ') || 'plain';
    replaceChildren(
      page.pane,
      bar,
      heading,
      createBadges(page.model, item),
      row.renamed ? createElement('p', { text: 'Called ' + row.renamed.kind + ' ' + pathOf(row.renamed) + ' by ' + report.to }) : null,
      createElement('h3', { text: 'What differs' }),
      row.differences.length === 0 ? createElement('p', { text: 'Every cluster receives the same now.' }) : null,
      ...row.differences.flatMap((one) => this.createDifference(one, [old, report.to])),
      createElement('h3', { text: 'Rules without an equal' }),
      row.rules.length === 0 ? createElement('p', { text: 'None.' }) : createElement('ul', { class: 'list' }, ...row.rules.map(createRule)),
    );
    return heading;
  }

  /**
   * A difference, with the values of both sides.
   * @param {SideDifference} difference
   * @param {[string, string]} sides
   */
  createDifference(difference, sides) {
    const fields = difference.fields || [];
    const rows = fields.map((field) => createElement('tr', {}, createElement('th', { scope: 'row' }, createElement('code', { text: field.path })), createElement('td', { text: valueText(field.from) }), createElement('td', { text: valueText(field.to) })));
    return [createElement('p', { text: describeSides(difference) }), rows.length > 0 ? createTable(['Field', ...sides], rows, difference.kind + ' on ' + difference.clusters.join(', ')) : null];
  }
}

startPage(new MigrationView());
