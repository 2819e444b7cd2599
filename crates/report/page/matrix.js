// The matrix: one row per item, one column per cluster or region. Only the rows that can be seen have elements.
import { appendChildren, countWord, createElement, replaceChildren } from './dom.js';
import { BaseModel, CellView, ItemList, pathOf } from './model.js';

/** The width of a tick, in pixels. */
export const TICK = 6;

/** With so many clusters, each has a column with words. */
const FEW_CLUSTERS = 14;

/** So many rows of a group that only restart or change fields are shown before they are folded. */
const FOLD_FROM = 3;

/** The width of the column with totals, in pixels. */
const TOTAL_WIDTH = 104;

/** How far beyond what can be seen rows and cells are drawn, in pixels. */
const DRAWN_BEYOND = 120;

/** The pixels to whose multiples cells are drawn, so that they are drawn again only when that much has been scrolled. */
const DRAWN_WIDTH = 400;

/** Rows that are printed. */
const PRINTED_ROWS = 400;

/** @typedef {{kind: 'group', name: string, items: import('./model.js').Item[]} | {kind: 'item', item: import('./model.js').Item} | {kind: 'fold', group: string, items: import('./model.js').Item[]}} MatrixRow */
/** @typedef {{name: string, title: string, width: number, clusters: number[], isCluster: boolean, region?: string}} MatrixColumn */

export class Matrix extends ItemList {
  /**
   * @param {BaseModel} model
   * @param {CellView} cells
   * @param {HTMLElement} root
   * @param {(item: import('./model.js').Item) => void} openItem
   * @param {(cluster: string) => void} [toggleCluster] what a click on a cluster does, if it does anything
   */
  constructor(model, cells, root, openItem, toggleCluster) {
    super();
    this.model = model;
    this.cells = cells;
    this.openItem = openItem;
    this.toggleCluster = toggleCluster;
    /** @type {number|undefined} */
    this.width = undefined;
    /** @type {MatrixColumn[]} */
    this.columns = [];
    this.columnsBy = model.hasRegions && model.columns.length > FEW_CLUSTERS ? 'region' : 'cluster';
    /** @type {Set<string>} */
    this.openRegions = new Set();
    this.groupBy = model.groupings[0][0];
    this.isAll = !model.isDiff;
    /** @type {Set<string>} */
    this.unfolded = new Set();
    this.isFiltered = false;
    /** @type {import('./model.js').Item[]} */
    this.items = [];
    /** @type {MatrixRow[]} */
    this.rows = [];
    /** The top of each row, and the height of all. @type {number[]} */
    this.tops = [0];
    this.focus = { row: 0, column: 0 };
    /** The rows that have elements. @type {Map<number, HTMLElement>} */
    this.drawn = new Map();
    /** What the drawn header and the cells of the drawn rows depend on, besides their items. */
    this.layout = '';
    /** The pixels between which cells are drawn, from the left of the first column. @type {[number, number]} */
    this.drawnWidth = [0, Infinity];
    this.head = createElement('div', { class: 'matrix-head', role: 'row', 'aria-rowindex': 1 });
    this.space = createElement('div', { class: 'matrix-rows', role: 'rowgroup', click: (/** @type {Event} */ event) => this.handleClick(event) });
    this.box = createElement(
      'div',
      {
        class: 'matrix-box',
        role: 'grid',
        'aria-label': model.title,
        keydown: (/** @type {KeyboardEvent} */ event) => this.handleKey(event),
        scroll: () => this.handleScroll(),
      },
      createElement('div', { class: 'matrix-headgroup', role: 'rowgroup' }, this.head),
      this.space,
    );
    this.controls = createElement('div', { class: 'controls' });
    this.empty = createElement('p', { class: 'note', hidden: true });
    this.mount(root);
    new ResizeObserver(() => this.handleResize()).observe(this.box);
    window.addEventListener('beforeprint', () => this.printRows());
    window.addEventListener('afterprint', () => this.update());
  }

  /**
   * Shows itself in an element.
   * @param {HTMLElement} root
   */
  mount(root) {
    const top = this.box.scrollTop;
    replaceChildren(root, this.controls, this.empty, this.box);
    this.box.scrollTop = top;
    this.drawControls();
  }

