// Draws the page from its data, and answers to the filter, the keyboard and links.
import { appendChildren, countWord, createElement, getElement, replaceChildren, showText } from './dom.js';
import { Model, pathOf, readDocument } from './data.js';
import { matchesFilter, parseFilter } from './filter.js';
import { Matrix } from './matrix.js';
import { drawMoves } from './moves.js';
import { drawValues } from './values.js';
import { drawCapacity } from './capacity.js';
import { drawFindings } from './findings.js';
import { drawPane } from './pane.js';
import { LiveControls, followState, getServedState, requestExplanation, requestPage } from './live.js';

/** The state of the page. */
class Page {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.text = '';
    /** @type {Set<string>} */
    this.flags = new Set();
    /** @type {import('./data.js').Item|undefined} */
    this.opened = undefined;
    this.pane = getElement('pane');
    this.filter = /** @type {HTMLInputElement} */ (createElement('input', { type: 'search', id: 'filter', placeholder: 'Filter  /', 'aria-label': 'Filter objects', autocomplete: 'off', spellcheck: 'false', input: () => this.setText(this.filter.value) }));
    this.status = createElement('span', { class: 'status muted', role: 'status' });
    this.clear = createElement('button', { type: 'button', text: 'Clear', hidden: true, click: () => this.clearFilter() });
    const theme = createElement('select', { 'aria-label': 'Theme', change: () => (document.documentElement.style.colorScheme = /** @type {HTMLSelectElement} */ (theme).value) }, ...[['light dark', 'Auto'], ['light', 'Light'], ['dark', 'Dark']].map(([value, text]) => createElement('option', { value, text })));
    replaceChildren(getElement('tools'), this.filter, this.clear, this.status, theme);
    /** What a served page asks with. @type {LiveControls|undefined} */
    this.live = getServedState() === undefined ? undefined : new LiveControls(model.data.clusters.map((cluster) => cluster.name), (question) => this.ask(question));
    /** The question that waits for its answer. @type {AbortController|undefined} */
    this.waiting = undefined;
    const toggle = this.live && ((/** @type {string} */ cluster) => this.live && this.live.toggleLoss(cluster));
    this.matrix = new Matrix(model, this.showSection('matrix'), (item) => this.open(item), toggle);
    this.drawSections();
    document.addEventListener('keydown', (event) => this.handleKey(event));
    window.addEventListener('hashchange', () => this.followLink());
  }

  /** Draws what does not depend on the filter, and listens to the tiles. */
  drawSections() {
    if (this.live) getElement('verdict').after(this.live.element);
    if (document.getElementById('capacity')) drawCapacity(this.model, this.showSection('capacity'));
    if (document.getElementById('findings')) drawFindings(this.model, this.showSection('findings'), (item) => this.open(item));
    for (const tile of document.querySelectorAll('#tiles button')) {
      const flag = /** @type {HTMLElement} */ (tile).dataset.flag || '';
      tile.setAttribute('aria-pressed', String(this.flags.has(flag)));
      tile.addEventListener('click', () => this.toggleFlag(/** @type {HTMLElement} */ (tile)));
    }
  }

  /**
   * Asks the server, and shows its answer unless a newer question has been asked.
   * @param {import('./live.js').LiveQuestion} question
   */
  async ask(question) {
    const live = this.live;
    if (!live) return;
    if (this.waiting) this.waiting.abort();
    const waiting = new AbortController();
    this.waiting = waiting;
    live.say('Working it out …');
    try {
      const answer = await requestPage(question, waiting.signal);
      const model = new Model(await readDocument(answer));
      if (this.waiting !== waiting) return;
      this.waiting = undefined;
      live.say('');
      this.show(answer, model);
    } catch (error) {
      if (this.waiting !== waiting) return;
      this.waiting = undefined;
      live.say(String(error instanceof Error ? error.message : error), true);
    }
  }

  /**
   * Goes on with another page: its verdict and its data. What was chosen stays chosen.
   * @param {Document} page
   * @param {Model} model
   */
  show(page, model) {
    const opened = this.opened && this.opened.ref.kind + '/' + pathOf(this.opened.ref);
    const focused = document.activeElement;
    const scrolled = window.scrollY;
    document.title = page.title;
    for (const place of ['.bar strong', '.bar .sides', '.bar nav', '#main']) {
      const [old, fresh] = [document, page].map((one) => one.querySelector(place));
      if (old && fresh) old.replaceChildren(...document.importNode(fresh, true).childNodes);
    }
    this.model = model;
    this.matrix.setModel(model, this.showSection('matrix'));
    if (this.live) this.live.setClusters(model.data.clusters.map((cluster) => cluster.name));
    this.drawSections();
    this.update();
    window.scrollTo({ top: scrolled, behavior: 'instant' });
    const item = opened === undefined ? undefined : model.findItem(opened);
    if (item) this.draw(item);
    else if (this.opened) this.close();
    if (focused instanceof HTMLElement && focused !== document.activeElement && document.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** Asks again when the repo has changed. */
  followRepo() {
    const live = this.live;
    if (!live) return;
    followState(getServedState() || 0, {
      changed: (error) => {
        if (error) live.say('The repo cannot be read: ' + error, true);
        else this.ask(live.question);
      },
      lost: () => live.say('The server does not answer. It may have ended: start `federate serve` again, and open its new address.', true),
    });
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

  /** @param {HTMLElement} tile */
  toggleFlag(tile) {
    const flag = tile.dataset.flag || '';
    if (!this.flags.delete(flag)) this.flags.add(flag);
    tile.setAttribute('aria-pressed', String(this.flags.has(flag)));
    this.update();
  }

  clearFilter() {
    this.filter.value = '';
    this.text = '';
    this.flags.clear();
    for (const tile of document.querySelectorAll('#tiles button')) tile.setAttribute('aria-pressed', 'false');
    this.update();
    this.filter.focus();
  }

  /** Filters the objects, and draws what depends on them. */
  update() {
    const terms = parseFilter(this.text);
    const isFiltered = terms.length > 0 || this.flags.size > 0;
    const items = this.model.items.filter((item) => matchesFilter(this.model, item, terms, this.flags));
    this.matrix.setItems(items, isFiltered);
    this.clear.hidden = !isFiltered;
    this.status.textContent = isFiltered ? items.length + ' of ' + countWord(this.model.items.length, 'object') : '';
    if (this.model.isDiff) {
      // What is far below is drawn when there is time.
      clearTimeout(this.later);
      this.later = setTimeout(() => {
        drawMoves(this.model, this.showSection('moves'), items);
        if (document.getElementById('values')) drawValues(this.model, this.showSection('values'), items, (item) => this.open(item));
      }, isFiltered ? 120 : 0);
    }
  }

  /** @param {import('./data.js').Item} item */
  open(item) {
    const heading = this.draw(item);
    this.pane.scrollTop = 0;
    heading.focus();
    history.replaceState(null, '', '#' + encodePath(item.ref.kind + '/' + pathOf(item.ref)));
  }

  /**
   * Draws the pane of an object. A served page gets the explanation then.
   * @param {import('./data.js').Item} item
   */
  draw(item) {
    this.opened = item;
    this.pane.hidden = false;
    document.body.classList.add('has-pane');
    const model = this.model;
    if (this.live && !model.explanations.has(item.index)) {
      requestExplanation(model, item).then((explanation) => {
        if (!explanation || this.opened !== item) return;
        model.explanations.set(item.index, explanation);
        const hadFocus = this.pane.contains(document.activeElement);
        const heading = this.draw(item);
        if (hadFocus) heading.focus();
      }, () => undefined);
    }
    return drawPane(model, this.pane, item, {
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
    if (item) this.matrix.focusItem(item);
  }

  /** @param {number} by */
  step(by) {
    const next = this.opened && this.matrix.findNeighbor(this.opened, by);
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

  /** Opens the object that the address names. */
  followLink() {
    const fragment = decodePath(location.hash.slice(1));
    if (fragment === '' || document.getElementById(fragment)) return;
    const item = this.model.findItem(fragment);
    if (item) this.open(item);
    else this.status.textContent = showText(fragment) + ' is not in this report';
  }
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

async function start() {
  // The token is in the cookie now.
  if (getServedState() !== undefined && location.search) history.replaceState(null, '', location.pathname + location.hash);
  if (typeof DecompressionStream === 'undefined') {
    appendChildren(getElement('verdict'), [createElement('p', { class: 'note', text: 'This browser cannot unpack the data (it has no DecompressionStream): the rest of the page needs a newer one.' })]);
    return;
  }
  performance.mark('federate-start');
  const page = new Page(new Model(await readDocument(document)));
  page.update();
  page.followLink();
  page.followRepo();
  performance.mark('federate-usable');
  document.documentElement.dataset.state = 'usable';
}

start().catch((error) => {
  appendChildren(getElement('verdict'), [createElement('p', { class: 'note', role: 'alert', text: 'The page could not be drawn: ' + error })]);
  throw error;
});
