// What a served page asks its server: the page itself, the same page as it is now, the effect of a scenario, the difference from a
// revision, an explanation, and whether the repo has changed. A page in a file sends no requests.
//
// Every question carries the token of the address that `federate serve` prints. The token is in no cookie, which a browser would send
// to the servers on all ports: it is kept for this tab (`sessionStorage`), and other tabs of this server get it from this one.
import { createElement, getElement, replaceChildren, showText } from './dom.js';
import { pathOf, readDocument } from './model.js';

/** @typedef {{kind: string, cluster: string, value: string}} LiveEvent */
/** @typedef {{events: LiveEvent[], failover: boolean, revision: string}} LiveQuestion */

/** The events that can be chosen: the word for each, and an example of its value; those without a value have none. */
const EVENT_KINDS = /** @type {Object<string, [string, string]>} */ ({
  lose: ['Lose', ''],
  taint: ['Taint', 'key=value:NoExecute'],
  capacity: ['Resize', '50%'],
  remove: ['Remove', ''],
  scale: ['Scale', '+50%'],
});

/** The name of the token where this tab keeps it, and of the channel by which tabs of one server ask each other for it. */
const TOKEN_NAME = 'federate-token';

/** How long other tabs may take to answer, in milliseconds. */
const TAB_TIMEOUT = 500;

/** The token that every question carries; empty for a page in a file. */
let accessToken = '';

/** How long to wait before asking again a server that does not answer. */
const RETRY_DELAY = 3000;

/** The number of the repo's state that a served page shows; undefined for a page in a file. */
export function getServedState() {
  const state = document.documentElement.dataset.live;
  return state === undefined ? undefined : Number(state);
}

/**
 * The document that has the data. A page that is still empty is filled with what the server answers; if it does not, the page says why.
 * @returns {Promise<Document|undefined>}
 */
export async function openServedPage() {
  if (document.documentElement.dataset.empty === undefined) return document;
  window.addEventListener('hashchange', () => takeToken() && location.reload());
  takeToken();
  try {
    accessToken = await findToken();
    if (accessToken === '') throw new Error('This tab has no token: open the address that `federate serve` has printed.');
    const answer = await requestDocument(location.pathname, new AbortController().signal);
    storeToken(accessToken);
    document.title = answer.title;
    document.documentElement.dataset.live = answer.documentElement.dataset.live;
    delete document.documentElement.dataset.empty;
    document.body.replaceChildren(...[...document.importNode(answer.body, true).childNodes].filter((node) => node.nodeName !== 'SCRIPT'));
    return answer;
  } catch (error) {
    replaceChildren(getElement('sentence'), String(error instanceof Error ? error.message : error));
    return undefined;
  }
}

/** Takes the token out of the address, `#token=TOKEN` or `#token=TOKEN/ITEM`, and returns whether there was one. */
function takeToken() {
  const found = /^#token=([0-9a-f]+)(?:\/(.*))?$/.exec(location.hash);
  if (!found) return false;
  storeToken(found[1]);
  history.replaceState(null, '', location.pathname + location.search + (found[2] ? '#' + found[2] : ''));
  accessToken = found[1];
  return true;
}

/** @param {string} token */
function storeToken(token) {
  try {
    sessionStorage.setItem(TOKEN_NAME, token);
  } catch {
    // A browser may forbid it; then a tab that is loaded again asks the others.
  }
}

function readStoredToken() {
  try {
    return sessionStorage.getItem(TOKEN_NAME) || '';
  } catch {
    return '';
  }
}

/**
 * The token: that of this tab, or of another one of this server, which is asked by an empty message. From now on, this tab answers, too.
 * @returns {Promise<string>}
 */
function findToken() {
  const known = accessToken || readStoredToken();
  const channel = new BroadcastChannel(TOKEN_NAME);
  return new Promise((resolve) => {
    channel.onmessage = ({ data }) => {
      if (data !== '') resolve(String(data));
      else if (accessToken !== '') channel.postMessage(accessToken);
    };
    if (known !== '') return resolve(known);
    channel.postMessage('');
    setTimeout(() => resolve(''), TAB_TIMEOUT);
  });
}

