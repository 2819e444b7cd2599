// The page of `check`: findings file by file, each with its line; causes stand before what follows from them.
import { countWord, createElement, replaceChildren } from './dom.js';
import { BaseModel, ItemList, pathOf } from './model.js';
import { Page, PageView, startPage } from './page.js';
import { followPage, openServedPage } from './live.js';

/** @typedef {{severity: 'error'|'warning', code: string, file?: string, line?: number, column?: number, object?: import('./model.js').ObjectRef, message: string, help?: string, page: string, quote?: string, link: string}} QuotedFinding */
/** @typedef {{findings: QuotedFinding[]}} CheckDocument */
/** @typedef {{index: number, ref: import('./model.js').ObjectRef, flags: Set<string>, severity: number, search: string, finding: QuotedFinding}} FindingItem */

/** Files and findings of a file that are shown before a button. */
const SHOWN_FILES = 50;
const SHOWN_OF_FILE = 20;

/** @extends {BaseModel<FindingItem>} */
class CheckModel extends BaseModel {
  /** @param {CheckDocument} data */
  constructor(data) {
    super([], { error: ['✕', 'error'], warning: ['!', 'warning'] });
    this.noun = 'finding';
    this.items = data.findings.map((finding, index) => {
      const flags = new Set([/** @type {string} */ (finding.severity)]);
      return { index, ref: finding.object || { apiVersion: '', kind: '', name: '' }, flags, severity: this.getSeverity(flags), search: '', finding };
    });
  }

  /** @param {FindingItem} item */
  getPath(item) {
    return item.finding.link;
  }

  /**
   * The finding of a link; of a file or a line, the first one.
   * @param {string} fragment
   */
  findItem(fragment) {
    return this.items.find((item) => item.finding.link === fragment) || this.items.find((item) => getPlace(item.finding) === fragment || item.finding.file === fragment || item.finding.code === fragment);
  }

  /** @param {FindingItem} item */
  listWords({ finding }) {
    return [finding.code, finding.file || '', finding.message, finding.help || '', finding.quote || '', finding.object ? finding.object.kind + ' ' + pathOf(finding.object) : ''];
  }
}

/** @param {QuotedFinding} finding */
function getPlace(finding) {
  return finding.file ? finding.file + (finding.line ? ':' + finding.line : '') : '';
}

/** The findings, as a list of files. */
class FindingList extends ItemList {
  /**
   * @param {HTMLElement} root
   * @param {(item: FindingItem) => void} openItem
   */
  constructor(root, openItem) {
    super();
    this.root = root;
    this.openItem = openItem;
    /** @type {FindingItem[]} */
    this.items = [];
    /** The files, in the order of their first findings. @type {Map<string, FindingItem[]>} */
    this.files = new Map();
    /** The files of which all findings are shown. @type {Set<string>} */
    this.unfolded = new Set();
    this.mostFiles = SHOWN_FILES;
    /** @type {Map<FindingItem, HTMLElement>} */
    this.drawn = new Map();
    window.addEventListener('beforeprint', () => this.draw());
  }

  /**
   * @param {FindingItem[]} items
   * @param {boolean} isFiltered
   */
  setItems(items, isFiltered) {
    this.items = items;
    this.isFiltered = isFiltered;
    this.files = new Map();
    for (const item of items) {
      const file = item.finding.file || '';
      const known = this.files.get(file);
      if (known) known.push(item);
      else this.files.set(file, [item]);
    }
    this.draw();
  }

  draw() {
    this.drawn.clear();
    const files = [...this.files];
    const shown = files.slice(0, this.mostFiles);
    replaceChildren(
      this.root,
      files.length === 0 ? createElement('p', { class: 'note', text: this.isFiltered ? 'No finding matches the filter.' : 'Nothing is wrong.' }) : null,
      ...shown.map(([file, items]) => this.createFile(file, items)),
      shown.length < files.length ? createElement('button', { type: 'button', text: 'Show all ' + files.length + ' files', click: () => this.showMore(() => (this.mostFiles = Infinity)) }) : null,
    );
  }

  /** @param {() => void} change */
  showMore(change) {
    change();
    this.draw();
  }

