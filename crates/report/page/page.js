// A page: its frame, the list with its filter, the pane of one item, the keyboard and links. What is in them is a view's.
import { appendChildren, countWord, createElement, getElement, replaceChildren, showText } from './dom.js';
import { BaseModel, ItemList, readDocument } from './model.js';
import { matchesFilter, parseFilter } from './filter.js';

/** @typedef {{close: () => void, step: (by: number) => void, open: (item: import('./model.js').Item) => void}} PaneActions */

/** What a page of one kind shows. */
export class PageView {
  /**
   * Everything that is looked up in the data.
   * @param {any} data
   * @returns {BaseModel}
   */
  createModel(data) {
    throw new Error('no model of ' + data.kind);
  }

  /**
   * Shows the list for the first time.
   * @param {Page} page
   * @returns {ItemList}
   */
  createList(page) {
    throw new Error('no list of ' + page.model.noun);
  }

  /**
   * Goes on with other data.
   * @param {Page} page
   */
  updateList(page) {}

  /**
   * Draws what does not depend on the filter.
   * @param {Page} page
   */
  drawSections(page) {}

  /**
   * Draws what depends on the filter, besides the list.
   * @param {Page} page
   * @param {import('./model.js').Item[]} items
   */
  drawItems(page, items) {}

  /**
   * Draws an item in full, and returns the heading.
   * @param {Page} page
   * @param {import('./model.js').Item} item
   * @param {PaneActions} actions
   * @returns {HTMLElement}
   */
  drawPane(page, item, actions) {
    throw new Error('no pane of ' + page.model.getPath(item));
  }

  /**
   * Shows an item that was chosen, and moves the focus to it.
   * @param {Page} page
   * @param {import('./model.js').Item} item
   */
  showItem(page, item) {
    const heading = page.drawPane(item);
    page.pane.scrollTop = 0;
    heading.focus();
  }

  /**
   * Shows an item again that was chosen before the data changed.
   * @param {Page} page
   * @param {import('./model.js').Item} item
   */
  restoreItem(page, item) {
    page.drawPane(item);
  }

  /**
   * The document that has the data; `undefined` if there is none, which is said.
   * @returns {Promise<Document|undefined>}
   */
  async openDocument() {
    return document;
  }

  /**
   * Goes on when the page is usable.
   * @param {Page} page
   */
  start(page) {}
}

/** How long a piece of background work may take, in milliseconds. */
const PREPARE_TIME = 5;

/** How long the script waits for the first paint, in milliseconds. */
const MOST_PAINT_TIME = 500;

/** The state of the page. */
export class Page {
  /**
   * @param {PageView} view
   * @param {BaseModel} model
   */
  constructor(view, model) {
    this.view = view;
    this.model = model;
    this.text = '';
    /** @type {Set<string>} */
    this.flags = new Set();
    /** @type {import('./model.js').Item|undefined} */
    this.opened = undefined;
    this.pane = getElement('pane');
    this.filter = /** @type {HTMLInputElement} */ (createElement('input', { type: 'search', id: 'filter', placeholder: 'Filter  /', 'aria-label': 'Filter ' + model.noun + 's', autocomplete: 'off', spellcheck: 'false', input: () => this.setText(this.filter.value) }));
    this.status = createElement('span', { class: 'status muted', role: 'status' });
    this.clear = createElement('button', { type: 'button', text: 'Clear', hidden: true, click: () => this.clearFilter() });
    const theme = createElement('select', { 'aria-label': 'Theme', change: () => (document.documentElement.style.colorScheme = /** @type {HTMLSelectElement} */ (theme).value) }, ...[['light dark', 'Auto'], ['light', 'Light'], ['dark', 'Dark']].map(([value, text]) => createElement('option', { value, text })));
    replaceChildren(getElement('tools'), this.filter, this.clear, this.status, theme);
    this.list = view.createList(this);
    this.drawSections();
    document.addEventListener('click', (event) => this.handleClick(event));
    document.addEventListener('keydown', (event) => this.handleKey(event));
    window.addEventListener('hashchange', () => this.followLink());
  }

  /** Draws what does not depend on the filter, and which tiles are chosen. */
  drawSections() {
    this.view.drawSections(this);
    this.drawTiles();
  }

  drawTiles() {
    for (const tile of document.querySelectorAll('#tiles button')) {
      tile.setAttribute('aria-pressed', String(this.flags.has(/** @type {HTMLElement} */ (tile).dataset.flag || '')));
    }
  }