/** @returns {Object<string, string>} */
function formatHeaders() {
  return { Accept: 'application/json', Authorization: 'Bearer ' + accessToken };
}

/**
 * The page that answers a question, as a document of which parts are taken over. No script of it runs.
 * @param {LiveQuestion} question
 * @param {AbortSignal} signal
 * @returns {Promise<Document>}
 */
export function requestPage(question, signal) {
  if (question.events.length > 0) return requestDocument('/api/whatif', signal, formatScenario(question));
  return requestDocument(question.revision ? '/api/diff?from=' + encodeURIComponent(question.revision) : '/', signal);
}

/**
 * A page, as a document of which parts are taken over. No script of it runs.
 * @param {string} address
 * @param {AbortSignal} signal
 * @param {string} [question] what is sent
 * @returns {Promise<Document>}
 */
function requestDocument(address, signal, question) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(question === undefined ? 'GET' : 'POST', address);
    if (question !== undefined) request.setRequestHeader('Content-Type', 'application/json');
    request.setRequestHeader('Accept', 'text/html');
    request.setRequestHeader('Authorization', 'Bearer ' + accessToken);
    request.responseType = 'document';
    request.onload = () => {
      const answer = request.responseXML;
      const refusal = answer && answer.getElementById('refusal');
      if (answer && request.status === 200) resolve(answer);
      else reject(new Error(refusal ? refusal.textContent || '' : 'the server answers ' + request.status));
    };
    request.onerror = () => reject(new Error('the server does not answer: it may have ended'));
    request.onabort = () => reject(new DOMException('a newer question was asked', 'AbortError'));
    signal.addEventListener('abort', () => request.abort());
    request.send(question === undefined ? null : question);
  });
}

/**
 * A scenario as the server reads it.
 * @param {LiveQuestion} question
 */
function formatScenario(question) {
  /** @type {Object<string, string[]>} */
  const events = {};
  for (const event of question.events) (events[event.kind] = events[event.kind] || []).push(formatEvent(event));
  return JSON.stringify({ events, failover: question.failover });
}

/**
 * An event as an option of `federate whatif` has it.
 * @param {LiveEvent} event
 */
function formatEvent(event) {
  if (event.value === '') return event.cluster;
  const isSelector = event.cluster.includes('=') && !event.cluster.startsWith('(');
  return (isSelector ? '(' + event.cluster + ')' : event.cluster) + '=' + event.value;
}

/**
 * The explanation of an object as it is now, in the form that pages have.
 * @param {import('./data.js').Model} model
 * @param {import('./data.js').Item} item
 * @returns {Promise<import('./data.js').PageExplanation|undefined>}
 */
export async function requestExplanation(model, item) {
  const { apiVersion, kind, namespace, name } = item.ref;
  const group = apiVersion.includes('/') ? '.' + apiVersion.split('/')[0] : '';
  const query = new URLSearchParams({ object: kind + group + '/' + name, namespace: namespace || '' });
  const answer = await fetch('/api/explain?' + query, { headers: formatHeaders() });
  if (!answer.ok) return undefined;
  return readExplanation(model, item, await answer.json());
}

/**
 * @param {import('./data.js').Model} model
 * @param {import('./data.js').Item} item
 * @param {any} document what `federate explain -o json` prints
 * @returns {import('./data.js').PageExplanation|undefined}
 */
function readExplanation(model, item, document) {
  if (!document.explanation && !document.clusters) return undefined;
  const explanation = document.explanation || document;
  /** @type {Map<string, import('./data.js').PageExplanation['clusters'][0]>} */
  const verdicts = new Map();
  for (const row of explanation.clusters || []) {
    const at = model.clusterNumbers.get(row.cluster);
    if (at === undefined) continue;
    const key = [row.chosen, row.refusedBy, row.why].join('\u0000');
    const known = verdicts.get(key);
    if (known) known.clusters.push(at);
    else verdicts.set(key, { clusters: [at], chosen: row.chosen, refusedBy: row.refusedBy, why: row.why || '' });
  }
  const numbers = (/** @type {string[]} */ names) => names.flatMap((name) => model.clusterNumbers.get(name) ?? []);
  const overrides = (document.manifests || []).flatMap((/** @type {any} */ changed) =>
    (changed.overrides || []).map((/** @type {any} */ one) => ({ policy: one.policy.kind + ' ' + pathOf(one.policy) + ' (' + one.origin + ')', clusters: numbers(changed.clusters), fields: one.paths || [] })),
  );
  return { object: item.index, origin: document.origin || '', policy: explanation.policy || [], steps: explanation.steps || [], clusters: [...verdicts.values()], overrides };
}

