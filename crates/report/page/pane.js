// One object in full: what happens to it, how it was decided, where it runs, what changes.
import { countWord, createElement, replaceChildren } from './dom.js';
import { Model, NOT_THERE, PLACED } from './data.js';
import { pathOf, valueText } from './model.js';
import { getCellState, getTotalText } from './cells.js';
import { listClusters } from './values.js';
import { createBadges, createPaneHead } from './page.js';

/** @typedef {import('./page.js').PaneActions} PaneActions */

/**
 * Draws the pane of an object, and returns its heading.
 * @param {Model} model
 * @param {HTMLElement} pane
 * @param {import('./data.js').Item} item
 * @param {PaneActions} actions
 * @returns {HTMLElement}
 */
export function drawPane(model, pane, item, actions) {
  const [bar, heading] = createPaneHead(item, pathOf(item.ref), actions);
  const explanation = model.explanations.get(item.index);
  const total = getTotalText(model, item);
  replaceChildren(
    pane,
    bar,
    heading,
    createBadges(model, item),
    createElement('p', { class: 'replicas' }, createElement('b', { text: total }), item.after.divided || item.before.divided ? (total === '1' ? ' replica' : ' replicas') : ''),
    createProblem(item),
    createPolicy(model, item, explanation, actions),
    createCauses(model, item),
    createClusters(model, item, explanation),
    explanation && model.data.mode === 'whatif' ? createElement('p', { class: 'muted', text: 'How it is decided now, before the scenario:' }) : null,
    createSteps(explanation),
    createOverrides(model, explanation),
    ...createChanges(model, item),
    explanation ? createElement('p', { class: 'muted', text: 'Defined in ' + explanation.origin + '.' }) : null,
    createElement('p', { class: 'muted' }, 'More: ', createElement('code', { text: 'federate explain ' + item.ref.kind.toLowerCase() + '/' + item.ref.name + (item.ref.namespace ? ' -n ' + item.ref.namespace : '') })),
  );
  return heading;
}

/** @param {import('./data.js').Item} item */
function createProblem(item) {
  const lost = item.row.lostPolicy;
  if (lost) return createElement('p', { class: 'problem' }, createElement('b', { class: 'bad', text: '§ No policy selects it any more.' }), ' ' + lost.why);
  const why = item.row.unschedulable && item.row.unschedulable.to;
  if (!why) return null;
  return createElement('p', { class: 'problem' }, createElement('b', { class: 'bad', text: '! ' + why.reason }), ' ' + why.message);
}

/**
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {import('./data.js').PageExplanation|undefined} explanation
 * @param {PaneActions} actions
 */
function createPolicy(model, item, explanation, actions) {
  const { from, to } = item.row.policy || {};
  const name = (/** @type {import('./data.js').ObjectRef|undefined} */ policy) => (policy ? policy.kind + ' ' + pathOf(policy) : 'no policy');
  const links = (/** @type {import('./data.js').Item[]} */ items) =>
    items.slice(0, 20).flatMap((other, at) => [at > 0 ? ', ' : '', createElement('button', { type: 'button', class: 'link', text: other.ref.kind + ' ' + pathOf(other.ref), click: () => actions.open(other) })]);
  const leaders = (item.row.follows || []).map((at) => model.items[at]);
  const followers = model.followers.get(item.index) || [];
  const changed = model.isDiff && name(from) !== name(to) && item.row.before !== undefined;
  return createElement(
    'section',
    {},
    createElement('h3', { text: 'Placed by' }),
    createElement('p', { text: changed ? name(from) + ' → ' + name(to) : to || from ? name(to || from) : leaders.length > 0 ? 'the objects that it follows' : name(undefined) }),
    leaders.length > 0 ? createElement('p', {}, 'Follows ', ...links(leaders), leaders.length > 20 ? ' and ' + (leaders.length - 20) + ' more' : '') : null,
    followers.length > 0 ? createElement('p', {}, 'Followed by ', ...links(followers), followers.length > 20 ? ' and ' + (followers.length - 20) + ' more' : '') : null,
    explanation && explanation.policy.length > 0 ? createElement('ul', { class: 'list' }, ...explanation.policy.map((text) => createElement('li', { text }))) : null,
  );
}

/**
 * @param {Model} model
 * @param {import('./data.js').Item} item
 */
function createCauses(model, item) {
  const numbers = new Set([...(item.row.causedBy || []), ...model.getChanges(item).flatMap((change) => change.causedBy || [])]);
  if (numbers.size === 0) return null;
  const rows = [...numbers].slice(0, 10).map((at) => {
    const cause = model.data.causes[at];
    return createElement('li', {}, createElement('b', { text: cause.object ? cause.object.kind + ' ' + pathOf(cause.object) : cause.sources ? cause.sources.join(', ') : 'the configuration' }), ' ', createElement('code', { text: cause.file + ':' + cause.line }));
  });
  return createElement('section', {}, createElement('h3', { text: 'Because of' }), createElement('ul', { class: 'list' }, ...rows, numbers.size > 10 ? createElement('li', { text: 'and ' + (numbers.size - 10) + ' more edits' }) : null));
}

/**
 * The clusters, those together that say the same: changed ones first.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {import('./data.js').PageExplanation|undefined} explanation
 */