  /** A tile filters by its flag; a button of the verdict by several. @param {Event} event */
  handleClick(event) {
    const button = event.target instanceof Element ? event.target.closest('#tiles button, #verdict button[data-flags]') : null;
    if (!(button instanceof HTMLElement)) return;
    if (button.dataset.flags) this.showFlags(button.dataset.flags.split(' '));
    else this.toggleFlag(button.dataset.flag || '');
  }

  /**
   * Goes on with another page: its verdict and its data. What was chosen stays chosen.
   * @param {Document} page
   * @param {BaseModel} model
   */
  show(page, model) {
    const focused = document.activeElement;
    const scrolled = window.scrollY;
    document.title = page.title;
    for (const place of ['.bar strong', '.bar .sides', '.bar nav', '#main']) {
      const [old, fresh] = [document, page].map((one) => one.querySelector(place));
      if (old && fresh) old.replaceChildren(...document.importNode(fresh, true).childNodes);
    }
    this.setModel(model);
    window.scrollTo({ top: scrolled, behavior: 'instant' });
    if (focused instanceof HTMLElement && focused !== document.activeElement && document.contains(focused)) focused.focus({ preventScroll: true });
  }

  /**
   * Goes on with other data. What was chosen stays chosen.
   * @param {BaseModel} model
   */
  setModel(model) {
    const opened = this.opened && this.model.getPath(this.opened);
    this.model = model;
    this.view.updateList(this);
    this.drawSections();
    this.update();
    const item = opened === undefined ? undefined : model.findItem(opened);
    if (item) this.view.restoreItem(this, item);
    else if (this.opened) this.close();
  }

  /**
   * Shows a section, and returns what is drawn into.
   * @param {string} id
   * @returns {HTMLElement}
   */
  showSection(id) {
    const section = getElement(id);
    section.hidden = false;
    return /** @type {HTMLElement} */ (section.querySelector('.body'));
  }

  /** @param {string} text */
  setText(text) {
    this.text = text;
    this.update();
  }

  /** Filters by a text alone, or no more. @param {string} text */
  toggleText(text) {
    this.filter.value = this.text === text ? '' : text;
    this.setText(this.filter.value);
  }

  /** @param {string} flag */
  toggleFlag(flag) {
    if (!this.flags.delete(flag)) this.flags.add(flag);
    this.drawTiles();
    this.update();
  }

  clearFilter() {
    this.setFilter([]);
    this.filter.focus();
  }

  /** Shows the items that have one of some flags. @param {string[]} flags */
  showFlags(flags) {
    this.setFilter(flags);
    getElement('matrix').scrollIntoView();
    this.filter.focus({ preventScroll: true });
  }

  /** Filters by flags alone. @param {string[]} flags */
  setFilter(flags) {
    this.filter.value = '';
    this.text = '';
    this.flags = new Set(flags);
    this.drawTiles();
    this.update();
  }

  /** Filters the items, and draws what depends on them. */
  update() {
    const terms = parseFilter(this.text);
    const isFiltered = terms.length > 0 || this.flags.size > 0;
    const items = this.model.items.filter((item) => matchesFilter(this.model, item, terms, this.flags));
    this.list.setItems(items, isFiltered);
    this.clear.hidden = !isFiltered;
    this.status.textContent = isFiltered ? items.length + ' of ' + countWord(this.model.items.length, this.model.noun) : '';
    // What is far below is drawn when there is time.
    clearTimeout(this.later);
    this.later = setTimeout(() => this.view.drawItems(this, items), isFiltered ? 120 : 0);
  }

  /** @param {import('./model.js').Item} item */
  open(item) {
    this.view.showItem(this, item);
    history.replaceState(null, '', '#' + encodePath(this.model.getPath(item)));
  }

  /**
   * Draws the pane of an item, and returns its heading.
   * @param {import('./model.js').Item} item
   */
  drawPane(item) {
    this.opened = item;
    this.pane.hidden = false;
    document.body.classList.add('has-pane');
    return this.view.drawPane(this, item, {
      close: () => this.close(),
      step: (by) => this.step(by),
      open: (other) => this.open(other),
    });
  }

  close() {
    const item = this.opened;
    this.opened = undefined;
    this.pane.hidden = true;
    document.body.classList.remove('has-pane');
    history.replaceState(null, '', location.pathname + location.search);
    if (item) this.list.focusItem(item);
  }