/**
 * Says when the repo has changed, for as long as the page is open.
 * @param {number} known
 * @param {{changed: (error: string|null) => void, lost: () => void}} listener
 */
export async function followState(known, listener) {
  for (;;) {
    try {
      const answer = await fetch('/api/state?after=' + known, { headers: formatHeaders() });
      if (!answer.ok) throw new Error('the server answers ' + answer.status);
      const state = await answer.json();
      if (!state.unchanged) {
        known = state.number;
        listener.changed(state.error);
      }
    } catch {
      listener.lost();
      await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY));
    }
  }
}

/**
 * Keeps a page at what its own address answers: when the repo changes, and after each `delay` of milliseconds, if there is one.
 * @param {import('./page.js').Page} page
 * @param {number} [delay]
 */
export function followPage(page, delay) {
  const served = getServedState();
  if (served === undefined) return;
  const say = (/** @type {string} */ text) => replaceChildren(page.status, showText(text));
  /** @type {AbortController|undefined} */
  let waiting;
  /** @type {number|undefined} */
  let timer;
  const refresh = async () => {
    clearTimeout(timer);
    if (waiting) waiting.abort();
    const mine = new AbortController();
    waiting = mine;
    try {
      const answer = await requestDocument(location.pathname, mine.signal);
      const data = await readDocument(answer);
      if (waiting === mine) page.show(answer, page.view.createModel(data));
    } catch (error) {
      if (waiting === mine) say(String(error instanceof Error ? error.message : error));
    }
    if (waiting === mine && delay) timer = setTimeout(refresh, delay);
  };
  if (delay) timer = setTimeout(refresh, delay);
  followState(served, {
    changed: (error) => (error ? say('The repo cannot be read: ' + error) : refresh()),
    lost: () => say('The server does not answer. It may have ended: start `federate serve` again, and open its new address.'),
  });
}

/** The controls of a served page: what happens, and with which revision it is compared. */
export class LiveControls {
  /**
   * @param {string[]} clusters
   * @param {(question: LiveQuestion) => void} ask
   */
  constructor(clusters, ask) {
    this.ask = ask;
    /** @type {LiveQuestion} */
    this.question = { events: [], failover: false, revision: '' };
    this.kind = /** @type {HTMLSelectElement} */ (
      createElement('select', { id: 'event-kind', change: () => this.showFields() }, ...Object.entries(EVENT_KINDS).map(([value, [text]]) => createElement('option', { value, text })))
    );
    this.names = createElement('datalist', { id: 'cluster-names' });
    this.cluster = /** @type {HTMLInputElement} */ (createElement('input', { id: 'event-cluster', list: 'cluster-names', autocomplete: 'off', spellcheck: 'false', required: true }));
    this.value = /** @type {HTMLInputElement} */ (createElement('input', { id: 'event-value', autocomplete: 'off', spellcheck: 'false' }));
    this.clusterLabel = createElement('label', { for: 'event-cluster', text: 'Cluster' });
    this.valueLabel = createElement('label', { for: 'event-value', text: 'By' });
    this.failover = /** @type {HTMLInputElement} */ (createElement('input', { type: 'checkbox', id: 'failover', change: () => this.change({ failover: this.failover.checked }) }));
    this.revision = /** @type {HTMLInputElement} */ (createElement('input', { id: 'revision', placeholder: 'main', autocomplete: 'off', spellcheck: 'false' }));
    this.chips = createElement('ul', { class: 'chips', 'aria-label': 'What happens' });
    this.status = createElement('p', { class: 'live-status muted', role: 'status' });
    /** Which plan a scenario starts from, where another one was shown before. */
    this.start = createElement('p', { class: 'live-start muted', hidden: true });
    const add = createElement('form', { class: 'live-form', submit: (/** @type {Event} */ event) => this.addEvent(event) }, this.kind, this.clusterLabel, this.cluster, this.valueLabel, this.value, this.names, createElement('button', { type: 'submit', text: 'Try' }), createElement('span', { class: 'choice-box' }, this.failover, createElement('label', { for: 'failover', text: 'Failover is on' })));
    this.kind.setAttribute('aria-label', 'What happens');
    const compare = createElement('form', { class: 'live-form', submit: (/** @type {Event} */ event) => this.compare(event) }, createElement('label', { for: 'revision', text: 'Or compare with revision' }), this.revision, createElement('button', { type: 'submit', text: 'Compare' }));
    this.reset = createElement('button', { type: 'button', text: 'Back to now', hidden: true, click: () => this.change({ events: [], revision: '' }) });
    this.element = createElement('section', { id: 'live', 'aria-labelledby': 'live-title' }, createElement('h2', { id: 'live-title', text: 'What if' }), add, this.chips, this.start, compare, this.reset, this.status);
    this.setClusters(clusters);
    this.showFields();
  }