function createClusters(model, item, explanation) {
  /** @type {Map<string, {state: string, words: string, why: string, names: string[]}>} */
  const groups = new Map();
  const reasons = new Map((explanation ? explanation.clusters : []).flatMap((verdict) => verdict.clusters.map((at) => [at, (verdict.refusedBy ? verdict.refusedBy + ': ' : '') + verdict.why])));
  const words = (/** @type {number} */ replicas) => (replicas === NOT_THERE ? 'none' : replicas === PLACED ? 'placed' : String(replicas));
  model.data.clusters.forEach((cluster, at) => {
    const state = getCellState(model, item, at);
    const why = reasons.get(at) || '';
    const [before, after] = [words(item.before.replicas[at]), words(item.after.replicas[at])];
    const text = state === 'none' ? 'not there' : state === 'same' ? after : before + ' → ' + (model.lost.has(at) ? 'lost' : after);
    const key = state + '\u0000' + text + '\u0000' + why;
    const group = groups.get(key) || { state, words: text, why, names: [] };
    group.names.push(cluster.name);
    groups.set(key, group);
  });
  const order = ['gone', 'new', 'more', 'fewer', 'same', 'none'];
  const sorted = [...groups.values()].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  const rows = sorted.map((group) =>
    createElement(
      'tr',
      {},
      createElement('td', { class: 'state ' + group.state, text: group.words }),
      createElement('th', { scope: 'row' }, group.names.length > 8 ? createFoldedNames(group.names) : group.names.join(', ')),
      createElement('td', { class: 'muted', text: group.why }),
    ),
  );
  return createElement(
    'section',
    {},
    createElement('h3', { text: 'Clusters' }),
    createElement('div', { class: 'scroll' }, createElement('table', {}, createElement('thead', {}, createElement('tr', {}, ...['Replicas', 'Clusters', 'Why'].map((text) => createElement('th', { scope: 'col', text })))), createElement('tbody', {}, ...rows))),
  );
}

/** @param {string[]} names */
function createFoldedNames(names) {
  return createElement('details', {}, createElement('summary', { text: listClusters(names) }), createElement('p', { text: names.join(', ') }));
}

/** @param {import('./data.js').PageExplanation|undefined} explanation */
function createSteps(explanation) {
  if (!explanation || explanation.steps.length === 0) return null;
  return createElement('section', {}, createElement('h3', { text: 'How it was decided' }), createElement('ol', { class: 'list' }, ...explanation.steps.map((text) => createElement('li', { text }))));
}

/**
 * @param {Model} model
 * @param {import('./data.js').PageExplanation|undefined} explanation
 */
function createOverrides(model, explanation) {
  if (!explanation || explanation.overrides.length === 0) return null;
  const rows = explanation.overrides.map((one) =>
    createElement('li', {}, createElement('b', { text: one.policy }), ' ', createElement('code', { text: one.fields.length > 0 ? one.fields.join(', ') : 'nothing' }), createElement('span', { class: 'muted', text: ' in ' + listClusters(one.clusters.map((at) => model.data.clusters[at].name)) })),
  );
  return createElement('section', {}, createElement('h3', { text: 'Overrides' }), createElement('ul', { class: 'list' }, ...rows));
}

/**
 * What changes in manifests: every value, and the difference as text.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @returns {Node[]}
 */
function createChanges(model, item) {
  const words = /** @type {Object<string, string>} */ ({ added: '+ added', changed: '≠ changed', removed: '− deleted' });
  return model.getChanges(item).map((change) => {
    const rows = change.paths.map((path) =>
      createElement('tr', {}, createElement('th', { scope: 'row' }, createElement('code', { text: path.path })), createElement('td', {}, createElement('del', { text: valueText(path.from) })), createElement('td', {}, createElement('ins', { text: valueText(path.to) }))),
    );
    const restarts = change.restartsPods ? ' · ↻ ' + (change.pods ? countWord(change.pods, 'pod') + ' restart' + (change.pods === 1 ? 's' : '') : 'pods restart') : '';
    return createElement(
      'section',
      {},
      createElement('h3', {}, words[change.kind] + ' in ' + countWord(change.clusters.length, 'cluster'), createElement('span', { class: 'muted', text: restarts })),
      createElement('p', { class: 'muted', text: change.clusters.join(', ') }),
      rows.length > 0
        ? createElement('div', { class: 'scroll' }, createElement('table', {}, createElement('thead', {}, createElement('tr', {}, ...['Field', 'Before', 'After'].map((text) => createElement('th', { scope: 'col', text })))), createElement('tbody', {}, ...rows)))
        : null,
      change.diff ? createDiff(change.diff) : null,
    );
  });
}

/** @param {string} diff */
function createDiff(diff) {
  const body = createElement('pre', { class: 'diff', tabindex: 0 });
  const kinds = /** @type {Object<string, string>} */ ({ '+': 'arrives', '-': 'leaves', '@': 'muted' });
  return createElement(
    'details',
    {
      toggle: () => {
        if (body.childNodes.length > 0) return;
        for (const line of diff.split('\n')) body.append(createElement('span', { class: kinds[line[0]] || '', text: line + '\n' }));
      },
    },
    createElement('summary', { text: 'Manifest' }),
    body,
  );
}