  /**
   * Goes on with other data, as the same view.
   * @param {BaseModel} model
   * @param {CellView} cells
   * @param {HTMLElement} root
   */
  setModel(model, cells, root) {
    if (model.isDiff !== this.model.isDiff) this.isAll = !model.isDiff;
    if (model.columns.length <= FEW_CLUSTERS) this.columnsBy = 'cluster';
    else if (model.hasRegions && this.model.columns.length <= FEW_CLUSTERS) this.columnsBy = 'region';
    if (model.groupings.every(([key]) => key !== this.groupBy)) this.groupBy = model.groupings[0][0];
    this.model = model;
    this.cells = cells;
    this.layout = '';
    this.mount(root);
  }

  isNarrow() {
    return window.matchMedia('(max-width: 760px)').matches;
  }

  handleResize() {
    const width = this.box.clientWidth;
    if (width === this.width) return;
    this.width = width;
    this.update();
  }

  handleScroll() {
    if (this.computeDrawnWidth().join() === this.drawnWidth.join()) this.drawRows();
    else this.update();
  }

  /**
   * The pixels between which cells are drawn, in steps, so that they seldom change.
   * @returns {[number, number]}
   */
  computeDrawnWidth() {
    if (this.isNarrow()) return [0, Infinity];
    const step = (/** @type {number} */ pixels) => Math.floor(pixels / DRAWN_WIDTH) * DRAWN_WIDTH;
    const left = this.box.scrollLeft - TOTAL_WIDTH;
    const width = (this.box.clientWidth || 900) - this.nameWidth();
    return [step(left - DRAWN_BEYOND), step(left + width + DRAWN_BEYOND) + DRAWN_WIDTH];
  }

  drawControls() {
    const choice = (/** @type {string} */ label, /** @type {[string, string][]} */ options, /** @type {string} */ value, /** @type {(value: string) => void} */ choose) =>
      createElement(
        'span',
        { class: 'choice', role: 'group', 'aria-label': label },
        ...options.map(([key, text]) =>
          createElement('button', {
            type: 'button',
            text,
            'aria-pressed': String(key === value),
            click: () => {
              choose(key);
              this.drawControls();
              this.update();
            },
          }),
        ),
      );
    replaceChildren(
      this.controls,
      this.model.isDiff ? choice('Objects', [['changed', 'Changed'], ['all', 'All']], this.isAll ? 'all' : 'changed', (key) => (this.isAll = key === 'all')) : null,
      this.model.hasRegions && this.model.columns.length > FEW_CLUSTERS
        ? choice('Columns', [['region', 'Regions'], ['cluster', 'Clusters']], this.columnsBy, (key) => (this.columnsBy = key))
        : null,
      this.model.groupings.length > 1 ? choice('Groups', this.model.groupings, this.groupBy, (key) => (this.groupBy = key)) : null,
    );
  }

  /**
   * Shows the items that a filter lets through.
   * @param {import('./model.js').Item[]} items
   * @param {boolean} isFiltered
   */
  setItems(items, isFiltered) {
    this.items = items;
    this.isFiltered = isFiltered;
    this.update();
  }

  /** Computes rows and columns again, and draws what can be seen. */
  update() {
    const hadFocus = this.box.contains(document.activeElement);
    const shown = this.drawn.size > 0 ? this.listDrawnItems() : new Map();
    this.columns = this.createColumns();
    this.rows = this.createRows();
    const narrow = this.isNarrow();
    this.tops = [0];
    let height = 0;
    for (const row of this.rows) {
      height += row.kind === 'group' ? 36 : narrow ? 58 : 30;
      this.tops.push(height);
    }
    this.space.style.height = height + 'px';
    this.box.setAttribute('aria-rowcount', String(this.rows.length + 1));
    this.box.hidden = this.rows.length === 0;
    this.empty.hidden = this.rows.length > 0;
    replaceChildren(this.empty, this.isFiltered ? 'No ' + this.model.noun + ' matches the filter.' : this.model.emptyText);
    this.focus.row = Math.min(this.focus.row, Math.max(0, this.rows.length - 1));
    const isKept = !this.updateLayout(narrow);
    this.drawn.clear();
    this.drawRows(isKept ? shown : new Map());
    if (hadFocus) this.focusCell();
  }