  /**
   * @param {string} file
   * @param {FindingItem[]} items
   */
  createFile(file, items) {
    const errors = items.filter((item) => item.flags.has('error')).length;
    const counts = [errors ? countWord(errors, 'error') : '', items.length > errors ? countWord(items.length - errors, 'warning') : ''].filter(Boolean).join(', ');
    const shown = this.unfolded.has(file) ? items : items.slice(0, SHOWN_OF_FILE);
    return createElement(
      'section',
      { class: 'file' },
      createElement('h3', {}, file ? createElement('code', { text: file }) : 'The repo', createElement('span', { class: 'muted', text: ' ' + counts })),
      ...shown.map((item) => this.createFinding(item)),
      shown.length < items.length ? createElement('button', { type: 'button', text: 'Show all ' + items.length, click: () => this.showMore(() => this.unfolded.add(file)) }) : null,
    );
  }

  /** @param {FindingItem} item */
  createFinding(item) {
    const { finding } = item;
    const isError = finding.severity === 'error';
    const place = finding.line ? 'line ' + finding.line : finding.file ? '' : 'repo';
    const element = createElement(
      'article',
      { class: 'finding ' + finding.severity, tabindex: -1, 'aria-label': finding.severity + ' ' + finding.code + (place && ', ' + place) },
      createElement(
        'p',
        {},
        createElement('b', { class: isError ? 'bad' : '', text: isError ? '✕ error' : '! warning' }),
        ' ',
        createElement('a', { href: '#' + finding.link.split('/').map(encodeURIComponent).join('/'), class: 'place', text: place || 'link', click: (/** @type {Event} */ event) => this.follow(event, item) }),
        ' ',
        finding.page.startsWith('https://') ? createElement('a', { class: 'tag', href: finding.page, rel: 'noreferrer', text: finding.code }) : createElement('span', { class: 'tag', text: finding.code }),
        finding.object ? createElement('span', { class: 'muted', text: ' ' + finding.object.kind + ' ' + pathOf(finding.object) }) : null,
      ),
      createElement('p', { text: finding.message }),
      finding.quote === undefined ? null : createQuote(finding),
      finding.help ? createElement('p', { class: 'muted', text: finding.help }) : null,
    );
    this.drawn.set(item, element);
    return element;
  }

  /**
   * @param {Event} event
   * @param {FindingItem} item
   */
  follow(event, item) {
    event.preventDefault();
    this.openItem(item);
  }

  /**
   * Shows a finding, and moves the focus to it.
   * @param {FindingItem} item
   */
  focusItem(item) {
    if (!this.drawn.has(item)) this.showMore(() => (this.unfolded.add(item.finding.file || ''), (this.mostFiles = Infinity)));
    const element = this.drawn.get(item);
    if (!element) return;
    element.scrollIntoView({ block: 'center' });
    element.focus({ preventScroll: true });
  }

  /**
   * @param {FindingItem} item
   * @param {number} step
   * @returns {FindingItem|undefined}
   */
  findNeighbor(item, step) {
    const all = [...this.files.values()].flat();
    return all[all.indexOf(item) + step];
  }
}

/**
 * The line of a finding, marked from its column on.
 * @param {QuotedFinding} finding
 */
function createQuote(finding) {
  const line = finding.quote || '';
  const signs = [...line];
  const from = Math.min(Math.max(0, (finding.column || 1) - 1), signs.length);
  return createElement(
    'pre',
    { class: 'quote' },
    createElement('span', { class: 'muted', 'aria-hidden': 'true', text: String(finding.line || 1).padStart(4) + ' │ ' }),
    signs.slice(0, from).join(''),
    createElement('mark', { text: signs.slice(from).join('') }),
  );
}

class CheckView extends PageView {
  /** @param {any} data */
  createModel(data) {
    return new CheckModel(data);
  }

  /** @param {Page} page */
  createList(page) {
    this.list = new FindingList(page.showSection('findings'), (item) => page.open(item));
    return this.list;
  }

  /** @param {Page} page */
  updateList(page) {
    if (this.list) this.list.root = page.showSection('findings');
  }

  /**
   * @param {Page} page
   * @param {FindingItem} item
   */
  showItem(page, item) {
    page.opened = item;
    if (this.list) this.list.focusItem(item);
  }

  /**
   * @param {Page} page
   * @param {FindingItem} item
   */
  restoreItem(page, item) {
    page.opened = item;
  }

  openDocument() {
    return openServedPage();
  }

  /** @param {Page} page */
  start(page) {
    followPage(page);
  }
}

startPage(new CheckView());