  /** @param {string[]} clusters */
  setClusters(clusters) {
    replaceChildren(this.names, ...clusters.map((value) => createElement('option', { value })));
  }

  showFields() {
    const example = EVENT_KINDS[this.kind.value][1];
    this.value.hidden = this.valueLabel.hidden = example === '';
    this.value.placeholder = example;
    this.value.required = example !== '';
    const isScale = this.kind.value === 'scale';
    this.clusterLabel.textContent = isScale ? 'Workload' : 'Cluster';
    this.cluster.placeholder = isScale ? 'deployment/shop/web' : 'eu-1 or region=eu';
  }

  /** @param {Event} submit */
  addEvent(submit) {
    submit.preventDefault();
    const hasValue = EVENT_KINDS[this.kind.value][1] !== '';
    const event = { kind: this.kind.value, cluster: this.cluster.value.trim(), value: hasValue ? this.value.value.trim() : '' };
    if (event.cluster === '' || (hasValue && event.value === '')) return;
    this.cluster.value = this.value.value = '';
    this.change({ events: [...this.question.events, event], revision: '' });
  }

  /** @param {Event} submit */
  compare(submit) {
    submit.preventDefault();
    const revision = this.revision.value.trim();
    if (revision !== '') this.change({ events: [], revision });
  }

  /**
   * Loses a cluster, or brings it back.
   * @param {string} cluster
   */
  toggleLoss(cluster) {
    const others = this.question.events.filter((event) => event.kind !== 'lose' || event.cluster !== cluster);
    const isLost = others.length < this.question.events.length;
    this.change({ events: isLost ? others : [...others, { kind: 'lose', cluster, value: '' }], revision: '' });
  }

  /** @param {Partial<LiveQuestion>} change */
  change(change) {
    const before = this.question;
    this.question = { ...before, ...change };
    if (this.question.events.length === 0) this.start.hidden = true;
    else if (before.revision) {
      this.start.hidden = false;
      this.start.textContent = showText('This starts from the plan of now. The comparison with ' + before.revision + ' is no longer shown.');
    }
    this.drawChips();
    // Without events, failover changes nothing.
    if (change.events || change.revision || this.question.events.length > 0) this.ask(this.question);
  }

  drawChips() {
    const chips = this.question.events.map((event, at) =>
      createElement('li', {}, createElement('span', { text: EVENT_KINDS[event.kind][0] + ' ' + event.cluster + (event.value ? ' ' + event.value : '') }), createElement('button', { type: 'button', 'aria-label': 'Undo: ' + event.kind + ' ' + event.cluster, text: '✕', click: () => this.removeEvent(at) })),
    );
    replaceChildren(this.chips, ...chips);
    this.chips.hidden = chips.length === 0;
    this.reset.hidden = chips.length === 0 && this.question.revision === '';
  }

  /** @param {number} at */
  removeEvent(at) {
    this.change({ events: this.question.events.filter((_, other) => other !== at) });
    this.cluster.focus();
  }

  /**
   * @param {string} text
   * @param {boolean} [isBad]
   */
  say(text, isBad = false) {
    this.status.classList.toggle('bad', isBad);
    replaceChildren(this.status, text);
  }
}