  /**
   * Draws the header anew if the columns have changed, and says whether they have.
   * @param {boolean} narrow
   */
  updateLayout(narrow) {
    const name = this.nameWidth();
    this.drawnWidth = this.computeDrawnWidth();
    const layout = JSON.stringify([narrow, name, this.drawnWidth, this.columns.map((column) => [column.name, column.width, column.isCluster])]);
    if (layout === this.layout) return false;
    this.layout = layout;
    const width = this.columns.reduce((sum, column) => sum + column.width, 0);
    this.space.style.width = narrow ? '100%' : name + TOTAL_WIDTH + width + 'px';
    this.head.style.width = this.space.style.width;
    this.box.setAttribute('aria-colcount', String(this.columns.length + 2));
    this.drawHead();
    return true;
  }

  /**
   * The elements of the items that are drawn.
   * @returns {Map<import('./model.js').Item, HTMLElement>}
   */
  listDrawnItems() {
    /** @type {Map<import('./model.js').Item, HTMLElement>} */
    const items = new Map();
    for (const [at, element] of this.drawn) {
      const row = this.rows[at];
      if (row && row.kind === 'item') items.set(row.item, element);
    }
    return items;
  }

  nameWidth() {
    return Math.max(200, Math.min(380, Math.round((this.box.clientWidth || 900) * 0.3)));
  }

  /** @returns {MatrixColumn[]} */
  createColumns() {
    const clusters = this.model.columns;
    const few = clusters.length <= FEW_CLUSTERS;
    const column = (/** @type {number} */ at, /** @type {string|undefined} */ region) => ({
      name: clusters[at].name,
      title: clusters[at].name + (clusters[at].region ? ', ' + clusters[at].region : ''),
      width: few ? 104 : 34,
      clusters: [at],
      isCluster: true,
      region,
    });
    if (few || this.columnsBy === 'cluster') {
      return this.model.regions.flatMap((region) => region.clusters.map((at) => column(at, region.name)));
    }
    return this.model.regions.flatMap((region) => {
      const all = {
        name: region.name,
        title: region.name + ', ' + countWord(region.clusters.length, 'cluster'),
        width: Math.max(104, region.clusters.length * TICK + 92),
        clusters: region.clusters,
        isCluster: false,
        region: region.name,
      };
      return this.openRegions.has(region.name) ? [all, ...region.clusters.map((at) => ({ ...column(at, region.name), width: 76 }))] : [all];
    });
  }

  /** @returns {MatrixRow[]} */
  createRows() {
    /** @type {Map<string, import('./model.js').Item[]>} */
    const groups = new Map();
    for (const item of sortBySeverity(this.items)) {
      if (!this.isAll && item.flags.size === 0) continue;
      const name = this.model.getGroup(item, this.groupBy);
      const known = groups.get(name);
      if (known) known.push(item);
      else groups.set(name, [item]);
    }
    const sorted = [...groups].map(([name, items]) => ({ name, items }));
    sorted.sort((a, b) => a.items[0].severity - b.items[0].severity || (a.name < b.name ? -1 : 1));
    /** @type {MatrixRow[]} */
    const rows = [];
    for (const { name, items } of sorted) {
      rows.push({ kind: 'group', name, items });
      const unimportant = items.findIndex((item) => item.severity >= this.model.foldFrom);
      const rest = unimportant < 0 ? [] : items.slice(unimportant);
      const folds = !this.isAll && !this.isFiltered && rest.length > FOLD_FROM && !this.unfolded.has(name);
      for (const item of folds ? items.slice(0, unimportant) : items) rows.push({ kind: 'item', item });
      if (folds) rows.push({ kind: 'fold', group: name, items: rest });
    }
    return rows;
  }