  /** @param {number} by */
  step(by) {
    const next = this.opened && this.list.findNeighbor(this.opened, by);
    if (next) this.open(next);
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === 'Escape') {
      if (this.opened) this.close();
      else if (this.text !== '' || this.flags.size > 0) this.clearFilter();
      else return;
    } else if (isTyping || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (event.key === '/') {
      this.filter.focus();
      this.filter.select();
    } else if (this.opened && (event.key === 'j' || event.key === 'k')) {
      this.step(event.key === 'j' ? 1 : -1);
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Opens the item that the address names. */
  followLink() {
    const fragment = decodePath(location.hash.slice(1));
    if (fragment === '' || document.getElementById(fragment)) return;
    const item = this.model.findItem(fragment);
    if (item) this.open(item);
    else this.status.textContent = showText(fragment) + ' is not in this report';
  }
}

/**
 * The head of a pane: buttons, and the heading.
 * @param {import('./model.js').Item} item
 * @param {string} name
 * @param {PaneActions} actions
 * @returns {[HTMLElement, HTMLElement]}
 */
export function createPaneHead(item, name, actions) {
  return [
    createElement(
      'div',
      { class: 'pane-bar' },
      createElement('button', { type: 'button', 'aria-label': 'Previous', text: '↑', click: () => actions.step(-1) }),
      createElement('button', { type: 'button', 'aria-label': 'Next', text: '↓', click: () => actions.step(1) }),
      createElement('button', { type: 'button', class: 'close', 'aria-label': 'Close', text: '✕', click: actions.close }),
    ),
    createElement('h2', { tabindex: -1, id: 'pane-title' }, createElement('span', { class: 'muted', text: item.ref.kind + ' ' }), name),
  ];
}

/**
 * The flags of an item, as tags.
 * @param {BaseModel} model
 * @param {import('./model.js').Item} item
 */
export function createBadges(model, item) {
  const flags = model.flags.filter((flag) => item.flags.has(flag));
  if (flags.length === 0) return null;
  return createElement('p', { class: 'badges' }, ...flags.map((flag) => createElement('span', { class: 'tag ' + flag, text: model.flagWords[flag].join(' ') })));
}

/**
 * A table in a box that scrolls.
 * @param {string[]} heads
 * @param {HTMLElement[]} rows
 * @param {string} [label]
 */
export function createTable(heads, rows, label) {
  const table = createElement('table', {}, createElement('thead', {}, createElement('tr', {}, ...heads.map((text) => createElement('th', { scope: 'col', text })))), createElement('tbody', {}, ...rows));
  return createElement('div', label ? { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label + ' as a table' } : { class: 'scroll' }, table);
}

/** @param {string} path */
function encodePath(path) {
  return path.split('/').map(encodeURIComponent).join('/');
}

/** @param {string} fragment */
function decodePath(fragment) {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return fragment;
  }
}

/** Waits until the verdict is painted, or for a moment in a hidden page, where it never is. */
function waitForPaint() {
  return new Promise((done) => {
    new PerformanceObserver(done).observe({ type: 'paint', buffered: true });
    setTimeout(done, MOST_PAINT_TIME);
  });
}

/**
 * Writes down, bit by bit, what the filter searches, so that the first key does not wait for it.
 * @param {Page} page
 */
function prepareSearch(page) {
  const items = page.model.items;
  let at = 0;
  const prepare = () => {
    if (page.model.items !== items) return;
    const end = performance.now() + PREPARE_TIME;
    for (; at < items.length && performance.now() < end; at += 1) page.model.getSearchText(items[at]);
    if (at < items.length) setTimeout(prepare);
  };
  setTimeout(prepare);
}

/**
 * Draws the page.
 * @param {PageView} view
 */
export async function startPage(view) {
  try {
    if (typeof DecompressionStream === 'undefined') {
      appendChildren(getElement('verdict'), [createElement('p', { class: 'note', text: 'This browser cannot unpack the data (it has no DecompressionStream): the rest of the page needs a newer one.' })]);
      return;
    }
    await waitForPaint();
    performance.mark('federate-start');
    const opened = await view.openDocument();
    if (!opened) return;
    const page = new Page(view, view.createModel(await readDocument(opened)));
    page.update();
    page.followLink();
    view.start(page);
    performance.mark('federate-usable');
    document.documentElement.dataset.state = 'usable';
    prepareSearch(page);
  } catch (error) {
    appendChildren(getElement('verdict'), [createElement('p', { class: 'note', role: 'alert', text: 'The page could not be drawn: ' + error })]);
    throw error;
  }
}
