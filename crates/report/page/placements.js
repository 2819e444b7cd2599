// The pages of `plan`, `diff` and `whatif`, in a file or live.
import { getElement } from './dom.js';
import { Model } from './data.js';
import { readDocument } from './model.js';
import { Page, PageView, startPage } from './page.js';
import { Matrix } from './matrix.js';
import { PlacementCells } from './cells.js';
import { drawMoves } from './moves.js';
import { drawValues } from './values.js';
import { drawCapacity } from './capacity.js';
import { drawFleet } from './fleet.js';
import { drawFindings } from './findings.js';
import { applyLoss, drawLosses } from './losses.js';
import { drawPane } from './pane.js';
import { LiveControls, followState, getServedState, openServedPage, requestExplanation, requestPage } from './live.js';

class PlacementView extends PageView {
  constructor() {
    super();
    /** What a served page asks with. @type {LiveControls|undefined} */
    this.live = undefined;
    /** The question that waits for its answer. @type {AbortController|undefined} */
    this.waiting = undefined;
    /** @type {Matrix|undefined} */
    this.matrix = undefined;
    /** The objects as they are now, on a page of losses. @type {Model|undefined} */
    this.now = undefined;
    /** The loss that is shown. @type {import('./data.js').UnitLoss|undefined} */
    this.loss = undefined;
  }

  /** @param {any} data */
  createModel(data) {
    return new Model(data);
  }

  /** @param {Page} page */
  createList(page) {
    const model = getModel(page);
    if (getServedState() !== undefined) {
      this.live = new LiveControls(model.data.clusters.map((cluster) => cluster.name), (question) => this.ask(page, question));
    }
    this.now = model;
    this.matrix = new Matrix(model, new PlacementCells(model), page.showSection('matrix'), (item) => page.open(item), this.createToggle(page, model));
    return this.matrix;
  }

  /**
   * What a click on the name of a cluster does: it loses the cluster where that can be asked for, or is known.
   * @param {Page} page
   * @param {Model} model
   * @returns {((cluster: string) => void)|undefined}
   */
  createToggle(page, model) {
    const { live } = this;
    if (live) return (cluster) => live.toggleLoss(cluster);
    const { losses } = model.data;
    if (!losses || losses.pairs || losses.each !== 'cluster') return undefined;
    return (cluster) => {
      const loss = losses.rows.find((row) => row.lose === cluster);
      this.showLoss(page, loss === this.loss ? undefined : loss);
    };
  }

  /**
   * Shows a loss that was chosen in the table, which is drawn anew: the focus goes to its row, and the matrix comes into view.
   * @param {Page} page
   * @param {import('./data.js').UnitLoss|undefined} loss
   */
  showLossFromTable(page, loss) {
    this.showLoss(page, loss);
    const button = document.querySelector('#losses [aria-pressed="true"]') || document.querySelector('#losses button');
    if (button instanceof HTMLElement) button.focus({ preventScroll: true });
    if (loss) getElement('matrix').scrollIntoView();
  }

  /**
   * Shows what a loss does, or what runs now.
   * @param {Page} page
   * @param {import('./data.js').UnitLoss|undefined} loss
   */
  showLoss(page, loss) {
    if (!this.now) return;
    this.loss = loss;
    page.setModel(loss ? new Model(applyLoss(this.now.data, loss)) : this.now);
  }

  /** @param {Page} page */
  updateList(page) {
    const model = getModel(page);
    if (this.matrix) this.matrix.setModel(model, new PlacementCells(model), page.showSection('matrix'));
    if (this.live) this.live.setClusters(model.data.clusters.map((cluster) => cluster.name));
  }

  /** @param {Page} page */
  drawSections(page) {
    const model = getModel(page);
    if (this.live) getElement('verdict').after(this.live.element);
    const toggle = this.now && this.createToggle(page, this.now);
    drawFleet(model, page.showSection('fleet'), toggle || ((cluster) => page.toggleText('cluster:' + cluster)));
    if (this.now && this.now.data.losses) drawLosses(this.now, page.showSection('losses'), this.loss, { show: (loss) => this.showLossFromTable(page, loss), openItem: (item) => page.open(item) });
    if (document.getElementById('capacity')) drawCapacity(model, page.showSection('capacity'));
    if (document.getElementById('findings')) drawFindings(model, page.showSection('findings'), (item) => page.open(item));
  }

  /**
   * @param {Page} page
   * @param {import('./data.js').Item[]} items
   */
  drawItems(page, items) {
    const model = getModel(page);
    const moves = document.getElementById('moves');
    if (moves && !model.isDiff) moves.hidden = true;
    if (!model.isDiff) return;
    drawMoves(model, page.showSection('moves'), items);
    if (document.getElementById('values')) drawValues(page.showSection('values'), items.flatMap((item) => model.getValues(item)), ['Before', 'After'], 'No field of a manifest changes, besides replicas of placements.', (item) => page.open(item));
  }

  /**
   * A served page gets the explanation when an object is opened.
   * @param {Page} page
   * @param {import('./data.js').Item} item
   * @param {import('./page.js').PaneActions} actions
   */
  drawPane(page, item, actions) {
    const model = getModel(page);
    if (this.live && !model.explanations.has(item.index)) {
      requestExplanation(model, item).then((explanation) => {
        if (!explanation || page.opened !== item) return;
        model.explanations.set(item.index, explanation);
        const hadFocus = page.pane.contains(document.activeElement);
        const heading = page.drawPane(item);
        if (hadFocus) heading.focus();
      }, () => undefined);
    }
    return drawPane(model, page.pane, item, actions);
  }

  /**
   * Asks the server, and shows its answer unless a newer question has been asked.
   * @param {Page} page
   * @param {import('./live.js').LiveQuestion} question
   */
  async ask(page, question) {
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
      page.show(answer, model);
    } catch (error) {
      if (this.waiting !== waiting) return;
      this.waiting = undefined;
      live.say(String(error instanceof Error ? error.message : error), true);
    }
  }

  openDocument() {
    return openServedPage();
  }

  /**
   * Asks again when the repo has changed.
   * @param {Page} page
   */
  start(page) {
    const live = this.live;
    if (!live) return;
    followState(getServedState() || 0, {
      changed: (error) => {
        if (error) live.say('The repo cannot be read: ' + error, true);
        else this.ask(page, live.question);
      },
      lost: () => live.say('The server does not answer. It may have ended: start `federate serve` again, and open its new address.', true),
    });
  }
}

/**
 * @param {Page} page
 * @returns {Model}
 */
function getModel(page) {
  return /** @type {Model} */ (page.model);
}

startPage(new PlacementView());