  drawHead() {
    const columns = this.columns;
    const cells = columns.map((column, at) => {
      const { state, words } = column.isCluster ? this.model.describeColumn(column.clusters[0]) : { state: '', words: '' };
      const label = column.isCluster
        ? this.createClusterLabel(column.name, state === 'lost')
        : createElement('button', {
            type: 'button',
            class: 'region',
            text: (this.openRegions.has(column.name) ? '▾ ' : '▸ ') + column.name,
            'aria-expanded': String(this.openRegions.has(column.name)),
            click: () => this.toggleRegion(column.name),
          });
      const cell = createElement(
        'div',
        { class: 'cell head ' + state + (column.width < 60 ? ' narrow' : ''), role: 'columnheader', 'aria-colindex': at + 3, title: column.title + (words && ', ' + words) },
        label,
        words ? createElement('span', { class: 'sr', text: ', ' + words }) : null,
      );
      cell.style.width = column.width + 'px';
      return cell;
    });
    const name = createElement('div', { class: 'cell first head', role: 'columnheader', 'aria-colindex': 1, text: this.model.noun[0].toUpperCase() + this.model.noun.slice(1) });
    name.style.width = this.nameWidth() + 'px';
    const total = createElement('div', { class: 'cell total head', role: 'columnheader', 'aria-colindex': 2, text: 'Total' });
    replaceChildren(this.head, name, total, ...cells);
    const isTall = columns.some((column) => column.width < 60);
    this.head.classList.toggle('tall', isTall);
  }

  /**
   * The name of a cluster. A click on it loses the cluster where that can be tried; by keyboard, there is the form for that.
   * @param {string} name
   * @param {boolean} isLost
   */
  createClusterLabel(name, isLost) {
    const toggle = this.toggleCluster;
    if (!toggle) return createElement('span', { class: 'name', text: name });
    const text = (isLost ? '✕ ' : '') + name;
    return createElement('button', { type: 'button', class: 'name', tabindex: -1, 'aria-pressed': String(isLost), title: isLost ? 'Bring ' + name + ' back' : 'Lose ' + name, text, click: () => toggle(name) });
  }

  /** @param {string} region */
  toggleRegion(region) {
    if (!this.openRegions.delete(region)) this.openRegions.add(region);
    this.update();
  }

  /**
   * Draws the rows in view, and removes the others, but for one that has the focus.
   * @param {Map<import('./model.js').Item, HTMLElement>} [shown] elements of items that can be used again
   */
  drawRows(shown) {
    const top = this.box.scrollTop - DRAWN_BEYOND;
    const bottom = this.box.scrollTop + (this.box.clientHeight || 600) + DRAWN_BEYOND;
    const first = Math.max(0, findRow(this.tops, top));
    let last = first;
    while (last < this.rows.length && this.tops[last] < bottom) last += 1;
    /** @type {[number, HTMLElement][]} */
    const kept = [...this.drawn].filter(([at, element]) => (at < first || at >= last) && element.contains(document.activeElement));
    for (let at = first; at < last; at += 1) {
      kept.push([at, this.drawn.get(at) || this.reuseRow(at, shown) || this.drawRow(at)]);
    }
    // Rows stand in their order, for those who read the page without its layout.
    kept.sort(([one], [other]) => one - other);
    this.drawn = new Map(kept);
    this.placeRows();
  }

  /** Makes the drawn rows the only ones that the page has, and moves none that stands where it should. */
  placeRows() {
    const drawn = new Set(this.drawn.values());
    for (const element of [...this.space.children]) {
      if (!drawn.has(/** @type {HTMLElement} */ (element))) element.remove();
    }
    let next = this.space.firstElementChild;
    for (const element of drawn) {
      if (element === next) next = next.nextElementSibling;
      else this.space.insertBefore(element, next);
    }
  }

  /**
   * The element that the item of a row has already, moved to its place. A row that can be focused, or could be, is drawn anew.
   * @param {number} at
   * @param {Map<import('./model.js').Item, HTMLElement>} [shown]
   * @returns {HTMLElement|undefined}
   */
  reuseRow(at, shown) {
    const row = this.rows[at];
    const element = shown && row.kind === 'item' && at !== this.focus.row ? shown.get(row.item) : undefined;
    if (!element || element.querySelector('[tabindex="0"]')) return undefined;
    this.placeRow(element, at);
    return element;
  }

  /**
   * @param {HTMLElement} element
   * @param {number} at
   */
  placeRow(element, at) {
    element.setAttribute('aria-rowindex', String(at + 2));
    element.style.top = this.tops[at] + 'px';
    element.style.height = this.tops[at + 1] - this.tops[at] + 'px';
  }

  /** A click on the name of an item, or on a group, opens it. @param {Event} event */
  handleClick(event) {
    const target = event.target instanceof Element ? event.target : null;
    const row = target && target.closest('.cell.first') && target.closest('[aria-rowindex]');
    if (row) this.open(Number(row.getAttribute('aria-rowindex')) - 2);
  }

  /**
   * @param {number} at
   * @returns {HTMLElement}
   */
  drawRow(at) {
    const row = this.rows[at];
    const element = createElement('div', { class: 'row ' + row.kind, role: 'row' });
    this.placeRow(element, at);
    if (row.kind === 'item') this.drawItem(element, at, row.item);
    else this.drawGroup(element, at, row);
    return element;
  }

  /**
   * @param {HTMLElement} element
   * @param {number} at
   * @param {{kind: 'group', name: string, items: import('./model.js').Item[]} | {kind: 'fold', group: string, items: import('./model.js').Item[]}} row
   */
  drawGroup(element, at, row) {
    const words = this.model.flagWords;
    const numbers = countFlags(row.items);
    const parts = this.model.flags.flatMap((flag) => (numbers.has(flag) ? [words[flag][0] + ' ' + numbers.get(flag) + ' ' + words[flag][1]] : []));
    const cell = createElement(
      'div',
      { class: 'cell first wide', role: 'gridcell', 'aria-colindex': 1, 'aria-colspan': this.columns.length + 2, tabindex: this.tabIndex(at, 0) },
      row.kind === 'group'
        ? createElement('b', { text: row.name })
        : createElement('span', { class: 'link', text: '▸ ' + countWord(row.items.length, 'more ' + this.model.noun) }),
      createElement('span', { class: 'muted', text: ' ' + (row.kind === 'group' ? countWord(row.items.length, this.model.noun) + (parts.length ? ' · ' : '') : '') + parts.join(' · ') }),
    );
    cell.dataset.column = '0';
    element.append(cell);
  }

  /**
   * @param {HTMLElement} element
   * @param {number} at
   * @param {import('./model.js').Item} item
   */
  drawItem(element, at, item) {
    const followers = this.model.countFollowers(item);
    const name = createElement(
      'div',
      { class: 'cell first', role: 'rowheader', 'aria-colindex': 1, tabindex: this.tabIndex(at, 0), title: item.ref.kind + ' ' + pathOf(item.ref) },
      createElement('span', { class: 'kind', text: item.ref.kind }),
      createElement('span', { class: 'path' }, item.ref.namespace ? createElement('span', { class: 'muted ns', text: item.ref.namespace + '/' }) : null, createElement('span', { class: 'objname', text: item.ref.name })),
      followers > 0 ? createElement('span', { class: 'muted', title: countWord(followers, 'object') + ' follow', text: '↳' + followers }) : null,
      createElement('span', { class: 'flags' }, ...createSigns(item, this.model.flagWords)),
    );
    name.dataset.column = '0';
    const total = createElement('div', { class: 'cell total', role: 'gridcell', 'aria-colindex': 2, tabindex: this.tabIndex(at, 1), text: this.cells.getTotal(item) });
    total.dataset.column = '1';
    element.append(name, total);
    if (this.isNarrow()) {
      const all = this.model.regions.flatMap((region) => region.clusters);
      element.append(createElement('div', { class: 'cell all', role: 'gridcell', 'aria-colindex': 3 }, ...this.createSummary(item, all)));
      return;
    }
    name.style.width = this.nameWidth() + 'px';
    const start = this.nameWidth() + TOTAL_WIDTH;
    const [from, to] = this.drawnWidth;
    let left = 0;
    this.columns.forEach((column, number) => {
      const isFocused = this.focus.row === at && this.focus.column === number + 2;
      const isInView = left + column.width > from && left < to;
      const cell = isInView || isFocused ? this.drawCell(item, column, isFocused) : null;
      if (cell) {
        cell.style.left = start + left + 'px';
        cell.style.width = column.width + 'px';
        cell.setAttribute('aria-colindex', String(number + 3));
        cell.setAttribute('tabindex', this.tabIndex(at, number + 2));
        cell.dataset.column = String(number + 2);
        element.append(cell);
      }
      left += column.width;
    });
  }

  /**
   * What a narrow screen shows of an object: its clusters in a strip.
   * @param {import('./model.js').Item} item
   * @param {number[]} clusters
   * @returns {Node[]}
   */
  createSummary(item, clusters) {
    const sentence = clusters.filter((at) => this.cells.getState(item, at) !== 'none').map((at) => this.cells.getSentence(item, at));
    const words = createElement('span', { class: 'sr', text: sentence.length > 0 ? sentence.join('; ') : 'on no cluster' });
    if (clusters.length > FEW_CLUSTERS) return [this.cells.createStrip(item, clusters), words];
    const chips = clusters
      .filter((at) => this.cells.getState(item, at) !== 'none')
      .map((at) => createElement('span', { class: 'chip ' + this.cells.getState(item, at), 'aria-hidden': 'true', text: this.model.columns[at].name + ' ' + this.cells.getText(item, at) }));
    return [...chips, words];
  }

  /**
   * A cell; none where there is nothing to show, unless the focus is there.
   * @param {import('./model.js').Item} item
   * @param {MatrixColumn} column
   * @param {boolean} isFocused
   * @returns {HTMLElement|null}
   */
  drawCell(item, column, isFocused) {
    if (!column.isCluster) {
      const text = this.cells.getSum(item, column.clusters);
      const region = { name: column.name, clusters: column.clusters };
      return createElement(
        'div',
        { class: 'cell data', role: 'gridcell' },
        createElement('span', { class: 'sum', 'aria-hidden': 'true', text }),
        this.cells.createStrip(item, column.clusters),
        createElement('span', { class: 'sr', text: this.cells.getRegionSentence(item, region) }),
      );
    }
    const cluster = column.clusters[0];
    const state = this.cells.getState(item, cluster);
    const wide = column.width >= 76;
    if (state === 'none' && !isFocused && !wide) return null;
    const text = wide ? this.cells.getText(item, cluster) : this.cells.getShortText(item, cluster);
    return createElement(
      'div',
      { class: ('cell data ' + state + ' ' + this.cells.getClasses(item, cluster)).trimEnd(), role: 'gridcell' },
      createElement('span', { 'aria-hidden': 'true', text }),
      createElement('span', { class: 'sr', text: this.cells.getSentence(item, cluster) }),
    );
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  tabIndex(row, column) {
    return this.focus.row === row && this.focus.column === column ? '0' : '-1';
  }

  /** @param {number} at */
  open(at) {
    const row = this.rows[at];
    this.focus = { row: at, column: 0 };
    if (!row) return;
    if (row.kind === 'item') this.openItem(row.item);
    else if (row.kind === 'fold') {
      this.unfolded.add(row.group);
      this.update();
      this.focusCell();
    } else if (this.unfolded.delete(row.name)) {
      this.update();
      this.focusCell();
    }
  }

  /** @param {KeyboardEvent} event */
  handleKey(event) {
    if (event.altKey || event.metaKey || event.target instanceof HTMLButtonElement) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / 30) - 2);
    const last = this.rows.length - 1;
    const columns = this.isNarrow() ? 1 : this.columns.length + 1;
    const { row, column } = this.focus;
    const moves = /** @type {Object<string, [number, number]>} */ ({
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      PageDown: [row + page, column],
      PageUp: [row - page, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [last, column] : [row, columns],
    });
    if (event.key === 'Enter' || event.key === ' ') this.open(row);
    else if (moves[event.key]) this.moveFocus(Math.max(0, Math.min(last, moves[event.key][0])), Math.max(0, Math.min(columns, moves[event.key][1])));
    else return;
    event.preventDefault();
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  moveFocus(row, column) {
    const before = this.focus.row;
    this.focus = { row, column: this.rows[row].kind === 'item' ? column : 0 };
    for (const at of new Set([before, row])) {
      const element = this.drawn.get(at);
      if (element) {
        element.remove();
        this.drawn.delete(at);
      }
    }
    this.showRow(row);
    this.drawRows();
    this.focusCell();
  }

  /** Scrolls until a row can be seen. @param {number} row */
  showRow(row) {
    const head = this.head.offsetHeight;
    const top = this.tops[row];
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (this.tops[row + 1] + head > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = this.tops[row + 1] + head - this.box.clientHeight;
  }

  focusCell() {
    const element = this.drawn.get(this.focus.row);
    const cell = element && element.querySelector('[data-column="' + this.focus.column + '"]');
    if (cell instanceof HTMLElement) cell.focus({ preventScroll: this.focus.column === 0 });
  }

  /**
   * Moves the focus to an object, if a row shows it.
   * @param {import('./model.js').Item} item
   */
  focusItem(item) {
    const at = this.rows.findIndex((row) => row.kind === 'item' && row.item === item);
    if (at >= 0) this.moveFocus(at, 0);
    else this.focusCell();
  }

  /**
   * The object before or after another one, in the order of the rows.
   * @param {import('./model.js').Item} item
   * @param {number} step
   * @returns {import('./model.js').Item|undefined}
   */
  findNeighbor(item, step) {
    const items = this.rows.flatMap((row) => (row.kind === 'item' ? [row.item] : []));
    return items[items.indexOf(item) + step];
  }

  /** Draws the first rows for print, where nothing scrolls. */
  printRows() {
    for (const element of this.drawn.values()) element.remove();
    this.drawn.clear();
    this.drawnWidth = [0, Infinity];
    // What is drawn for print is drawn again after it.
    this.layout = '';
    const number = Math.min(this.rows.length, PRINTED_ROWS);
    for (let at = 0; at < number; at += 1) {
      const element = this.drawRow(at);
      this.space.append(element);
      this.drawn.set(at, element);
    }
    this.space.style.height = this.tops[number] + 'px';
    if (number < this.rows.length) {
      const rest = createElement('p', { class: 'printed-rest', text: 'and ' + countWord(this.rows.length - number, 'more row') });
      appendChildren(this.space, [rest]);
      window.addEventListener('afterprint', () => rest.remove(), { once: true });
    }
  }
}

/**
 * The last row that begins at or above a height.
 * @param {number[]} tops
 * @param {number} height
 */
function findRow(tops, height) {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= height) low = middle;
    else high = middle - 1;
  }
  return Math.min(low, Math.max(0, tops.length - 2));
}

/**
 * The worst first; else they stay in their order. Sorting them all would cost more than the filter.
 * @param {import('./model.js').Item[]} items
 * @returns {import('./model.js').Item[]}
 */
function sortBySeverity(items) {
  /** @type {import('./model.js').Item[][]} */
  const sorted = [];
  for (const item of items) {
    const known = sorted[item.severity];
    if (known) known.push(item);
    else sorted[item.severity] = [item];
  }
  return sorted.flat();
}

/**
 * How many items have each flag.
 * @param {import('./model.js').Item[]} items
 * @returns {Map<string, number>}
 */
function countFlags(items) {
  /** @type {Map<string, number>} */
  const numbers = new Map();
  for (const item of items) {
    for (const flag of item.flags) numbers.set(flag, (numbers.get(flag) || 0) + 1);
  }
  return numbers;
}

/**
 * The signs of an item's flags, at most four.
 * @param {import('./model.js').Item} item
 * @param {import('./model.js').FlagWords} words
 * @returns {HTMLElement[]}
 */
function createSigns(item, words) {
  return Object.entries(words)
    .filter(([flag]) => item.flags.has(flag))
    .slice(0, 4)
    .map(([flag, [sign, word]]) =>
      createElement(
        'span',
        { class: 'flag ' + flag, title: word },
        createElement('span', { 'aria-hidden': 'true', text: sign }),
        createElement('span', { class: 'sr', text: word + ' ' }),
      ),
    );
}
